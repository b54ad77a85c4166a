"""
What a plugin in a container is granted works there: models, notes, files, values and pages.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import fastness
import listeners
import models
from fastness import config
from fastness.runs import OutcomeKind

if TYPE_CHECKING:
    import pytest

_MANIFEST = """
id = "acme.all"
version = "1.0.0"
api = 1
runtime = "python"
entry = "main.py"
methods = ["go"]

[[capabilities]]
kind = "llm"
tiers = ["cheap"]
budget = 5.0
max_tokens = 100
reason = "Asks."

[[capabilities]]
kind = "memory"
notes = 5
quota = 10000
reason = "Notes."

[[capabilities]]
kind = "fs"
read = true
write = true
reason = "Files."

[[capabilities]]
kind = "storage"
quota = 10000
reason = "Values."

[[capabilities]]
kind = "net"
hosts = ["pages.test"]
schemes = ["http"]
ports = [PORT]
reason = "Pages."
"""
_CODE = """
def go(ctx):
    answer = ctx.llm.ask("what?")
    ctx.memory.add("red shoes")
    found = ctx.memory.search("SHOES")["notes"]
    ctx.fs.write("a.txt", b"kept")
    ctx.storage.put("k", 7)
    page = ctx.net.request("GET", f"http://pages.test:{PORT}/")
    refused = []
    for call in (lambda: ctx.llm.ask("what?", tier="strong"), lambda: ctx.fs.read("../a"),
                 lambda: ctx.net.request("GET", f"http://other.test:{PORT}/")):
        try:
            call()
        except ctx.Refused as error:
            refused.append(error.code)
    notes = [ctx.memory.get(one["id"])["text"] for one in found]
    return [bool(answer), notes, ctx.fs.read("a.txt"), ctx.storage.get("k"), refused, page["body"]]
"""


def test_what_is_granted_works(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by the host, within its scope; what was not granted is not there."""
    home, folder = tmp_path / "home", tmp_path / "all"
    monkeypatch.setenv("FASTNESS_HOME", str(home))
    for one in (home, home / "config", folder):
        one.mkdir(mode=0o700)
    server = models.Models()
    pages = listeners.Listener(lambda head: iter([listeners.answer(b"a page")]))
    try:
        (folder / "plugin.toml").write_text(_MANIFEST.replace("PORT", str(pages.port)))
        (folder / "main.py").write_text(_CODE.replace("PORT", str(pages.port)))
        models.key_file(home / "config")
        tiers = "".join(
            f"[llm.tiers.{tier}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in priced.items())
            for tier, priced in models.PRICES.items()
        )
        service = f'[llm]\nurl = "http://models.test:{server.port}/v1"\naddress = "127.0.0.1"\ncurrency = "EUR"\n'
        allowed = f'[[net.allow]]\nhost = "pages.test"\naddress = "127.0.0.1"\nport = {pages.port}\n'
        (home / "config" / "config.toml").write_text(service + tiers + allowed)
        (home / "config" / "config.toml").chmod(0o600)
        config.forget()
        with fastness.PluginHost(tier="container") as host:
            host.install(folder)
            host.grant("acme.all", owner="ann", all=True)
            result = host.invoke("acme.all", "go", owner="ann")
        assert result.outcome.kind is OutcomeKind.OK, result.stderr
        assert result.tier == "container"
        assert result.value == [True, ["red shoes"], b"kept", 7, ["not_granted", "escape", "host"], b"a page"]
        assert len(server.asked) == 1
        assert result.usage.cost > 0
    finally:
        pages.close()
        server.close()
        config.forget()

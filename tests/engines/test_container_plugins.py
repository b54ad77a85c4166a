"""
Plugins in the tier: a broker's calls come out of a container and their answers go in, and nothing else does.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import fastness
from fastness.runs import OutcomeKind

_MANIFEST = """
id = "acme.counter"
version = "1.0.0"
api = 1
runtime = "python"
entry = "main.py"
methods = ["count", "look"]

[[capabilities]]
kind = "storage"
quota = 4096
reason = "Keeps a count."
"""
_CODE = """
import os

def count(ctx, by):
    kept = ctx.storage.get("count") or 0
    ctx.storage.put("count", kept + by)
    return ctx.storage.get("count")

def look(ctx):
    return {"net": getattr(ctx, "net", None) is None, "user": os.getuid()}
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    folder = tmp_path / "counter"
    folder.mkdir()
    (folder / "plugin.toml").write_text(_MANIFEST)
    (folder / "main.py").write_text(_CODE)
    return folder


def test_a_plugin_in_a_container(named: str, plugin: Path) -> None:
    with fastness.PluginHost(tier="container") as host:
        host.install(plugin)
        host.grant("acme.counter", owner="ann", all=True)
        for expected in (2, 4):
            result = host.invoke("acme.counter", "count", {"by": 2}, owner="ann")
            assert (result.outcome.kind, result.value, result.tier) == (OutcomeKind.OK, expected, "container")
        seen = host.invoke("acme.counter", "look", owner="ann").value
        assert seen == {"net": True, "user": 65532}

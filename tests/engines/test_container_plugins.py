"""
Plugins in the tier: a broker's calls come out of a container and their answers go in, and nothing else does.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import fastness
import mails
from fastness import config
from fastness.plugins.scheduling import Fired
from fastness.runs import OutcomeKind

_MANIFEST = """
id = "acme.counter"
version = "1.0.0"
api = 1
runtime = "python"
entry = "main.py"
methods = ["count", "look", "later"]

[[capabilities]]
kind = "storage"
quota = 4096
reason = "Keeps a count."

[[capabilities]]
kind = "schedule"
standing = 1
reason = "Counts later."
"""
_CODE = """
import os
import time

def count(ctx, by):
    kept = ctx.storage.get("count") or 0
    ctx.storage.put("count", kept + by)
    return ctx.storage.get("count")

def later(ctx, by):
    return ctx.schedule.at(time.time(), "count", {"by": by, "approved": True})

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


def test_a_plugin_that_is_called_later(named: str, plugin: Path) -> None:
    """By the host, in a container of its own, with what was not forged."""
    fired: list[Fired] = []
    with fastness.PluginHost(tier="container", schedule=True, on_fired=fired.append) as host:
        host.install(plugin)
        host.grant("acme.counter", owner="ann", all=True)
        assert host.invoke("acme.counter", "later", {"by": 5}, owner="ann").raise_for_outcome().value == 1
        ends = time.monotonic() + 60
        while not fired and time.monotonic() < ends:
            time.sleep(0.05)
    assert fired[0].result is not None
    assert (fired[0].result.value, fired[0].result.tier) == (5, "container")


_MAILER = """
id = "acme.teller"
version = "1.0.0"
api = 1
runtime = "python"
entry = "main.py"
methods = ["tell"]

[[capabilities]]
kind = "integrations"
actions = ["email.send", "sms.send"]
recipients = ["example.com"]
per_day = 5
reason = "Tells you."
"""
_MAIL = """
def tell(ctx):
    found = [sorted(vars(ctx.integrations)), ctx.integrations.email.send("ann@example.com", "s", "t")["recipients"]]
    for given in ({"to": "eve@evil.test"}, {"subject": "a\\nBcc: eve@evil.test"}):
        try:
            ctx.integrations.email.send(**{"to": "ann@example.com", "subject": "s", "text": "t", **given})
        except ctx.Refused as error:
            found.append(error.code)
    return found
"""


def test_a_mail_from_a_container(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves by the host, which has the password; what nobody does is not there."""
    home, folder = tmp_path / "home", tmp_path / "teller"
    monkeypatch.setenv("FASTNESS_HOME", str(home))
    for one in (home, home / "config", folder):
        one.mkdir(mode=0o700)
    (folder / "plugin.toml").write_text(_MAILER)
    (folder / "main.py").write_text(_MAIL)
    server = mails.Mails()
    try:
        mails.password_file(home / "config")
        (home / "config" / "config.toml").write_text(server.toml(user="robot"))
        (home / "config" / "config.toml").chmod(0o600)
        config.forget()
        with fastness.PluginHost(tier="container") as host:
            host.install(folder)
            host.grant("acme.teller", owner="ann", all=True)
            result = host.invoke("acme.teller", "tell", owner="ann")
        assert (result.tier, result.value) == ("container", [["email"], 1, "not_granted", "header"]), result.stderr
        assert [(taken.user, taken.to) for taken in server.taken] == [("robot", ["ann@example.com"])]
    finally:
        server.close()
        config.forget()


_BUILDER = """
id = "acme.builder"
version = "1.0.0"
api = 1
runtime = "python"
entry = "main.py"
methods = ["build"]

[[capabilities]]
kind = "process"
runs = 1
tier = "{tier}"
reason = "Builds."
"""
_BUILD = """
import os, subprocess

def build(ctx):
    code = "import os; open('out', 'w').write(open('in').read() + str(os.getuid())); print(sorted(os.listdir('/')))"
    made = ctx.process.run(["python3", "-c", code], {"in": b"by "}, 10)
    try:
        subprocess.run(["/bin/true"])
    except OSError as error:
        started = type(error).__name__
    else:
        started = "started"
    return [made["outcome"], made["files"], b"fastness" in made["stdout"] or b"work" in made["stdout"], started]
"""


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("FASTNESS_HOME", str(home))
    config.forget()
    folder = tmp_path / "builder"
    folder.mkdir()
    (folder / "main.py").write_text(_BUILD)
    return folder


@pytest.mark.parametrize("asked", ["container", "isolated"])
def test_programs_of_a_plugin_run_in_containers(
    asked: str, named: str, builder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what was granted, or since the operator has put all of them there; the plugin itself is elsewhere."""
    if asked == "isolated":
        (tmp_path / "home" / "config").mkdir(mode=0o700, parents=True)
        (tmp_path / "home").chmod(0o700)
        (tmp_path / "home" / "config" / "config.toml").write_text('[process]\ntier = "container"\n')
        config.forget()
    (builder / "plugin.toml").write_text(_BUILDER.format(tier=asked))
    with fastness.PluginHost(tier="isolated") as host:
        host.install(builder)
        host.grant("acme.builder", owner="ann", all=True)
        result = host.invoke("acme.builder", "build", owner="ann")
    assert result.tier == "isolated"
    assert result.value == ["ok", {"out": b"by 65532"}, True, "PermissionError"], result.stderr
    config.forget()


def test_without_an_engine_such_a_grant_is_refused(
    builder: Path, monkeypatch: pytest.MonkeyPatch, named: str, tmp_path: Path
) -> None:
    """At once, and not at the first call; no other tier stands in."""
    monkeypatch.setenv("FASTNESS_ENGINE", f"unix://{tmp_path}/none.sock")
    (builder / "plugin.toml").write_text(_BUILDER.format(tier="container"))
    with fastness.PluginHost(tier="isolated") as host:
        host.install(builder)
        with pytest.raises(fastness.TierUnavailable, match=r"none\.sock"):
            host.grant("acme.builder", owner="ann", all=True)


def test_a_plugin_with_programs_is_put_into_a_container_by_its_operator(named: str, builder: Path) -> None:
    """The plugin in one container, and each of its programs in another."""
    (builder / "plugin.toml").write_text(_BUILDER.format(tier="container"))
    with fastness.PluginHost() as host:
        host.install(builder)
        host.set_tier("acme.builder", "container")
        host.grant("acme.builder", owner="ann", all=True)
        result = host.invoke("acme.builder", "build", owner="ann")
    assert (result.tier, result.value[:3]) == ("container", ["ok", {"out": b"by 65532"}, True]), result.stderr


def test_a_plugin_that_lives_in_a_container(named: str, tmp_path: Path) -> None:
    """Registered with a host of this process, as long as that lives."""
    path = tmp_path / "living.py"
    path.write_text(
        'MANIFEST = {"id": "living", "version": "1.0.0"}\nimport os\n'
        "def setup(ctx):\n    ctx.provide('user', os.getuid())\n"
    )
    plugin = fastness.IsolatedPlugin.load(path, policy={"provide": ["user"]}, tier="container", start_timeout=30)
    host = fastness.DefaultPluginHost()
    try:
        host.register(plugin)
        host.start()
        assert host.lookup("user") == 65532
        assert plugin.results["setup"].tier == "container"
    finally:
        host.stop()
        plugin.close()


_TELLER = """
id = "acme.{id}"
version = "1.0.0"
api = 1
runtime = "python"
entry = "main.py"
methods = ["tell", "hear"]

[[capabilities]]
kind = "signals"
publish = ["news.*"]
subscribe = ["news.*"]
handlers = [{{topic = "news.*", method = "hear"}}]
reason = "To tell."
"""
_TELL = """
import os

def tell(ctx):
    return [ctx.signals.publish("news.a", {"text": "tea", "owner": "bob"}), ctx.signals.take()["signals"]]

def hear(ctx, signal):
    return [signal["topic"], signal["sender"], signal["data"], os.getuid()]
"""


def test_signals_between_containers(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One container sends what leads to a call in another."""
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    with fastness.PluginHost(tier="container") as host:
        for id in ("one", "two"):
            folder = tmp_path / id
            folder.mkdir()
            (folder / "plugin.toml").write_text(_TELLER.format(id=id))
            (folder / "main.py").write_text(_TELL)
            host.install(folder)
            host.grant(f"acme.{id}", owner="ann", all=True)
        assert host.invoke("acme.one", "tell", owner="ann").value == [{"queued": 2, "dropped": 0}, []]
        (made,) = host.deliver()
        assert made.result is not None
        assert (made.plugin, made.result.tier) == ("acme.two", "container")
        assert made.result.value == ["news.a", "acme.one", {"text": "tea"}, 65532]

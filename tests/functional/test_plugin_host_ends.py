"""What is under way when a host, a grant or a program ends: nothing goes on, and the record says what became of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastness
import house
import listeners
from fastness import runtime
from fastness.audit.record import KILLED
from fastness.errors import BackendError
from fastness.runner import trail
from fastness.runs import OutcomeKind
from listeners import Listener
from plugin_homes import STORAGE, kept, own_home, package, rows

PROGRAM = {"kind": "process", "runs": 2, "seconds": 60, "reason": "to build"}


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    house.require("isolated tier")
    with own_home(tmp_path / "home") as made:
        yield made


def _until(condition: Any, seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not come to that"
        time.sleep(0.02)


def _running(word: str) -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and word in house.command_of(int(name))]


def test_a_program_ends_with_its_grant(base: Path) -> None:
    """Revoked while a program runs in its box: the program is ended, and the plugin is told."""
    house.require("control groups")
    word = f"31{os.getpid()}"
    text = f"""
    def go(ctx):
        try:
            return ctx.process.run(["/bin/sleep", "{word}"], timeout=50)
        except ctx.Refused as refused:
            return refused.code
    """
    with fastness.PluginHost() as host:
        host.install(package(base.parent / "p", textwrap.dedent(text), methods=["go"], capabilities=[PROGRAM]))
        host.grant("hello", owner="ann", all=True)
        found: list[fastness.RunResult] = []
        thread = threading.Thread(target=lambda: found.append(host.invoke("hello", "go", owner="ann")))
        thread.start()
        _until(lambda: _running(word))
        assert host.revoke("hello", owner="ann").in_flight == ()
        thread.join(30)
        assert found[0].value == "revoked", found[0].stderr
        _until(lambda: not _running(word), 10)
    assert [(row.phase, row.code) for row in rows(base, op="run")] == [("intent", ""), ("outcome", "answer_revoked")]


def test_a_host_that_is_killed(base: Path) -> None:
    """Between the intent and the outcome: the next host closes the record and says so, and no guest is left."""
    code = f"""
    import sys, threading, time
    sys.path.insert(0, {str(Path(house.__file__).parent)!r})
    from pathlib import Path
    from plugin_homes import own_home, package
    import fastness
    def wait() -> None:
        print("waiting", flush=True)
        time.sleep(60)
    with own_home(Path({str(base)!r})), fastness.PluginHost(functions={{"wait": wait}}) as host:
        asks = {{"kind": "host", "names": ["wait"], "reason": "to wait"}}
        text = "def go(ctx): ctx.host.wait()\\ndef other(ctx): return 1"
        host.install(package(Path({str(base.parent / "p")!r}), text, methods=["go", "other"], capabilities=[asks]))
        host.grant("hello", owner="ann", all=True)
        host.invoke("hello", "go", owner="ann")
    """
    environment = {**os.environ, "PYTHONPATH": str(house.SOURCE)}
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, env=environment, text=True
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "waiting\n"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(20)
        child.stdout.close()
    with fastness.PluginHost() as host:
        assert host.invoke("hello", "other", owner="ann").value == 1
    # A dead host's groups stay until somebody below its home starts; its guests are gone within a second.
    _until(lambda: runtime.sweep_groups() or not house.free_groups(), 10)
    assert [row.code for row in rows(base, capability="host", phase="outcome")] == [KILLED]


_REVOKER = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from plugin_homes import kept, own_home
import fastness
with own_home(Path({base!r})), fastness.PluginHost() as host:
    for line in sys.stdin:
        host.revoke("hello", owner="ann")
        print(kept(Path({base!r})), flush=True)
"""


def test_no_effect_comes_after_a_revocation_elsewhere(base: Path) -> None:
    """A plugin writes without end, another process revokes: what is kept when that has returned is what stays."""
    text = """
    def go(ctx):
        number = 0
        try:
            while True:
                ctx.storage.put("n", number)
                number += 1
        except ctx.Refused as refused:
            return refused.code
    """
    limits = {"calls": 1_000_000, "wall_s": 60.0}
    code = _REVOKER.format(tests=str(Path(house.__file__).parent), base=str(base))
    environment = {**os.environ, "PYTHONPATH": str(house.SOURCE)}
    with fastness.PluginHost() as host:
        folder = package(
            base.parent / "p", textwrap.dedent(text), methods=["go"], capabilities=[STORAGE], limits=limits
        )
        host.install(folder)
        other = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert other.stdin is not None and other.stdout is not None
        try:
            for number in range(10):
                host.grant("hello", owner="ann", all=True)
                found: list[Any] = []
                thread = threading.Thread(
                    target=lambda f=found: f.append(host.invoke("hello", "go", owner="ann").value)
                )  # type: ignore[misc]  # a default argument
                before = kept(base)
                thread.start()
                _until(lambda b=before: kept(base) != b)  # type: ignore[misc]  # as above
                time.sleep(0.003 * number)
                other.stdin.write("now\n")
                other.stdin.flush()
                then = other.stdout.readline().strip()
                thread.join(60)
                assert found == ["revoked"]
                assert str(kept(base)) == then
        finally:
            other.stdin.close()
            other.wait(20)
            other.stdout.close()


def test_nothing_runs_that_cannot_be_recorded(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the trail cannot be written no plugin is called."""
    text = "def go(ctx): return 1"
    with fastness.PluginHost() as host:
        host.install(package(base.parent / "p", text, methods=["go"]))
        host.grant("hello", owner="ann")
        assert host.invoke("hello", "go", owner="ann").value == 1

        def broken(**fields: object) -> None:
            raise BackendError("writing the audit trail", "the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(trail.open_trail(), "event", broken)
            with pytest.raises(BackendError, match="the disk is full"):
                host.invoke("hello", "go", owner="ann")
        assert host._inner._core._running == {}
        assert host.invoke("hello", "go", owner="ann").value == 1


def test_many_threads_and_owners(base: Path) -> None:
    """Each owner's runs see that owner's keys, whoever runs beside them."""
    text = """
    def go(ctx, who):
        before = ctx.storage.get("who")
        ctx.storage.put("who", who)
        return before
    """
    with fastness.PluginHost(pool=2) as host:
        host.install(package(base.parent / "p", textwrap.dedent(text), methods=["go"], capabilities=[STORAGE]))
        wrong: list[Any] = []

        def work(owner: str) -> None:
            for number in range(4):
                result = host.invoke("hello", "go", {"who": owner}, owner=owner)
                if result.value != (owner if number else None):
                    wrong.append((owner, number, result))

        owners = [f"owner {number}" for number in range(6)]
        for owner in owners:
            host.grant("hello", owner=owner, all=True)
        threads = [threading.Thread(target=work, args=(owner,)) for owner in owners]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert wrong == []
    found = rows(base, capability="storage", phase="intent")
    assert len(found) == 6 * 4 * 2
    # Each run is of one owner.
    assert len({row.run for row in found}) == len({(row.run, row.owner) for row in found}) == 24


@pytest.mark.parametrize("secret", ["/x/secret", "/x/other"])
def test_credentials_of_the_operator(secret: str, base: Path) -> None:
    """From the operator's file to the request that they are bound to, and never to the plugin."""
    with listeners.nothing_leaves():
        heard: list[bytes] = []

        def say(head: bytes) -> list[bytes]:
            heard.append(head)
            token = next((line for line in head.split(b"\r\n") if line.lower().startswith(b"authorization")), b"")
            return [listeners.answer(b"you sent " + token)]

        server = Listener(say)
        try:
            (base / "config").mkdir(parents=True, mode=0o700)
            origin = f"http://127.0.0.1:{server.port}"
            (base / "config" / "secrets.toml").write_text(
                f'[[secret]]\nname = "token"\nowners = ["ann"]\norigin = "{origin}"\nplain_http = true\n'
                'methods = ["GET"]\npath = "/x/secret"\nvalue = "sk-0123456789abcdef"\n'
            )
            (base / "config" / "secrets.toml").chmod(0o600)
            (base / "config" / "config.toml").write_text(
                f'[[net.allow]]\nhost = "127.0.0.1"\naddress = "127.0.0.1"\nport = {server.port}\n'
            )
            asks = {
                "kind": "net", "hosts": ["127.0.0.1"], "schemes": ["http"], "ports": [server.port],
                "secrets": ["token"], "reason": "to ask",
            }  # fmt: skip
            text = "def go(ctx, url): return ctx.net.request('GET', url)['body']"
            with fastness.PluginHost() as host:
                host.install(package(base.parent / "p", text, methods=["go"], capabilities=[asks]))
                for owner in ("ann", "bob"):
                    host.grant("hello", owner=owner, all=True)
                ann = host.invoke("hello", "go", {"url": origin + secret}, owner="ann")
                bob = host.invoke("hello", "go", {"url": origin + secret}, owner="bob")
        finally:
            server.close()
    assert ann.outcome.kind is bob.outcome.kind is OutcomeKind.OK, ann.stderr
    sent = [b"sk-0123456789abcdef" in head for head in heard]
    assert sent == [secret == "/x/secret", False]
    assert b"sk-0123456789abcdef" not in ann.value
    assert b"sk-0123456789abcdef" not in (base / "data" / "audit.db").read_bytes()

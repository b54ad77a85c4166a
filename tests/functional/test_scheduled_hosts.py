"""What a host of plugins calls when it is due: under the policy of that moment, once, on record, and after a restart."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fastness
import house
from fastness.cli import exits
from fastness.cli.main import main
from fastness.errors import ConfigurationError
from fastness.plugins.scheduling import Fired
from plugin_homes import STORAGE, kept, own_home, package, rows

SCHEDULE = {"kind": "schedule", "standing": 4, "interval_s": 1.0, "reason": "calls itself"}
CODE = """
import time

def at(ctx, after=0.0, method="work", args=None):
    return ctx.schedule.at(time.time() + after, method, args or {})

def every(ctx, seconds=1.0, after=0.0):
    return ctx.schedule.every(seconds, "work", {}, time.time() + after)

def work(ctx, **given):
    ctx.storage.put(str(time.time_ns()), sorted(given.items()))
    return given

def chain(ctx):
    ctx.schedule.at(time.time(), "chain")
    ctx.schedule.at(time.time(), "chain")

def spin(ctx):
    while True:
        pass
"""
METHODS = ["at", "every", "work", "chain", "spin"]
_WAIT_S = 30.0


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    house.require("isolated tier")
    (tmp_path / "home").mkdir(mode=0o700)
    with own_home(tmp_path / "home") as made:
        yield made


class World:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.fired: list[Fired] = []
        self.host = fastness.PluginHost(on_fired=self.fired.append)
        self.install()
        self.grant()

    def install(self, methods: list[str] = METHODS, **how: Any) -> None:
        folder = self.base.parent / f"source-{time.monotonic_ns()}"
        self.host.install(package(folder, CODE, [STORAGE, SCHEDULE], methods=methods), **how)

    def grant(self, **how: Any) -> None:
        self.host.grant("hello", owner="ann", **({"all": True} | how))

    def ask(self, called: str, **args: Any) -> Any:
        return self.host.invoke("hello", called, args, owner="ann").raise_for_outcome().value

    def wait(self, count: int = 1) -> list[tuple[int, str]]:
        """The numbers of what was due, and why it was not called, where it was not."""
        until(lambda: len(self.fired) >= count)
        return [(one.id, one.code) for one in self.fired]


def until(true: Callable[[], Any]) -> None:
    ends = time.monotonic() + _WAIT_S
    while not true():
        assert time.monotonic() < ends, "it did not come true"
        time.sleep(0.01)


@pytest.fixture
def quiet(base: Path) -> Iterator[World]:
    """Nothing is called before the host is told to."""
    made = World(base)
    yield made
    made.host.close()


@pytest.fixture
def world(quiet: World) -> World:
    quiet.host.start_schedule()
    return quiet


def test_it_is_called(world: World) -> None:
    """Once, with its arguments but for what was forged, in a run of its own that is on record like any other."""
    args = {"n": 1, "owner": "bob", "deep": [{"approved": True, "due_at": 0, "m": 2}]}
    assert world.ask("at", after=0.2, args=args) == 1
    (standing,) = world.host.schedules()
    assert (standing.plugin, standing.owner, standing.id, standing.method) == ("hello", "ann", 1, "work")
    world.wait()
    (fired,) = world.fired
    assert fired.result is not None
    assert fired.result.value == {"n": 1, "deep": [{"m": 2}]}
    assert fired.at >= fired.due
    assert world.host.schedules() == []
    outcome = rows(world.base, capability="schedule", phase="outcome")
    assert [(row.op, row.dropped, row.code) for row in outcome] == [("at", 3, "")]
    told = [row for row in rows(world.base, phase="event") if row.op in ("fire", "invoke", "end")]
    ops = [(row.op, row.owner, row.target.split(" of ")[0], row.code) for row in told]
    assert ops[-3:] == [("fire", "ann", "1: work", ""), ("invoke", "ann", "work", ""), ("end", "ann", "work", "ok")]
    assert told[-1].run == fired.result.run_id
    # Nothing of the arguments is in any record.
    assert not any("deep" in row.target for row in rows(world.base))


def test_again_and_again_until_it_is_taken_off(world: World) -> None:
    """By the operator, on record."""
    assert world.ask("every") == 1
    world.wait(2)
    assert world.host.cancel_schedule("hello", 1, owner="bob") is False
    assert world.host.cancel_schedule("hello", 1, owner="ann") is True
    assert world.host.schedules() == []
    assert [(row.owner, row.target) for row in rows(world.base, op="unschedule")] == [("ann", "1")]
    with pytest.raises(ConfigurationError):
        world.host.cancel_schedule("hello", 0, owner="ann")


def changed(world: World) -> None:
    (found,) = world.base.rglob("main.py")
    found.chmod(0o600)
    found.write_text("def work(ctx, **given): ctx.storage.put('x', 1)")


ENDINGS: dict[str, tuple[Callable[[World], Any], str]] = {
    "revoked": (lambda world: world.host.revoke("hello", owner="ann"), "not_granted"),
    "granted without it": (lambda world: world.grant(all=False, allowed=["storage"]), "not_granted"),
    "expired": (lambda world: world.grant(expires=time.time() + 0.3), "expired"),
    "disabled": (lambda world: world.host.disable("hello"), "disabled"),
    "quarantined": (lambda world: world.host.quarantine("hello", "it looked odd"), "quarantined"),
    "upgraded without the method": (lambda world: world.install(methods=["at"], upgrade=True), "absent"),
    "changed on disk": (changed, "changed"),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_what_has_ended_meanwhile(how: str, quiet: World) -> None:
    """What may not be called any more when it is due is not called, and that is on record; nothing of it has run."""
    end, code = ENDINGS[how]
    quiet.ask("at")
    end(quiet)
    time.sleep(0.35 if how == "expired" else 0.0)
    quiet.host.start_schedule()
    assert quiet.wait() == [(1, code)]
    assert quiet.fired[0].result is None
    assert kept(quiet.base) == []
    refused = [row for row in rows(quiet.base, decision="refused") if row.op == "fire"]
    assert [(row.owner, row.code, row.target.split(" of ")[0]) for row in refused] == [("ann", code, "1: work")]


def test_upgraded_and_waiting(quiet: World) -> None:
    """An upgrade that asks for more is not called before it is granted, and then is, by what was scheduled before."""
    quiet.ask("every", seconds=1.0)
    more = {"kind": "memory", "notes": 1, "quota": 1000, "reason": "more"}
    folder = quiet.base.parent / "more"
    quiet.host.install(package(folder, CODE, [STORAGE, SCHEDULE, more], methods=METHODS, version="2.0.0"), upgrade=True)
    quiet.host.start_schedule()
    assert quiet.wait()[0] == (1, "not_granted")
    assert kept(quiet.base) == []
    quiet.grant()
    until(lambda: kept(quiet.base) and quiet.fired[-1].code == "")


def test_a_smaller_grant(quiet: World) -> None:
    """Of what stands no more than may by then is called, those that were there first."""
    for _ in range(4):
        quiet.ask("at")
    quiet.grant(all=False, allowed=[scope(standing=2, interval_s=20.0), "storage"])
    quiet.host.start_schedule()
    assert sorted(quiet.wait(4)) == [(1, ""), (2, ""), (3, "quota"), (4, "quota")]


def test_a_grant_of_longer_steps(quiet: World) -> None:
    """What comes more often than may by then is not called."""
    quiet.ask("every")
    quiet.grant(all=False, allowed=[scope(standing=4, interval_s=30.0), "storage"])
    quiet.host.start_schedule()
    assert quiet.wait()[0] == (1, "rate")
    assert kept(quiet.base) == []


def scope(**fields: Any) -> Any:
    from fastness.capabilities.schedule import ScheduleScope

    return ScheduleScope(**fields)


def test_removed_and_installed_anew(quiet: World) -> None:
    """A plugin of its name is called for nothing that it scheduled."""
    quiet.ask("every")
    quiet.host.remove("hello")
    assert quiet.host.schedules() == []
    quiet.install()
    quiet.grant()
    quiet.host.start_schedule()
    time.sleep(0.2)
    assert (quiet.fired, kept(quiet.base)) == ([], [])


def test_a_plugin_that_schedules_itself(world: World) -> None:
    """It is called as often in an interval as may stand, whatever it schedules from within."""
    world.grant(all=False, allowed=[scope(standing=4, interval_s=20.0)])
    world.ask("chain")
    world.wait(4)
    time.sleep(0.5)
    assert len(world.fired) == 4
    assert {row.code for row in rows(world.base, capability="schedule", decision="refused")} == {"quota"}


def test_a_host_that_closes(world: World) -> None:
    """What it has called is ended with it, and is over; what is not due yet is called by the next host."""
    world.ask("at", method="spin")
    world.ask("at", after=1.5)
    until(lambda: [row for row in rows(world.base, op="invoke") if row.target == "spin"])
    began = time.monotonic()
    world.host.close()
    assert time.monotonic() - began < 15
    assert [one.id for one in world.fired] == [1]
    with fastness.PluginHost() as idle:
        assert [one.id for one in idle.schedules()] == [2]
        time.sleep(0.7)
    assert kept(world.base) == []
    fired: list[Fired] = []
    with fastness.PluginHost(schedule=True, on_fired=fired.append):
        until(lambda: fired)
    assert [(one.id, one.code) for one in fired] == [(2, "")]
    assert len(kept(world.base)) == 1


def test_asynchronous_hosts(base: Path) -> None:
    """They call what is due beside what their loop does, from when they are told to."""
    fired: list[Fired] = []

    async def work() -> None:
        async with fastness.AsyncPluginHost(on_fired=fired.append) as host:
            await host.install(package(base.parent / "source", CODE, [STORAGE, SCHEDULE], methods=METHODS))
            await host.grant("hello", owner="ann", all=True)
            (await host.invoke("hello", "at", owner="ann")).raise_for_outcome()
            await asyncio.sleep(0.3)
            assert fired == []
            host.start_schedule()
            host.start_schedule()
            async with asyncio.timeout(_WAIT_S):
                while not fired:  # noqa: ASYNC110  # a thread of the timer's tells it
                    await asyncio.sleep(0.01)
            (await host.invoke("hello", "every", {"after": 50.0}, owner="ann")).raise_for_outcome()
            assert await host.cancel_schedule("hello", 2, owner="ann") is True

    asyncio.run(work())
    assert [one.code for one in fired] == [""]


def test_an_adapter_of_the_caller_s_own(base: Path) -> None:
    """A host that does not keep the schedule itself cannot call what is on it, and says so."""
    from fastness.capabilities.schedule import SPEC

    class Own:
        spec = SPEC

        async def call(self, operation: str, arguments: Any, context: Any) -> Any:
            return None

        async def aclose(self) -> None:
            pass

    with pytest.raises(ConfigurationError, match="schedule"):
        fastness.PluginHost(adapters={"schedule": Own()}, schedule=True)


HOST = """
import sys, time, fastness
with fastness.PluginHost(schedule=True, on_fired=lambda fired: print(fired.id, fired.code or "ok", flush=True)):
    print("ready", flush=True)
    time.sleep(60)
"""


def run_host(base: Path) -> subprocess.Popen[bytes]:
    made = subprocess.Popen(
        [sys.executable, "-c", HOST], env={**os.environ, "FASTNESS_HOME": str(base)}, stdout=subprocess.PIPE
    )
    assert made.stdout is not None
    assert made.stdout.readline() == b"ready\n"
    return made


def test_hosts_that_share_and_one_that_is_killed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed host had called is not called again, and is on record; the rest is called once, by the other."""
    from fastness.plugins import timer as timers

    monkeypatch.setattr(timers, "_GONE_S", 0.1)
    world.host.close()
    with fastness.PluginHost() as quiet:
        quiet.invoke("hello", "at", {"method": "spin"}, owner="ann").raise_for_outcome()
    with run_host(world.base) as other:
        until(lambda: [row for row in rows(world.base, op="invoke") if row.target == "spin"])
        with fastness.PluginHost(schedule=True, on_fired=world.fired.append) as host:
            host.invoke("hello", "at", {"after": 1.0}, owner="ann").raise_for_outcome()
            host.invoke("hello", "at", {"after": 1.0}, owner="ann").raise_for_outcome()
            time.sleep(0.5)
            os.kill(other.pid, signal.SIGKILL)
            other.wait()
            until(lambda: len(world.fired) >= 3)
            time.sleep(0.3)
    assert sorted((one.id, one.code) for one in world.fired) == [(1, "killed"), (2, ""), (3, "")]
    assert len(kept(world.base)) == 2
    fires = [row for row in rows(world.base, op="fire") if row.target.startswith("1: spin")]
    assert [(row.decision, row.code) for row in fires] == [("allowed", ""), ("refused", "killed")]


def test_commands(world: World, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """They show what stands, take one off, and call what is due until they are interrupted."""
    monkeypatch.setenv("FASTNESS_HOME", str(world.base))
    world.host.close()
    assert main(["plugin", "schedule"]) == exits.OK
    assert "nothing is scheduled" in capfd.readouterr().err
    with fastness.PluginHost() as quiet:
        for after in (0.0, 50.0, 60.0):
            quiet.invoke("hello", "at", {"after": after}, owner="ann").raise_for_outcome()
    assert main(["plugin", "schedule"]) == exits.OK
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines[2:]] == [["hello", "ann", str(n), "work"] for n in (1, 2, 3)]
    assert main(["plugin", "schedule", "--owner", "bob", "--json"]) == exits.OK
    assert json.loads(capfd.readouterr().out) == {"schema": 1, "schedules": []}
    cancel = ["plugin", "schedule", "--cancel", "2", "--plugin", "hello"]
    assert main(cancel) == exits.USAGE
    assert "nothing scheduled under 2 for the owner me" in capfd.readouterr().err
    assert main([*cancel, "--owner", "ann"]) == exits.OK
    assert main(["plugin", "schedule", "--json"]) == exits.OK
    assert [one["id"] for one in json.loads(capfd.readouterr().out.splitlines()[-1])["schedules"]] == [1, 3]
    for wrong in (["--cancel", "1"], ["--run", "--plugin", "hello"]):
        assert main(["plugin", "schedule", *wrong]) == exits.USAGE
    command = [sys.executable, "-m", "fastness.cli", "plugin", "schedule", "--run", "--json"]
    with subprocess.Popen(command, env={**os.environ}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(_WAIT_S) == exits.OK
    assert (told["id"], told["code"], told["method"]) == (1, "ok", "work")
    assert len(kept(world.base)) == 1


def test_use_is_counted(world: World) -> None:
    """A call that was due is a run of its owner's, as any other is."""
    world.ask("at")
    world.wait()
    used = world.host.usage(owner="ann")
    assert sum(row.runs for row in used) == 2
    assert {row.kind: row.calls for row in used if row.kind} == {"schedule": 1, "storage": 1}

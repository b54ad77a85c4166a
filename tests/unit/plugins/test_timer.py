"""The timer: what is due is fired once, by one of many, whatever fails, however the clock is set and whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastness.capabilities._schedule_store import Due, Store
from fastness.plugins import timer as timers
from fastness.plugins.timer import AT_ONCE, EACH, LOST, MISSED, SIDE, Timer

_WAIT_S = 20.0


def until(true: Callable[[], Any]) -> None:
    ends = time.monotonic() + _WAIT_S
    while not true():
        assert time.monotonic() < ends, "it did not come true"
        time.sleep(0.005)


class World:
    """A schedule, what was fired and told, and timers of it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.store = Store(str(base / "schedule.db"))
        self.ahead = 0.0
        self.fired: list[int] = []
        self.told: list[tuple[int, str]] = []
        self.timers: list[Timer] = []
        #: Called with what is fired.
        self.work: Callable[[Due], int] = lambda one: 0

    def now(self) -> float:
        return time.time() + self.ahead

    def add(
        self, after_s: float = 0.0, every_s: float = 0.0, owner: str = "o", *, plugin: str = "p", stepping: bool = True
    ) -> int:
        now = round(self.now() * 1e6)
        due = now + round(after_s * 1e6)
        made = self.store.add(
            (plugin, owner), "m", b"{}", due=due, every=round(every_s * 1e6), stepping=stepping, most=10_000, now=now,
            halt=lambda: None,
        )  # fmt: skip
        for timer in self.timers:
            timer.wake()
        return made

    def start(self) -> Timer:
        def fire(one: Due) -> int:
            self.fired.append(one.id)
            return self.work(one)

        made = Timer(
            self.store,
            str(self.base / "timers"),
            fire,
            lambda one, why: self.told.append((one.id, why)),
            clock=self.now,
        )
        self.timers.append(made)
        made.start()
        return made

    def rows(self) -> int:
        return int((self.store._database.read("SELECT count(*) FROM schedules", ()) or (0,))[0])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    for timer in made.timers:
        timer.join()
    made.store.close()
    # Those that ended owe nothing.
    assert not list((tmp_path / "timers").glob("*"))


def test_what_is_due(world: World) -> None:
    """It is fired once, what was there before and what comes meanwhile; what is not due is not."""
    first = world.add()
    later = world.add(3600)
    world.start()
    until(lambda: world.fired == [first])
    second = world.add()
    until(lambda: world.fired == [first, second])
    until(lambda: world.rows() == 1)
    assert [one.id for one in world.store.standing()] == [later]
    assert world.told == []


def test_again_and_again(world: World) -> None:
    """It goes on in step until it is taken off."""
    number = world.add(every_s=0.05)
    world.start()
    until(lambda: len(world.fired) >= 4)
    assert world.store.cancel(("p", "o"), number, 0) is True
    count = len(world.fired)
    time.sleep(0.2)
    assert len(world.fired) <= count + 1


def test_timers_share(world: World) -> None:
    """Of several timers one fires each."""
    wanted = [world.add() for _ in range(200)]
    for _ in range(3):
        world.start()
    until(lambda: len(world.fired) >= 200)
    until(lambda: world.rows() == 0)
    assert sorted(world.fired) == wanted


def test_one_that_takes_long_holds_up_nobody(world: World) -> None:
    """A plugin and owner with many has so many threads; others' are fired meanwhile, and its own at last."""
    go = threading.Event()
    world.work = lambda one: 0 if one.owner != "o" or go.wait(_WAIT_S) else 1
    slow = {world.add() for _ in range(2 * EACH)}
    world.start()
    until(lambda: len(world.fired) == EACH)
    other = world.add(owner="other")
    until(lambda: len(world.fired) == EACH + 1)
    assert world.fired[-1] == other
    go.set()
    until(lambda: world.rows() == 0)
    assert set(world.fired) == slow
    assert len(world.fired) == 2 * EACH + 1


@pytest.mark.parametrize("side", ["plugin", "owner"])
def test_many_of_one_side_hold_up_nobody(world: World, side: str) -> None:
    """A plugin of many owners, and an owner of many plugins, leave threads for others, and are done at last."""
    go = threading.Event()
    world.work = lambda one: int(one.owner == "other" or go.wait(_WAIT_S))
    for _ in range(EACH):
        for name in ("a", "b", "c", "d"):
            world.add(**({"owner": name} if side == "plugin" else {"plugin": name}))
    world.start()
    until(lambda: len(world.fired) == SIDE)
    rest = range(AT_ONCE - SIDE)
    for _ in rest:
        world.add(owner="other", plugin="q")
    until(lambda: len(world.fired) == AT_ONCE)
    until(lambda: world.rows() == 4 * EACH)
    go.set()
    until(lambda: world.rows() == 0)
    assert len(world.fired) == 4 * EACH + len(rest)


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_one_that_fails(world: World, caplog: pytest.LogCaptureFixture, error: type[BaseException]) -> None:
    """It is logged, and over; others go on, also where there are more than threads."""
    count = 2 * EACH

    def work(one: Due) -> int:
        if one.id <= count:
            raise error("words of somebody else")
        return 0

    world.work = work
    for _ in range(count + 1):
        world.add()
    world.start()
    until(lambda: world.rows() == 0)
    assert sorted(world.fired) == list(range(1, count + 2))
    assert "a call of p that was scheduled failed" in caplog.text


def test_a_schedule_that_cannot_be_used(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said, and nothing is fired, until it can be; then what was due is."""
    monkeypatch.setattr(timers, "_AGAIN_S", 0.05)
    claim, refused = world.store.claim, [OSError("disk"), MemoryError("room")]

    def failing(*of: Any, **how: Any) -> Any:
        if refused:
            raise refused.pop(0)
        return claim(*of, **how)

    monkeypatch.setattr(world.store, "claim", failing)
    world.add()
    world.start()
    until(lambda: world.fired == [1])
    assert "nothing is called as scheduled for now: disk" in caplog.text


def test_what_ended_is_written_at_last(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that could not be ended is ended when that can be done, and fired no second time."""
    monkeypatch.setattr(timers, "_AGAIN_S", 0.05)
    claim, failures = world.store.claim, [1, 2, 3]

    def failing(*of: Any, **how: Any) -> Any:
        if how["ended"] and failures:
            failures.pop()
            raise OSError("disk")
        return claim(*of, **how)

    monkeypatch.setattr(world.store, "claim", failing)
    world.add()
    world.start()
    until(lambda: world.rows() == 0)
    assert (world.fired, failures) == ([1], [])


def test_what_was_missed(world: World) -> None:
    """It is told, and not fired."""
    world.add()
    world.add(every_s=60)
    world.ahead = 7200
    world.start()
    until(lambda: world.told and world.fired)
    assert (world.told, world.fired) == ([(1, MISSED)], [2])


def test_the_clock_is_set(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward: what is due by then is fired.  Back: what is called again and again is not held up."""
    world.add(1000)
    world.add(after_s=60, every_s=60)
    world.start()
    time.sleep(0.1)
    assert world.fired == []
    world.ahead = 1010
    until(lambda: sorted(world.fired) == [1, 2])
    world.ahead = -100_000
    until(lambda: [one.due - world.now() <= 60 for one in world.store.standing()] == [True])
    world.ahead = -99_930
    until(lambda: sorted(world.fired) == [1, 2, 2])


def test_stopping(world: World) -> None:
    """What fires is waited for, and nothing else is fired."""
    go = threading.Event()
    world.work = lambda one: 0 if go.wait(_WAIT_S) else 1
    timer = world.start()
    world.add()
    until(lambda: world.fired == [1])
    timer.stop()
    world.add()
    threading.Timer(0.1, go.set).start()
    timer.join()
    assert world.fired == [1]
    assert [one.id for one in world.store.standing()] == [2]
    timer.join()


HOST = """
import os, sys, time
from fastness.capabilities._schedule_store import Store
from fastness.plugins.timer import Timer

def fire(one):
    # In one piece: two threads do so at once.
    os.write(1, b"%d\\n" % one.id)
    time.sleep(60)

Timer(Store(sys.argv[1]), sys.argv[2], fire, print).start()
sys.stdin.readline()
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(60)
"""


def test_a_killed_host(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    What it had claimed is told and not fired again, in any number of timers, though a child of it lives; what is called
    again goes on.
    """
    monkeypatch.setattr(timers, "_GONE_S", 0.05)
    world.add()
    world.add(every_s=0.2)
    world.start()
    until(lambda: world.rows() == 1)
    world.timers[0].stop()
    world.timers[0].join()
    world.fired.clear()
    third = world.add()
    arguments = [sys.executable, "-c", HOST, str(world.base / "schedule.db"), str(world.base / "timers")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert {int(process.stdout.readline()) for _ in range(2)} == {2, third}
        # One that lives is not taken for dead.
        world.start()
        time.sleep(0.3)
        assert (world.told, world.fired) == ([], [])
        process.stdin.write(b"\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        world.start()
        try:
            until(lambda: sorted(world.told) == [(2, LOST), (third, LOST)])
        finally:
            os.kill(child, signal.SIGKILL)
    until(lambda: len(world.fired) >= 2)
    assert set(world.fired) == {2}

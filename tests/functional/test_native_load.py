"""
Native sandboxes under load and in the middle of things: pools, replaced zygotes, cancelled and interrupted runs, forks.

Whatever ends a run, what it had comes back: its place, its user, its slot, its descriptors, its processes.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import fastness
import house
from fastness._linux import procs
from fastness.backends import native_family
from fastness.backends.native import NativeBackend
from fastness.runs import OutcomeKind


@pytest.fixture(params=["confined", "isolated"])
def tier(request: pytest.FixtureRequest) -> str:
    house.require(f"{request.param} tier")
    return str(request.param)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = set(procs.descendants(os.getpid()))
    yield
    end = time.monotonic() + house.PROCESS_GRACE_S
    while (left := house.apart_from(before)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not left, [(pid, house.parent_of(pid), house.state_of(pid), house.command_of(pid)) for pid in left]


def backend_of(sandbox: fastness.AsyncSandbox | fastness.Sandbox) -> NativeBackend:
    inner = sandbox if isinstance(sandbox, fastness.AsyncSandbox) else sandbox._inner
    (found,) = inner._runner._backends.values()
    assert isinstance(found, NativeBackend)
    return found


def taken(backend: NativeBackend) -> dict[str, int]:
    """What guests that are at work have of their backend; zeros where nobody is."""
    families = list(backend._families.values())
    ready = [guest for one in families for guest in one._ready.values()]
    found = {
        "guests": sum(len(one._guests) for one in families) - len(ready),
        "holders": sum(one.holders for one in families),
        "old": sum(len(one._old) for one in families),
        "talks": len(backend._talks),
    }
    if backend.tier.value == "isolated":
        live = [(one, one._zygote) for one in families if one._zygote is not None and one._zygote.uids is not None]
        taken = sum(zygote.uids.count - 1 - len(one._users[id(zygote)]) for one, zygote in live if zygote.uids)
        found["users"] = taken - sum(1 for guest in ready if guest.inside_uid)
    return found


def all_given_back(backend: NativeBackend, within: float = 5.0) -> None:
    end = time.monotonic() + within
    while any((found := taken(backend)).values()) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(found.values()), found


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def kinds(results: list[Any]) -> set[str]:
    return {one.outcome.kind.value if isinstance(one, fastness.RunResult) else repr(one) for one in results}


# ------------------------------------------------------------------------------------------------------------- pools


@pytest.mark.slow
def test_two_hundred_at_once(tier: str) -> None:
    """Each of many runs gets its own answer, and afterwards there are as many descriptors as before."""

    async def main() -> None:
        async with fastness.AsyncSandbox(tier=tier, pool=4, timeout=60) as box:
            await asyncio.gather(*(box.run("0") for _ in range(8)))
            await asyncio.to_thread(all_given_back, backend_of(box))
            await asyncio.sleep(0.3)
            before = descriptors()
            results = await asyncio.gather(*(box.run(f"{i} * 2") for i in range(200)))
            assert [one.value for one in results] == [i * 2 for i in range(200)]
            await asyncio.to_thread(all_given_back, backend_of(box))
            await asyncio.sleep(0.3)
            # A guest that waits has a handful, and one more or less may wait.
            assert abs(descriptors() - before) <= 14

    asyncio.run(main())


@pytest.mark.slow
def test_zygotes_are_replaced_while_guests_run(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replacing a zygote ends no run and no session of the old one, which ends with its last guest."""

    async def main() -> None:
        async with fastness.AsyncSandbox(tier=tier, pool=2, timeout=60) as box:
            async with box.session() as session:
                await session.execute("kept = 41")
                monkeypatch.setattr(native_family, "RECYCLE_GUESTS", 5)
                results = await asyncio.gather(*(box.run(f"import time; time.sleep(0.01); {i}") for i in range(60)))
                assert [one.value for one in results] == list(range(60))
                assert (await session.execute("kept + 1")).value == 42
                assert any(one._old for one in backend_of(box)._families.values())
            monkeypatch.undo()
            await box.run("0")
            await asyncio.to_thread(all_given_back, backend_of(box))

    asyncio.run(main())


def test_an_old_zygote_is_replaced(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is one that made few guests and has lived for long; its session goes on, and it ends with that."""
    with fastness.Sandbox(tier=tier, timeout=20, pool=0) as box:
        with box.session() as session:
            session.execute("kept = 41")
            (family,) = backend_of(box)._families.values()
            before = family._zygote
            assert box.run("1").value == 1
            assert (family._zygote, family._old) == (before, [])
            monkeypatch.setattr(native_family, "RECYCLE_S", 0.0)
            assert box.run("2").value == 2
            assert family._zygote is not before
            assert before in family._old
            assert session.execute("kept + 1").value == 42
        monkeypatch.undo()
        assert box.run("3").value == 3
        all_given_back(backend_of(box))


@pytest.mark.slow
def test_more_tenants_than_are_kept(tier: str) -> None:
    """A tenant's run is not ended because others came after it."""

    async def main() -> None:
        async with fastness.AsyncSandbox(tier=tier, timeout=60) as box:
            runs = (box.run(f"import time; time.sleep(0.3); {i}", tenant=f"tenant-{i}") for i in range(20))
            assert [one.value for one in await asyncio.gather(*runs)] == list(range(20))
            await box.run("0", tenant="one more")
            assert len(backend_of(box)._families) <= 17

    asyncio.run(main())


def test_few_descriptors_on_demand(tier: str) -> None:
    """A guest that may have fewer than its own birth takes is born all the same, and has no more."""
    with fastness.Sandbox(tier=tier, timeout=20, pool=0) as box:
        code = "import resource; resource.getrlimit(resource.RLIMIT_NOFILE)[0]"
        assert [box.run(code, limits={"fds": 16}).value for _ in range(4)] == [16] * 4


def test_a_guest_that_waits_is_killed(tier: str) -> None:
    """One that has ended before it was given work is replaced, and nobody hears of it."""
    with fastness.Sandbox(tier=tier, pool=2) as box:
        box.run("0")
        for _ in range(5):
            for family in backend_of(box)._families.values():
                for guest in family._ready.values():
                    guest.box.kill()
                    assert guest.box.wait(5)
            assert box.run("6 * 7").value == 42


# ---------------------------------------------------------------------------------------------------------- sessions


@pytest.mark.parametrize(
    "end", ["import os; os._exit(3)", "import os; os.abort()", "while True: pass", "while True: print('x' * 65536)"]
)
def test_a_session_that_loses_its_guest(end: str, tier: str) -> None:
    """It says so at once and from then on; a new one works."""
    with fastness.Sandbox(tier=tier, timeout=5) as box:
        with box.session() as session:
            assert session.execute("kept = 1").state == "kept"
            assert session.execute(end, timeout=0.5).state == "lost"
            after = session.execute("kept")
            assert (after.state, after.outcome.kind) == ("lost", OutcomeKind.CRASHED)
        with box.session() as session:
            assert session.execute("1").state == "kept"
        all_given_back(backend_of(box))


# ------------------------------------------------------------------------------------------------- ends from outside


def test_cancel_ends_every_run(tier: str) -> None:
    """All of them, from another thread, and the sandbox goes on."""
    with fastness.Sandbox(tier=tier, timeout=30) as box:
        box.run("0")
        results: list[Any] = []
        threads = [
            threading.Thread(target=lambda: results.append(box.run("import time; time.sleep(30)"))) for _ in range(4)
        ]
        for one in threads:
            one.start()
        end = time.monotonic() + 10
        while len(backend_of(box)._talks) < 4 and time.monotonic() < end:
            time.sleep(0.01)
        box.cancel()
        for one in threads:
            one.join(10)
        assert kinds(results) == {"cancelled"}
        assert len(results) == 4
        assert box.run("6 * 7").value == 42
        all_given_back(backend_of(box))


@pytest.mark.parametrize("after", [0.0, 0.02, 0.1, 0.3])
def test_closing_in_the_middle(after: float, tier: str) -> None:
    """Runs of other threads end as cancelled or are refused; neither waits for its own end."""
    results: list[Any] = []

    def work() -> None:
        try:
            while True:
                results.append(box.run("import time; time.sleep(0.02)"))
        except fastness.FastnessError as error:
            results.append(error)

    box = fastness.Sandbox(tier=tier, timeout=30, pool=2)
    box.probe()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    time.sleep(after)
    began = time.monotonic()
    box.close()
    for one in threads:
        one.join(10)
    assert not any(one.is_alive() for one in threads)
    assert time.monotonic() - began < 8
    errors = [one for one in results if isinstance(one, Exception)]
    assert len(errors) == 4
    assert all(
        isinstance(one, (fastness.BackendError, fastness.ConfigurationError)) and "closed" in str(one) for one in errors
    ), errors
    rest = [one for one in results if not isinstance(one, Exception)]
    assert kinds(rest) <= {"ok", "cancelled"}


@pytest.mark.slow
def test_tasks_cancelled_at_any_moment(tier: str) -> None:
    """Whatever a run was doing when its task was cancelled, what it had comes back."""
    seed = random.Random(7)

    async def main() -> None:
        async with fastness.AsyncSandbox(tier=tier, engines=4, pool=1, timeout=20) as box:
            await box.run("0")
            for _ in range(6):
                tasks = [
                    asyncio.create_task(box.run("import time; time.sleep(0.01)", files={"a": b"x" * 100_000}))
                    for _ in range(12)
                ]
                for task in tasks:
                    await asyncio.sleep(seed.random() * 0.01)
                    if seed.random() < 0.7:
                        task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.to_thread(all_given_back, backend_of(box))
            results = await asyncio.gather(*(box.run(f"{i}") for i in range(12)))
            assert [one.value for one in results] == list(range(12))
            await asyncio.to_thread(all_given_back, backend_of(box))

    asyncio.run(main())


@pytest.mark.parametrize("after", [0.001, 0.004, 0.01, 0.05, 0.2])
def test_an_interrupt(after: float, tier: str) -> None:
    """Ctrl-C comes out of a blocking run, and the next run is none the worse."""
    with fastness.Sandbox(tier=tier, timeout=20, pool=0) as box:
        box.run("0")
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT)).start()
            box.run("import time; time.sleep(10)")
            time.sleep(5)
        assert box.run("6 * 7").value == 42
        all_given_back(backend_of(box))


def test_callers_that_hang_up_end_nobody_elses_guest() -> None:
    """Guests that are given up while they are born cost their zygote nothing, and others of its guests live on."""
    house.require("isolated tier")

    async def main() -> None:
        async with fastness.AsyncSandbox(tier="isolated", engines=8, pool=0, timeout=20) as box:
            await box.run("0")
            (family,) = backend_of(box)._families.values()
            zygote = family._zygote
            async with box.session() as session:
                await session.execute("kept = 41")
                for step in range(60):
                    task = asyncio.create_task(box.run("0"))
                    await asyncio.sleep(step * 0.0002)
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                assert (await session.execute("kept + 1")).value == 42
            assert family._zygote is zygote
            assert zygote is not None
            assert zygote.alive

    asyncio.run(main())


def test_a_deadline_covers_waiting_for_a_place(tier: str) -> None:
    """Who waits for another's guest to end waits no longer than his deadline."""
    with fastness.Sandbox(tier=tier, engines=1, timeout=10) as box:
        box.run("0")
        begun = threading.Event()
        code = "print('go', flush=True)\nimport time; time.sleep(60)"
        options = {"timeout": 60, "on_event": lambda *event: begun.set()}
        other = threading.Thread(target=box.run, args=(code,), kwargs=options)
        other.start()
        try:
            assert begun.wait(10)
            assert box.run("1", deadline=0.3).outcome.kind is OutcomeKind.TIMEOUT
            assert other.is_alive()
        finally:
            box.cancel()
            other.join()
        assert box.run("6 * 7").value == 42
        all_given_back(backend_of(box))


# ------------------------------------------------------------------------------------------------------------- forks


def test_a_fork_of_the_host(tier: str) -> None:
    """A child has guests of its own, and its end touches none of the parent's."""
    with fastness.Sandbox(tier=tier, timeout=20, pool=1) as box, box.session() as session:
        session.execute("kept = 41")
        told, telling = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with box:
                    code = 0 if box.run("6 * 7").value == 42 else 2
                    os.write(telling, b"1")
            finally:
                os._exit(code)
        os.close(telling)
        assert os.read(told, 1) == b"1"
        os.close(told)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert session.execute("kept + 1").value == 42
        assert box.run("1").value == 1


# ---------------------------------------------------------------------------------------------------------- refusals

FLOOD = "import socket\nfor _ in range({}):\n  try: socket.socket()\n  except OSError: pass\n"


def test_many_refusals(tier: str) -> None:
    """Thousands of refused calls are answered without waiting for anybody to hear of them."""
    with fastness.Sandbox(tier=tier, timeout=20) as box:
        began = time.monotonic()
        result = box.run(FLOOD.format(3000) + "'done'")
        assert (result.value, time.monotonic() - began < 10) == ("done", True)
        (row,) = [one for one in result.denials if one.operation == "socket"]
        assert 1000 <= row.count <= 3000


@pytest.mark.slow
def test_refusals_of_a_session_in_the_background(tier: str) -> None:
    """A session that goes on being refused between its turns hinders no other run."""
    code = "import threading, time\ndef work():\n  while True:\n    try: socket.socket()\n    except OSError: time.sleep(0.0005)\n"
    with fastness.Sandbox(tier=tier, timeout=20) as box, box.session() as session:
        session.execute("import socket\n" + code + "threading.Thread(target=work, daemon=True).start()")
        time.sleep(1.5)
        began = time.monotonic()
        assert [box.run(f"{i}").value for i in range(10)] == list(range(10))
        assert time.monotonic() - began < 5
        assert session.execute("6 * 7").value == 42

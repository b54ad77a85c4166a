"""
Native sandboxes whose callers and machines are at their worst: full sockets, no descriptors, little time.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from wasm_support import eventually

import fastness
import house
from fastness import OutcomeKind
from fastness._linux import procs
from fastness.backends import native_config, native_folders
from fastness.backends.native import NativeBackend
from fastness.backends.native_family import Family
from fastness.tier import Tier
from fastness.waiting import drive


@pytest.fixture(params=["confined", "isolated"])
def tier(request: pytest.FixtureRequest) -> str:
    house.require(f"{request.param} tier")
    return str(request.param)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = set(procs.descendants(os.getpid()))
    yield
    assert eventually(lambda: not house.apart_from(before), house.PROCESS_GRACE_S), house.apart_from(before)


def backend_of(sandbox: fastness.AsyncSandbox | fastness.Sandbox) -> NativeBackend:
    inner = sandbox if isinstance(sandbox, fastness.AsyncSandbox) else sandbox._inner
    (found,) = inner._runner._backends.values()
    assert isinstance(found, NativeBackend)
    return found


def family_of(sandbox: fastness.AsyncSandbox | fastness.Sandbox) -> Family:
    (found,) = backend_of(sandbox)._families.values()
    return found


def send(pids: list[int], number: int) -> None:
    """Signal processes, some of which may have ended meanwhile."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


# ------------------------------------------------------------------------------------------------- ends and beginnings


def test_a_caller_that_is_cancelled_leaves_nothing(tier: str) -> None:
    """The end of a sandbox is not cut short by the cancellation that led to it."""

    async def main() -> None:
        with anyio.CancelScope() as scope:
            async with fastness.AsyncSandbox(tier=tier) as sandbox:
                await sandbox.run("1")
                found.append(sandbox)
                scope.cancel()
                await anyio.sleep_forever()

    found: list[fastness.AsyncSandbox] = []
    keepers = {thread for thread in threading.enumerate() if thread.name == "fastness-keeper"}
    anyio.run(main)
    # That the processes are gone is what the fixture sees.
    assert {thread for thread in threading.enumerate() if thread.name == "fastness-keeper"} <= keepers
    assert found[0]._runner._closed


def test_cancelling_reaches_a_run_that_has_no_guest_yet(tier: str) -> None:
    """It ends as cancelled as soon as it has one, and not at its own time limit."""
    with fastness.Sandbox(tier=tier, engines=1, timeout=60) as sandbox:
        sandbox.run("0")
        family = family_of(sandbox)
        found: list[fastness.RunResult] = []
        # While this is held nobody starts a zygote.
        with family._spawning:
            assert family._zygote is not None
            family._zygote.kill()
            for guest in family._ready.values():
                assert guest.box.wait(10)
            run = threading.Thread(target=lambda: found.append(sandbox.run("while True: pass")))
            run.start()
            assert eventually(lambda: family.holders > 0, 10)
            sandbox.cancel()
        run.join(30)
        assert [one.outcome.kind for one in found] == [OutcomeKind.CANCELLED]
        assert sandbox.run("6 * 7").value == 42


def test_deadlines_shorter_than_a_start(tier: str) -> None:
    """The zygote goes on getting ready, so that a later run of the same kind finds it."""
    with fastness.Sandbox(tier=tier) as sandbox:
        sandbox.probe()
        kinds = []
        for _ in range(200):
            kinds.append(sandbox.run("1", deadline=0.03).outcome.kind)
            if kinds[-1] is OutcomeKind.OK:
                break
        assert set(kinds) <= {OutcomeKind.TIMEOUT, OutcomeKind.OK}
        assert kinds[-1] is OutcomeKind.OK


def test_a_start_that_nobody_waits_for_ends_with_the_sandbox(tier: str) -> None:
    """What a caller has left half started is ended by the close."""
    with fastness.Sandbox(tier=tier) as sandbox:
        sandbox.probe()
        sandbox.run("1", deadline=0.002)
        sandbox.run("1", deadline=0.03, tenant="other")


def test_a_probe_leaves_no_guests(tier: str) -> None:
    """What it has started serves nobody else, so it ends with the probe."""
    backend = NativeBackend(Tier(tier))
    try:
        assert drive(backend.probe(afresh=True)).holds
        assert len(backend._families) == 0
        assert eventually(lambda: not backend.guest_pids(), 10)
    finally:
        drive(backend.aclose())


# -------------------------------------------------------------------------------------------------------------- bounds


def test_more_runs_at_once_than_a_socket_holds(tier: str) -> None:
    """Requests that find the zygote's socket full wait for room, and none fails for it."""

    async def main() -> None:
        async with fastness.AsyncSandbox(tier=tier, engines=256, pool=0, timeout=120) as sandbox:
            await sandbox.run("0")
            family = family_of(sandbox)
            assert family._zygote is not None
            launcher = family._zygote.process.pid
            family_pids = [launcher, *procs.descendants(launcher)]

            async def run(number: int) -> None:
                values.append((await sandbox.run(str(number))).value)

            async with anyio.create_task_group() as group:
                # While they are stopped nothing is taken out of the socket.
                send(family_pids, signal.SIGSTOP)
                try:
                    for number in range(240):
                        group.start_soon(run, number)
                    assert await anyio.to_thread.run_sync(eventually, lambda: len(family._guests) == 240, 30.0)
                finally:
                    send(family_pids, signal.SIGCONT)

    values: list[Any] = []
    anyio.run(main)
    assert sorted(values) == list(range(240))


def test_kinds_that_nobody_asks_for_any_more(tier: str) -> None:
    """However many kinds of guests a caller has asked for, few of them are kept waiting."""
    with fastness.Sandbox(tier=tier, timeout=60) as sandbox:
        for step in range(14):
            sandbox.run("1", limits={"file_bytes": (1 + step) << 20})
        family = family_of(sandbox)
        # The kind that was asked for last is among them; it may not have been born yet.
        assert eventually(lambda: any(guest.key[0] == 14 << 20 for guest in family._ready.values()), 30)
        assert eventually(lambda: len(family._guests) == len(family._ready.values()) <= 9, 10)


def test_more_kinds_wanted_than_may_wait(tier: str) -> None:
    """Guests that are made ahead come to rest, although each kind's have to go for the next."""
    with fastness.Sandbox(tier=tier, pool=3, timeout=60) as sandbox:
        sandbox.run("0")
        keeper, held = backend_of(sandbox)._keeper, threading.Event()

        def wait() -> None:
            held.wait(30)

        keeper.soon(wait)
        for step in range(14):
            sandbox.run("1", limits={"file_bytes": (1 + step) << 20})
        held.set()
        family = family_of(sandbox)
        assert eventually(lambda: keeper._jobs.empty() and not keeper._wanted, 30)
        assert eventually(lambda: len(family._guests) == len(family._ready.values()) <= 11, 10)


def test_those_that_were_warmed_stay(tier: str) -> None:
    """Guests that a caller wants to wait are not given up for another kind."""
    with fastness.Sandbox(tier=tier, timeout=60) as sandbox:
        sandbox.warm(12)
        key = next(iter(family_of(sandbox)._ready.values())).key
        sandbox.run("1", limits={"file_bytes": 1 << 20})
        family = family_of(sandbox)
        assert eventually(lambda: len(family._ready.values()) == 13, 10)
        assert family.waiting_count(key) == 12


def take_the_rest(held: list[int]) -> None:
    """Open what may still be opened."""
    with pytest.raises(OSError, match="Too many open files"):
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))


def test_no_descriptors_left(tier: str) -> None:
    """A guest that cannot be made for want of them is an error of ours that leaves none open."""
    with fastness.Sandbox(tier=tier, pool=0) as sandbox:
        sandbox.run("1")
        family = family_of(sandbox)
        assert eventually(lambda: not family._guests, 10)
        before = len(os.listdir("/proc/self/fd"))
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        held: list[int] = []
        most = max(map(int, os.listdir("/proc/self/fd"))) + 10
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
        try:
            for room in range(6):
                # Others in this process may take one meanwhile, or give one back.
                take_the_rest(held)
                for _ in range(room):
                    os.close(held.pop())
                with pytest.raises(fastness.BackendError, match="Too many open files"):
                    sandbox.run("1")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for fd in held:
                os.close(fd)
        assert eventually(lambda: not family._guests, 10)
        assert eventually(lambda: len(os.listdir("/proc/self/fd")) <= before, 10)
        assert sandbox.run("6 * 7").value == 42


def test_a_guest_that_is_given_up_before_its_birth(tier: str) -> None:
    """What it was to have stays its own until its zygote has told of it: it may be born yet."""
    with fastness.Sandbox(tier=tier, pool=0, timeout=60) as sandbox:
        sandbox.run("0")
        family = family_of(sandbox)
        assert eventually(lambda: not family._guests, 10)
        assert family._zygote is not None
        launcher = family._zygote.process.pid
        pids = [launcher, *procs.descendants(launcher)]
        free = len(family._users.get(id(family._zygote), []))
        send(pids, signal.SIGSTOP)
        try:
            assert sandbox.run("1", deadline=0.2).outcome.kind is OutcomeKind.TIMEOUT
            (guest,) = family._guests
            assert len(family._users.get(id(family._zygote), [])) == free - bool(guest.inside_uid)
            assert guest.slot not in family._stock._free
        finally:
            send(pids, signal.SIGCONT)
        assert eventually(lambda: not family._guests, 10)
        assert len(family._users.get(id(family._zygote), [])) == free
        assert guest.slot is None or guest.slot in family._stock._free
        assert sandbox.run("6 * 7").value == 42


def test_a_folder_that_cannot_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guest is buried all the same, and takes nothing else with it."""
    house.require("confined tier")

    def fail(path: str) -> None:
        raise OSError(16, "Device or resource busy", path)

    with fastness.Sandbox(tier="confined", pool=0) as sandbox:
        monkeypatch.setattr(native_folders, "remove", fail)
        assert sandbox.run("1").value == 1
        assert eventually(lambda: not family_of(sandbox)._guests, 10)
        monkeypatch.undo()
        assert sandbox.run("2").value == 2


def test_making_a_family_keeps_no_loop_waiting(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes a while at the first run of a kind is done beside the event loop."""
    build = native_config.build
    begun, others = threading.Event(), threading.Event()
    waited: list[bool] = []

    def slow(*args: Any) -> Any:
        begun.set()
        waited.append(others.wait(20))
        return build(*args)

    async def main() -> None:
        async with fastness.AsyncSandbox(tier=tier) as sandbox:
            await sandbox.probe()
            monkeypatch.setattr(native_config, "build", slow)
            async with anyio.create_task_group() as group:
                group.start_soon(sandbox.run, "1")
                while not begun.is_set():
                    await anyio.lowlevel.checkpoint()
                others.set()

    anyio.run(main)
    assert waited == [True]


def test_folders_go_with_their_zygotes() -> None:
    """What a zygote of ``confined`` writes to while it imports is gone once it has ended."""
    house.require("confined tier")
    with fastness.Sandbox(tier="confined") as sandbox:
        sandbox.run("1")
        family = family_of(sandbox)
        boxes = family._boxes
        assert family._zygote is not None
        family._zygote.kill()
        assert sandbox.run("2").value == 2
        made = family._zygote
        assert made is not None
        kept = os.path.basename(made.temporary)

        def expected() -> set[str]:
            return {kept, *(os.path.basename(one.folder) for one in family._guests), *family._folders.names()}

        assert eventually(lambda: set(os.listdir(boxes)) <= expected(), 10)
        owner = -1 if made.uids is None else made.uids.base
        assert all(os.stat(f"{boxes}/{name}").st_uid == owner for name in family._folders.names()) or owner < 0
    assert not os.path.exists(boxes)

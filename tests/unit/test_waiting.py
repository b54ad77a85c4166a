"""The two ways of waiting keep the same promises: limits nest, shields hold, interrupts and cancellation come out."""

from __future__ import annotations

import asyncio
import contextvars
import math
import select
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from fastness.errors import HostBug
from fastness.looping import LoopWaiting, _Wait
from fastness.waiting import ThreadWaiting, Waiting, drive

Scenario = Callable[[Waiting, socket.socket], Awaitable[Any]]


@pytest.fixture(params=["thread", "loop"])
def play(request: pytest.FixtureRequest, pair: tuple[socket.socket, socket.socket]) -> Callable[[Scenario], Any]:
    """Runs a scenario in one of the two ways, with a socket on which nothing comes."""

    def run(scenario: Scenario) -> Any:
        if request.param == "thread":
            return drive(scenario(ThreadWaiting(), pair[0]))  # type: ignore[arg-type]  # they are coroutines
        return anyio.run(scenario, LoopWaiting(), pair[0])

    return run


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets that do not block."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        yield ours, theirs


def test_a_limit(play: Callable[[Scenario], Any]) -> None:
    """A wait past its limit ends in TimeoutError, not before it."""

    async def scenario(waiting: Waiting, sock: socket.socket) -> float:
        began = time.monotonic()
        with pytest.raises(TimeoutError), waiting.limit(0.05):
            await waiting.readable(sock)
        return time.monotonic() - began

    assert play(scenario) >= 0.05


def test_no_limit_reached(play: Callable[[Scenario], Any], pair: tuple[socket.socket, socket.socket]) -> None:
    """What is there is had at once, under a limit or under none."""
    pair[1].send(b"x")

    async def scenario(waiting: Waiting, sock: socket.socket) -> bytes:
        with waiting.limit(None), waiting.limit(math.inf), waiting.limit(60):
            await waiting.writable(sock)
            await waiting.readable(sock)
            return sock.recv(9)

    assert play(scenario) == b"x"


@pytest.mark.parametrize(("outer", "inner", "where"), [(0.05, 60, "outer"), (60, 0.05, "inner"), (None, 0.05, "inner")])
def test_limits_nest(play: Callable[[Scenario], Any], outer: float | None, inner: float, where: str) -> None:
    """The earliest limit is the one that ends the wait, and the error comes out of its own block."""

    async def scenario(waiting: Waiting, sock: socket.socket) -> str:
        try:
            with waiting.limit(outer):
                try:
                    with waiting.limit(inner):
                        await waiting.readable(sock)
                except TimeoutError:
                    return "inner"
        except TimeoutError:
            return "outer"
        return "neither"

    assert play(scenario) == where


def test_a_pause_is_under_limits(play: Callable[[Scenario], Any]) -> None:
    """It ends by itself, and a limit ends it."""

    async def scenario(waiting: Waiting, sock: socket.socket) -> str:
        await waiting.pause(0.001)
        with waiting.limit(60):
            await waiting.pause(0.001)
        try:
            with waiting.limit(0.01):
                await waiting.pause(60)
        except TimeoutError:
            return "cut short"
        return "slept"

    assert play(scenario) == "cut short"


def test_a_shield_keeps_outer_limits_out(play: Callable[[Scenario], Any]) -> None:
    """Inside a shield only its own limit counts; outside it the outer one does again."""

    async def scenario(waiting: Waiting, sock: socket.socket) -> list[str]:
        seen = []
        try:
            with waiting.limit(0.02):
                try:
                    await waiting.readable(sock)
                finally:
                    try:
                        with waiting.limit(0.05, shield=True):
                            await waiting.readable(sock)
                    except TimeoutError:
                        seen.append("inner")
        except TimeoutError:
            seen.append("outer")
        return seen

    assert play(scenario) == ["inner", "outer"]


def test_extending(play: Callable[[Scenario], Any]) -> None:
    """A limit can be moved out and never in."""

    async def scenario(waiting: Waiting, sock: socket.socket) -> float:
        began = time.monotonic()
        with pytest.raises(TimeoutError), waiting.limit(0.01) as limit:
            limit.extend(0.1)
            limit.extend(0.001)
            await waiting.readable(sock)
        return time.monotonic() - began

    assert play(scenario) >= 0.1


def test_other_errors_come_out(play: Callable[[Scenario], Any]) -> None:
    """A limit changes nothing about an error of its block, though it be late."""

    async def scenario(waiting: Waiting, sock: socket.socket) -> None:
        with waiting.limit(0.001):
            time.sleep(0.01)  # noqa: ASYNC251  # late on purpose
            raise KeyError("x")

    with pytest.raises(KeyError):
        play(scenario)


def test_calls(play: Callable[[Scenario], Any]) -> None:
    """A blocking function's result and its errors come back."""

    async def scenario(waiting: Waiting, sock: socket.socket) -> list[Any]:
        def fail() -> None:
            raise ValueError("x")

        with pytest.raises(ValueError, match="x"):
            await waiting.call(fail)
        return [await waiting.call(lambda: 42)]

    assert play(scenario) == [42]


def test_slots(play: Callable[[Scenario], Any]) -> None:
    """As many as there are; one more waits no longer than the limit, and has taken none then."""

    async def scenario(waiting: Waiting, sock: socket.socket) -> str:
        slots = waiting.slots(2)
        await slots.acquire()
        await slots.acquire()
        with pytest.raises(TimeoutError), waiting.limit(0.02):
            await slots.acquire()
        slots.release()
        with waiting.limit(5):
            await slots.acquire()
        return "ok"

    assert play(scenario) == "ok"


def test_limits_belong_to_their_thread() -> None:
    """One object serves many threads; a limit of one is none of another's."""
    waiting = ThreadWaiting()
    seen: list[Any] = []

    def other() -> None:
        seen.append(waiting.next_limit())

    with waiting.limit(0.01):
        assert waiting.next_limit() is not None
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen == [None]
    assert waiting.next_limit() is None


def test_limits_are_gone_after_an_error() -> None:
    """Whatever comes out of a block takes its limit with it."""
    waiting = ThreadWaiting()
    for error in (KeyboardInterrupt, ValueError):
        with pytest.raises(error), waiting.limit(1), waiting.limit(2):
            raise error
        assert waiting.next_limit() is None


def test_a_slot_given_from_another_thread() -> None:
    """A thread that waits for a slot gets the one that another gives back."""
    waiting = ThreadWaiting()
    slots = waiting.slots(1)
    drive(slots.acquire())  # type: ignore[arg-type]  # a coroutine
    threading.Timer(0.05, slots.release).start()

    async def wait() -> str:
        with waiting.limit(10):
            await slots.acquire()
        return "had"

    assert drive(wait()) == "had"


def test_driving_something_that_suspends() -> None:
    """A coroutine that needs a loop is a bug of ours, told at once; its clean-up has run."""
    cleaned = []

    async def wrong() -> None:
        try:
            await _Suspend()
        finally:
            cleaned.append(True)

    with pytest.raises(HostBug):
        drive(wrong())
    assert cleaned == [True]


class _Suspend:
    def __await__(self) -> Iterator[None]:
        yield


def test_driving_returns_and_raises() -> None:
    """The value or the error of the coroutine is that of the call."""

    async def good() -> int:
        return 3

    async def bad() -> int:
        raise LookupError("x")

    assert drive(good()) == 3
    with pytest.raises(LookupError, match="x"):
        drive(bad())


def test_cancellation_reaches_a_shielded_wait_only_after_it() -> None:
    """On a loop a cancelled task still finishes what it does under a shield."""
    seen: list[str] = []

    async def main() -> None:
        waiting = LoopWaiting()
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await anyio.lowlevel.checkpoint()
            finally:
                with waiting.limit(5, shield=True):
                    await waiting.call(lambda: seen.append("under the shield"))
        seen.append(f"cancelled {scope.cancelled_caught}")

    anyio.run(main)
    assert seen == ["under the shield", "cancelled True"]


def test_a_wait_of_a_fraction_of_a_millisecond_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is rounded up for poll, so that a thread does not poll a hundred times for the last bit."""
    polls = [0]
    real = select.poll

    class Counting:
        def __init__(self) -> None:
            self._poll = real()

        def register(self, *args: Any) -> None:
            self._poll.register(*args)

        def poll(self, *args: Any) -> Any:
            polls[0] += 1
            return self._poll.poll(*args)

    monkeypatch.setattr("fastness.waiting.select.poll", Counting)
    waiting = ThreadWaiting()
    ours, theirs = socket.socketpair()

    async def wait() -> None:
        with waiting.limit(0.0205):
            await waiting.readable(ours)

    with ours, theirs, pytest.raises(TimeoutError):
        drive(wait())
    assert polls[0] <= 3


def test_a_wait_of_its_own_length(play: Callable[[Scenario], Any], pair: tuple[socket.socket, socket.socket]) -> None:
    """Who waits for so many seconds is told whether anything came, and no limit is met by that."""

    async def scenario(waiting: Waiting, sock: socket.socket) -> list[bool]:
        with waiting.limit(20):
            told = [await waiting.readable(sock, 0.02), await waiting.readable(sock.fileno(), 0.02)]
            pair[1].send(b"x")
            return [*told, await waiting.readable(sock, 20), await waiting.readable(sock.fileno(), None)]

    assert play(scenario) == [False, False, True, True]


def test_a_limit_is_met_before_a_longer_wait(play: Callable[[Scenario], Any]) -> None:
    """A limit ends a wait that has more time of its own."""

    async def scenario(waiting: Waiting, sock: socket.socket) -> None:
        with pytest.raises(TimeoutError), waiting.limit(0.02):
            await waiting.readable(sock, 20)

    play(scenario)


def test_a_limit_and_a_cancellation_of_asyncio(pair: tuple[socket.socket, socket.socket]) -> None:
    """What cancels a task from outside is no limit's, not even where both come at once; a limit's own leaves no trace."""

    async def held(limits: list[float], begun: asyncio.Event) -> None:
        waiting = LoopWaiting()
        with waiting.limit(limits[0]), waiting.limit(limits[1]):
            begun.set()
            await waiting.readable(pair[0])

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        for limits in ([0.02, 20], [20, 0.02], [0.02, 0.02]):
            with pytest.raises(TimeoutError):
                await held(limits, asyncio.Event())
            assert task.cancelling() == 0
        for limits in ([20, 20], [0.03, 20], [20, 0.03]):
            begun = asyncio.Event()
            other = asyncio.create_task(held(limits, begun))
            await begun.wait()
            if min(limits) < 1:
                # Both are due before the loop comes to either.
                time.sleep(0.05)  # noqa: ASYNC251  # that is the point
            other.cancel()
            with pytest.raises(asyncio.CancelledError):
                await other

    asyncio.run(main())


def test_an_extended_limit_on_asyncio(pair: tuple[socket.socket, socket.socket]) -> None:
    """A limit that was extended is met when its new time has come, and not before."""

    async def main() -> float:
        waiting, began = LoopWaiting(), time.monotonic()
        with pytest.raises(TimeoutError), waiting.limit(0.02) as limit:
            limit.extend(0.1)
            await waiting.readable(pair[0])
        return time.monotonic() - began

    assert asyncio.run(main()) >= 0.1


class TestReadableOnALoop:
    """What a task waits with is a future by its protocol, and behaves as one wherever asyncio has to do with it."""

    @staticmethod
    def play(scenario: Callable[[LoopWaiting, socket.socket, socket.socket], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ours.setblocking(False)
                return await scenario(LoopWaiting(), ours, theirs)

        with asyncio.Runner(debug=True) as runner:
            return runner.run(main())

    def test_what_a_task_sets_lasts(self) -> None:
        """A context variable that is set after the wait is still set after the next one, and is no other task's."""
        number: contextvars.ContextVar[int] = contextvars.ContextVar("number")

        async def one(waiting: LoopWaiting, index: int) -> None:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                number.set(index)
                for turn in range(3):
                    asyncio.get_running_loop().call_later(0.002 * (index % 3), theirs.send, b"x")
                    assert await waiting.readable(ours, 5)
                    assert number.get() == index + turn
                    ours.recv(1)
                    number.set(index + turn + 1)
                    assert asyncio.current_task() is not None

        async def scenario(waiting: LoopWaiting, ours: socket.socket, theirs: socket.socket) -> None:
            async with asyncio.TaskGroup() as group:
                for index in range(0, 200, 10):
                    group.create_task(one(waiting, index))

        self.play(scenario)

    def test_a_cancellation_comes_out_with_its_words(self) -> None:
        """Also where the socket became readable in the same turn of the loop; and the descriptor is let go."""

        async def scenario(waiting: LoopWaiting, ours: socket.socket, theirs: socket.socket) -> None:
            for ready in (False, True):
                task = asyncio.create_task(waiting.readable(ours))
                await asyncio.sleep(0.01)
                if ready:
                    theirs.send(b"x")
                task.cancel("enough")
                with pytest.raises(asyncio.CancelledError, match="enough"):
                    await task
                assert task.cancelled()
                assert asyncio.get_running_loop().remove_reader(ours) is False

        self.play(scenario)

    def test_whoever_waits_with_it_may_wait_in_any_way(self) -> None:
        """With a time limit of asyncio's or ours, in a gathering, behind a shield, at once."""

        async def scenario(waiting: LoopWaiting, ours: socket.socket, theirs: socket.socket) -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiting.readable(ours), 0.01)
            with pytest.raises(TimeoutError), waiting.limit(0.01):
                await waiting.readable(ours)
            assert await waiting.readable(ours, 0.01) is False
            theirs.send(b"x")
            assert await asyncio.gather(asyncio.shield(waiting.readable(ours, 1))) == [True]
            assert await waiting.readable(ours.fileno())

        self.play(scenario)

    def test_a_task_that_ends_while_it_waits_is_not_gone_on_with(self) -> None:
        """What comes for it afterwards wakes nobody."""

        async def scenario(waiting: LoopWaiting, ours: socket.socket, theirs: socket.socket) -> None:
            loop = asyncio.get_running_loop()
            wait = _Wait(loop)
            woken: list[object] = []
            wait.add_done_callback(woken.append)
            assert wait.cancel()
            assert not wait.cancel()
            wait.come(True)
            assert woken == []
            await asyncio.sleep(0)
            assert woken == [wait]
            assert wait.done()
            with pytest.raises(asyncio.CancelledError):
                wait.result()

        self.play(scenario)

"""What must not be broken off: cancelled once however often, and interrupts that wait for the end of it."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from fastness.interrupts import Interrupts
from fastness.looping import LoopWaiting
from fastness.waiting import ThreadWaiting, drive


class Work:
    """Waits for as long as it is let, and then cleans up for a while, shielded."""

    def __init__(self) -> None:
        self.waiting = LoopWaiting()
        self.begun = asyncio.Event()
        self.said: list[str] = []

    async def __call__(self) -> str:
        try:
            self.begun.set()
            await asyncio.sleep(30)
            return "late"
        except BaseException:
            self.said.append("cancelled")
            raise
        finally:
            with self.waiting.limit(None, shield=True):
                await self.waiting.pause(0.1)
                self.said.append("clean")


@pytest.mark.parametrize("cancels", [1, 2, 5])
def test_however_often_it_is_cancelled(cancels: int) -> None:
    """It is told once, its clean-up goes to its end, and the cancellation comes out after that."""

    async def main() -> None:
        work = Work()
        task = asyncio.create_task(work.waiting.unbroken(work))
        await work.begun.wait()
        for _ in range(cancels):
            task.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert work.said == ["cancelled", "clean"]

    asyncio.run(main())


def test_the_control() -> None:
    """Without it the second cancellation breaks the clean-up off, shielded as it is."""

    async def main() -> None:
        work = Work()
        task = asyncio.create_task(work())
        await work.begun.wait()
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert work.said == ["cancelled"]

    asyncio.run(main())


def test_within_scopes() -> None:
    """A scope around it ends it as any other, and what comes after the scope goes on."""

    async def main() -> list[str]:
        waiting, said = LoopWaiting(), []

        async def work() -> None:
            try:
                await anyio.sleep(30)
            finally:
                with waiting.limit(None, shield=True):
                    await waiting.pause(0.05)
                    said.append("clean")

        with anyio.move_on_after(0.05) as scope:
            await waiting.unbroken(work)
        said.append(f"caught {scope.cancelled_caught}")
        await anyio.lowlevel.checkpoint()
        return said

    assert anyio.run(main) == ["clean", "caught True"]


def test_with_a_timeout_of_asyncio() -> None:
    """It is a TimeoutError as it would be otherwise."""

    async def main() -> None:
        work = Work()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await work.waiting.unbroken(work)
        assert work.said == ["cancelled", "clean"]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work.waiting.unbroken(work), 0.05)

    asyncio.run(main())


def test_results_and_errors() -> None:
    """Both come out as they are, from a loop and from a thread."""

    async def good() -> int:
        return 3

    async def bad() -> int:
        raise LookupError("no")

    async def main() -> None:
        assert await LoopWaiting().unbroken(good) == 3
        with pytest.raises(LookupError):
            await LoopWaiting().unbroken(bad)

    asyncio.run(main())
    assert drive(ThreadWaiting().unbroken(good)) == 3


def test_what_was_made_is_undone() -> None:
    """It came to its end though nobody waits for it; where somebody does, nothing is undone."""
    undone: list[int] = []

    async def main() -> None:
        held = threading.Event()
        waiting = LoopWaiting()

        def make() -> int:
            assert held.wait(20)
            return 7

        async def undo(made: int) -> None:
            await asyncio.sleep(0)
            undone.append(made)

        async def ask() -> int:
            return await waiting.unbroken(lambda: waiting.call(make), undo)

        task = asyncio.create_task(ask())
        await asyncio.sleep(0.05)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.01)
        held.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert undone == [7]
        assert await ask() == 7
        assert undone == [7]

    asyncio.run(main())


# interrupts


def test_an_interrupt_waits() -> None:
    """It is raised when the block is over, and not within it."""
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), Interrupts():
        signal.raise_signal(signal.SIGINT)
        said.append("on")
    assert said == ["on"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_where_it_may_come() -> None:
    """One that came before is raised where the inner block begins, one that comes within it at once."""
    said: list[str] = []
    with Interrupts() as held:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), held.let():
            said.append("never")
        with pytest.raises(KeyboardInterrupt), held.let():
            signal.raise_signal(signal.SIGINT)
            said.append("never")
        said.append("on")
    assert said == ["on"]


def test_handlers_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own is called later, and what is ignored stays so."""
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        with Interrupts():
            signal.raise_signal(signal.SIGINT)
            assert came == []
        assert came == [signal.SIGINT]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with Interrupts() as held, held.let():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_have_none() -> None:
    """There the handler is not touched, which only the main thread may."""
    found: list[Any] = []

    def work() -> None:
        with Interrupts() as held, held.let():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]

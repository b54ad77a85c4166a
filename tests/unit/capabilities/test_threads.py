"""Work in threads for adapters: it ends before the call that asked for it, or it never began."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fastness.capabilities._threads import Stop, Stopped, whole


def test_results_and_errors() -> None:
    """They come as they would from a plain call."""

    async def both() -> int:
        with pytest.raises(ZeroDivisionError):
            await whole(lambda stop: 1 // 0)
        return await whole(lambda stop: 6 * 7)

    assert asyncio.run(both()) == 42


def test_a_cancelled_call_waits_for_its_work() -> None:
    """However often it is cancelled: the work has come to its end by then, and was asked to stop."""
    begun, may_end = threading.Event(), threading.Event()
    ended: list[bool] = []

    def work(stop: Stop) -> None:
        begun.set()
        may_end.wait(30)
        ended.append(bool(stop))
        raise Stopped

    async def main() -> None:
        task = asyncio.ensure_future(whole(work))
        await asyncio.to_thread(begun.wait, 30)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.01)
            assert not task.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [True]

    asyncio.run(main())


def test_the_control() -> None:
    """A call that hands work to a thread in the usual way ends before its work does."""
    begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(30)

    async def main() -> None:
        task = asyncio.ensure_future(asyncio.to_thread(work))
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not may_end.is_set()
        may_end.set()

    asyncio.run(main())


def test_work_that_waits_for_a_thread_is_not_begun_after_a_cancellation() -> None:
    """All threads are busy: what is cancelled while it waits for one is never done."""
    may_end = threading.Event()
    done: list[str] = []

    async def main() -> None:
        busy = [asyncio.ensure_future(whole(lambda stop: may_end.wait(30))) for _ in range(64)]
        late = asyncio.ensure_future(whole(lambda stop: done.append("late")))
        await asyncio.sleep(0.05)
        assert not late.done()
        late.cancel()
        await asyncio.sleep(0.01)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await late
        await asyncio.gather(*busy)

    asyncio.run(main())
    assert done == []

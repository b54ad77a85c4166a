"""
Waiting on an event loop: asyncio or trio.

What has to be exact is anyio's, on either.  On asyncio the waits that every run goes through are made of the loop's own
calls, since a run has a dozen of them and each takes a tenth of a millisecond by way of anyio.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from fastness.waiting import Held, Limit, Slots

if TYPE_CHECKING:
    import asyncio
    import contextvars
    import select
    import socket

    import anyio

T = TypeVar("T")


class _Scope:
    """A limit that is a cancel scope of anyio's."""

    __slots__ = ("_scope",)

    def __init__(self, seconds: float | None, shield: bool) -> None:
        import anyio

        seconds = math.inf if seconds is None else seconds
        self._scope: anyio.CancelScope = anyio.CancelScope(deadline=anyio.current_time() + seconds, shield=shield)

    def extend(self, seconds: float) -> None:
        import anyio

        self._scope.deadline = max(self._scope.deadline, anyio.current_time() + seconds)

    def __enter__(self) -> _Scope:
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        handled = self._scope.__exit__(kind, error, trace)
        if self._scope.cancelled_caught:
            raise TimeoutError
        return handled


class _Timer:
    """
    A limit that is a timer of an asyncio loop, and cancels its task once when it is over.

    As ``asyncio.timeout()`` does, a cancellation that is its own becomes a ``TimeoutError``, and one by somebody else
    at the same time stays what it is (``Task.uncancel()``).
    """

    __slots__ = ("_before", "_ends", "_expired", "_handle", "_loop", "_task")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._ends = loop.time() + seconds
        self._expired = False
        self._handle: asyncio.TimerHandle | None = None

    def extend(self, seconds: float) -> None:
        self._ends = max(self._ends, self._loop.time() + seconds)

    def __enter__(self) -> _Timer:
        import asyncio

        task = asyncio.current_task(self._loop)
        assert task is not None
        self._task: asyncio.Task[Any] = task
        self._before = task.cancelling()
        self._handle = self._loop.call_at(self._ends, self._over)
        return self

    def _over(self) -> None:
        if self._loop.time() < self._ends:
            # It was extended.
            self._handle = self._loop.call_at(self._ends, self._over)
            return
        self._expired = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._handle is not None
        self._handle.cancel()
        if self._expired:
            import asyncio

            if self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
                raise TimeoutError from None


class _Endless:
    """A limit that is none."""

    __slots__ = ()

    def extend(self, seconds: float) -> None:
        """It lasts longer than that."""

    def __enter__(self) -> _Endless:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


_ENDLESS = _Endless()


class _Wait:
    """
    What a task waits for that waits for a descriptor: a future by its protocol, which goes on in the loop's same turn.

    One of asyncio's own would have the task go on in the loop's next turn, each of which asks the kernel once more.
    """

    __slots__ = ("_asyncio_future_blocking", "_context", "_found", "_loop", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._asyncio_future_blocking = False
        self._loop = loop
        #: What the wait has come to: None for nothing yet, and its end by somebody else.
        self._found: bool | BaseException | None = None
        self._wake: Callable[[Any], object] | None = None
        self._context: contextvars.Context | None = None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, wake: Callable[[Any], object], *, context: contextvars.Context | None = None) -> None:
        self._wake, self._context = wake, context

    def cancel(self, msg: Any = None) -> bool:
        """As a future's: whoever waits goes on, in the loop's next turn."""
        import asyncio

        if self._found is not None:
            return False
        self._found = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        self._loop.call_soon(self._go_on)
        return True

    def come(self, found: bool) -> None:
        """The wait is over.  Called by the loop, in no task."""
        if self._found is None:
            self._found = found
            self._go_on()

    def _go_on(self) -> None:
        if self._wake is None:
            return
        if self._context is None:
            self._wake(self)
        else:
            # What the loop calls has a copy of the task's, and what the task sets from here on is to last.
            self._context.run(self._wake, self)

    def done(self) -> bool:
        return self._found is not None

    def result(self) -> bool:
        if isinstance(self._found, BaseException):
            raise self._found
        assert self._found is not None
        return self._found

    def __await__(self) -> Generator[_Wait, None, bool]:
        if self._found is None:
            self._asyncio_future_blocking = True
            yield self
        return self.result()


async def _readable(loop: asyncio.AbstractEventLoop, fd: int, seconds: float | None) -> bool:
    """Wait until ``fd`` has something to read; False where it has nothing for so many seconds."""
    wait = _Wait(loop)
    timer = None if seconds is None else loop.call_later(seconds, wait.come, False)
    loop.add_reader(fd, wait.come, True)
    try:
        return await wait
    finally:
        loop.remove_reader(fd)
        if timer is not None:
            timer.cancel()


class _NotHeld(contextlib.nullcontext["_NotHeld"]):
    def __enter__(self) -> _NotHeld:
        return self

    def let(self) -> _NotHeld:
        return self


class LoopWaiting:
    """Waits on the event loop of the running task."""

    async def readable(self, sock: socket.socket | int, seconds: float | None = None) -> bool:
        """Until there is something to read.  One task at a time waits for a descriptor."""
        fd = sock if isinstance(sock, int) else sock.fileno()
        if (loop := self.loop()) is not None:
            return await _readable(loop, fd, seconds)
        import anyio

        with anyio.move_on_after(seconds):
            await anyio.wait_readable(fd)
            return True
        return False

    async def writable(self, sock: socket.socket) -> None:
        """Until there is room to write."""
        import anyio

        await anyio.wait_writable(sock)

    async def events(self, waiter: select.epoll, seconds: float) -> list[tuple[int, int]]:
        """The waiter is waited for like anything else that can be read; with 0 ``seconds`` others get one turn."""
        if not seconds:
            import anyio.lowlevel

            await anyio.lowlevel.checkpoint()
            return waiter.poll(0)
        return waiter.poll(0) if await self.readable(waiter.fileno(), seconds) else []

    async def pause(self, seconds: float) -> None:
        """Others get their turn meanwhile."""
        import anyio

        await anyio.sleep(seconds)

    async def call(self, function: Callable[[], T]) -> T:
        """On a worker thread."""
        import anyio.to_thread

        return await anyio.to_thread.run_sync(function)

    async def unbroken(
        self, work: Callable[[], Coroutine[Any, Any, T]], undo: Callable[[T], Coroutine[Any, Any, object]] | None = None
    ) -> T:
        """On asyncio a task of its own, since ``Task.cancel`` goes through every shield; trio has nothing that does."""
        if self.loop() is None:
            return await work()
        from fastness.unbroken import unbroken

        return await unbroken(work, undo)

    def held(self) -> Held:
        """The loop takes interrupts, and cancels its main task."""
        return _NotHeld()

    def limit(self, seconds: float | None, shield: bool = False) -> Limit:
        """A timer of the loop's, or a cancel scope with a deadline."""
        loop = None if shield else self.loop()
        if loop is None:
            return _Scope(seconds, shield)
        return _ENDLESS if seconds is None else _Timer(loop, seconds)

    def slots(self, count: int) -> Slots:
        """Waiters are served in turn."""
        import anyio

        return anyio.Semaphore(count, fast_acquire=True)

    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Of the running task; on trio there is none."""
        import asyncio

        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            return None

    @property
    def blocks(self) -> bool:
        """Other tasks wait on the same loop."""
        return False

"""
The two ways in which this package waits: on an event loop, or by blocking the calling thread.

Everything between the API and the engines is written once, as coroutines that wait only through one of these objects.
With ``LoopWaiting`` (:mod:`fastness.looping`) they run on asyncio or trio.  With :class:`ThreadWaiting` no coroutine
ever suspends, so :func:`drive` runs one to its end in the calling thread: a blocking call then costs two thread
switches less than handing it to a loop, which on a small run is most of its time.
"""

from __future__ import annotations

import contextlib
import math
import select
import threading
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fastness.errors import HostBug

if TYPE_CHECKING:
    import asyncio
    import socket

T = TypeVar("T")


class Limit(Protocol):
    """A block that may last so long (None: for ever); past it ``TimeoutError`` comes out of the block."""

    def extend(self, seconds: float) -> None:
        """Let it last until so many seconds from now, where that is later."""

    def __enter__(self) -> Limit: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...


class Slots(Protocol):
    """A counting semaphore."""

    async def acquire(self) -> None:
        """Wait for a slot and take it."""

    def release(self) -> None:
        """Give a slot back."""


class Held(Protocol):
    """A block in which interrupts wait."""

    def let(self) -> contextlib.AbstractContextManager[object]:
        """A block within it in which they do not."""
        raise NotImplementedError

    def __enter__(self) -> Held: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Waiting(Protocol):
    """How to wait for a socket, a thread's worth of work, a slot, and no longer than a limit."""

    async def readable(self, sock: socket.socket | int, seconds: float | None = None) -> bool:
        """
        Wait until ``sock`` has something to read, or its other end is gone.

        False where that has not come after ``seconds``, None for ever.
        """
        raise NotImplementedError

    async def writable(self, sock: socket.socket) -> None:
        """Wait until ``sock`` takes more, or its other end is gone."""

    async def events(self, waiter: select.epoll, seconds: float) -> list[tuple[int, int]]:
        """What ``waiter`` has to tell, as its ``poll`` does; nothing where it has nothing for so many ``seconds``."""
        raise NotImplementedError

    async def pause(self, seconds: float) -> None:
        """Let so many seconds pass."""

    async def call(self, function: Callable[[], T]) -> T:
        """The result of a function that blocks."""
        raise NotImplementedError

    async def unbroken(
        self, work: Callable[[], Coroutine[Any, Any, T]], undo: Callable[[T], Coroutine[Any, Any, object]] | None = None
    ) -> T:
        """
        The result of a coroutine that is cancelled once, however often its caller is, and waited for to its end.

        What it shields from cancellation is not broken off.  Where its caller gave up and it came to a result all the
        same, ``undo`` is given that before the cancellation goes on.
        """
        raise NotImplementedError

    def held(self) -> Held:
        """A block in which an interrupt (Ctrl-C) is raised where its :meth:`Held.let` says, and otherwise after it."""
        raise NotImplementedError

    def limit(self, seconds: float | None, shield: bool = False) -> Limit:
        """A scope that ends what it waits for after ``seconds``, None for never; ``shield`` keeps cancellation out."""
        raise NotImplementedError

    def slots(self, count: int) -> Slots:
        """A semaphore of ``count`` slots."""
        raise NotImplementedError

    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop of asyncio that is waited on, where it is one."""
        raise NotImplementedError

    @property
    def blocks(self) -> bool:
        """Whether what waits has a thread to itself, so that a little work in it is in nobody's way."""
        raise NotImplementedError


class _Expired(BaseException):
    """Raised where a thread waits, when the earliest of its limits is reached; becomes a TimeoutError there."""

    def __init__(self, limit: _ThreadLimit) -> None:
        super().__init__()
        self.limit = limit


class _ThreadLimit:
    __slots__ = ("_local", "ends", "shield")

    def __init__(self, local: threading.local, seconds: float | None, shield: bool) -> None:
        self._local = local
        self.ends = math.inf if seconds is None else time.monotonic() + seconds
        self.shield = shield

    def extend(self, seconds: float) -> None:
        self.ends = max(self.ends, time.monotonic() + seconds)

    def __enter__(self) -> _ThreadLimit:
        try:
            self._local.limits.append(self)
        except AttributeError:
            self._local.limits = [self]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._local.limits.pop()
        if isinstance(error, _Expired) and error.limit is self:
            raise TimeoutError from None
        return None


class _ThreadSlots:
    def __init__(self, waiting: ThreadWaiting, count: int) -> None:
        self._waiting = waiting
        self._slots = threading.Semaphore(count)

    async def acquire(self) -> None:
        if self._slots.acquire(blocking=False):
            return
        limit = self._waiting.next_limit()
        if limit is None:
            self._slots.acquire()
        elif not self._slots.acquire(timeout=max(0.0, limit.ends - time.monotonic())):
            raise _Expired(limit)

    def release(self) -> None:
        self._slots.release()


class ThreadWaiting:
    """Blocks the calling thread.  One object serves any number of threads; limits belong to the thread."""

    def __init__(self) -> None:
        self._local = threading.local()

    def next_limit(self) -> _ThreadLimit | None:
        """The limit that this thread will reach first, no further out than the innermost shield."""
        found: _ThreadLimit | None = None
        for limit in reversed(getattr(self._local, "limits", ())):
            if found is None or limit.ends < found.ends:
                found = limit
            if limit.shield:
                break
        return found if found is not None and found.ends != math.inf else None

    async def readable(self, sock: socket.socket | int, seconds: float | None = None) -> bool:
        """Until there is something to read."""
        return self._poll(sock, select.POLLIN, seconds)

    async def writable(self, sock: socket.socket) -> None:
        """Until there is room to write."""
        self._poll(sock, select.POLLOUT)

    async def events(self, waiter: select.epoll, seconds: float) -> list[tuple[int, int]]:
        """One system call."""
        limit = self.next_limit()
        left = seconds if limit is None else min(seconds, limit.ends - time.monotonic())
        found = waiter.poll(max(left, 0))
        if not found and limit is not None and time.monotonic() >= limit.ends:
            raise _Expired(limit)
        return found

    def _poll(self, sock: socket.socket | int, event: int, seconds: float | None = None) -> bool:
        poll = select.poll()
        poll.register(sock, event)
        end = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            limit = self.next_limit()
            until = end if limit is None else min(end, limit.ends)
            if until == math.inf:
                poll.poll()
                return True
            left = until - time.monotonic()
            if left <= 0:
                if limit is not None and limit.ends <= until:
                    raise _Expired(limit)
                return False
            # Rounded up: a wait that is cut short by a fraction of a millisecond would spin.
            if poll.poll(left * 1000 + 1):
                return True

    async def pause(self, seconds: float) -> None:
        """No longer than this thread may wait."""
        limit = self.next_limit()
        left = seconds if limit is None else min(seconds, limit.ends - time.monotonic())
        time.sleep(max(left, 0))  # noqa: ASYNC251  # this is how a thread waits
        if limit is not None and time.monotonic() >= limit.ends:
            raise _Expired(limit)

    async def call(self, function: Callable[[], T]) -> T:
        """Here and now."""
        return function()

    async def unbroken(
        self, work: Callable[[], Coroutine[Any, Any, T]], undo: Callable[[T], Coroutine[Any, Any, object]] | None = None
    ) -> T:
        """Nobody cancels a thread."""
        return await work()

    def held(self) -> Held:
        """In the main thread, whose they are."""
        from fastness.interrupts import Interrupts

        return Interrupts()

    def limit(self, seconds: float | None, shield: bool = False) -> Limit:
        """Checked wherever this thread waits."""
        return _ThreadLimit(self._local, seconds, shield)

    def slots(self, count: int) -> Slots:
        """A semaphore that threads wait for."""
        return _ThreadSlots(self, count)

    def loop(self) -> None:
        """A thread has none."""

    @property
    def blocks(self) -> bool:
        """The thread is the caller's, who waits."""
        return True


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """
    Run a coroutine that waits only through :class:`ThreadWaiting` to its end, here.

    An interrupt (Ctrl-C) is raised where the coroutine waits, so its own clean-up runs before it comes out.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    raise HostBug("a blocking call suspended: something below it waits on an event loop")

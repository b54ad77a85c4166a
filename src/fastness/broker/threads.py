"""
Threads for functions of the host that block: no more than so many, made when they are needed, and never waited for.

A thread cannot be stopped.  A function that does not come back keeps its thread, and a guest that calls it again and
again must not be given a new one each time; so those beyond wait their turn, and the process may end meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

__all__ = ["Threads"]

#: Seconds that a thread without work stays.
_IDLE_S = 10.0


class _Work:
    __slots__ = ("begun", "dropped", "function", "future", "loop")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.dropped = False

    def settle(self, value: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


class Threads:
    """At most ``most`` threads at once.  :meth:`run` is for coroutines of any loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition(threading.Lock())
        self._queue: deque[_Work] = deque()
        self._count = 0
        self._idle = 0

    async def run(self, function: Callable[[], T]) -> T:
        """
        The result of ``function`` in a thread.

        Cancelled before it began, it is not called; cancelled meanwhile, it goes on, and nobody hears of its end.
        """
        if self._pid != os.getpid():
            # The threads are the parent's, and one of them may have held the lock.
            self._begin()
        work = _Work(function)
        with self._changed:
            self._queue.append(work)
            if self._idle >= len(self._queue):
                self._changed.notify()
            elif self._count < self._most:
                threading.Thread(target=self._serve, name="fastness-function", daemon=True).start()
                self._count += 1
        try:
            result: T = await work.future
        except asyncio.CancelledError:
            work.dropped = True
            raise
        return result

    def _serve(self) -> None:
        while (work := self._next()) is not None:
            if work.dropped:
                continue
            value, error = None, None
            try:
                # What one call sets for its thread is not there for the next.
                value = contextvars.Context().run(work.function)
            except BaseException as raised:  # noqa: BLE001  # it is its caller's; StopIteration cannot cross a future
                error = RuntimeError("StopIteration") if isinstance(raised, StopIteration) else raised
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
                work.loop.call_soon_threadsafe(work.settle, value, error)
            # While it waits, a thread holds on to nothing of its last call.
            del work, value, error

    def _next(self) -> _Work | None:
        """The next work; None, and one thread less, where none comes for a while."""
        with self._changed:
            while not self._queue:
                self._idle += 1
                woken = self._changed.wait(_IDLE_S)
                self._idle -= 1
                if not woken and not self._queue:
                    self._count -= 1
                    return None
            return self._queue.popleft()

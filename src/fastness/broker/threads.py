"""
Threads for functions of the host that block: so many at once, made when they are needed, and never waited for.

A thread cannot be stopped.  A function that does not come back keeps its thread, and a guest that calls it again and
again must not be given a new one each time; so those beyond wait their turn, and the process may end meanwhile.
Nobody's turn depends on others: whoever has no thread gets one, however many others have.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

__all__ = ["Exited", "Threads", "outlived"]

#: Seconds that a thread without work stays.
_IDLE_S = 10.0
#: Threads beyond those that are shared, one for each who has none.
_BEYOND = 256


class Exited(RuntimeError):
    """
    A function of the host asked for the end of its program, as ``sys.exit`` does; the message is what it raised.

    asyncio lets ``SystemExit`` and ``KeyboardInterrupt`` of a task out of the loop, which would be the end of the loop:
    what a function does for a guest must not end what serves all others.
    """


async def outlived(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """
    What the coroutine returns or raises.

    Raises Exited where it would end the loop, and where something in it was cancelled while it itself was not: that
    would be taken for the end of the call, and nobody would be answered.
    """
    try:
        return await make()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise Exited("CancelledError") from None
    except (SystemExit, KeyboardInterrupt) as raised:
        raise Exited(type(raised).__name__) from raised


class _Work:
    __slots__ = ("begun", "function", "future", "loop", "whose")

    def __init__(self, function: Callable[[], Any], whose: Hashable) -> None:
        self.function = function
        self.whose = whose
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        # Where nobody waits any more, nobody is to be told that nobody looked at what it raised.
        self.future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        self.begun = False

    def settle(self, value: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


class Threads:
    """
    At most ``most`` threads at once, of which nobody has more than ``each``; who has none gets one beside them.

    :meth:`run` is for coroutines of any loop.
    """

    def __init__(self, most: int, each: int) -> None:
        self._most = most
        self._each = each
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition(threading.Lock())
        #: What has a thread, or is about to; and what waits for one, by whose it is.
        self._ready: deque[_Work] = deque()
        self._waiting: dict[Hashable, deque[_Work]] = {}
        self._held: dict[Hashable, int] = {}
        self._busy = 0
        self._idle = 0

    async def run(
        self,
        function: Callable[[], T],
        whose: Hashable = None,
        *,
        left: Callable[[asyncio.Future[T]], None] | None = None,
    ) -> T:
        """
        The result of ``function`` in a thread; ``whose`` share of them that is.

        Cancelled before it began, it is not called.  Cancelled meanwhile, it goes on, and ``left`` is given the future
        that is done when it has come to its end.
        """
        if self._pid != os.getpid():
            # The threads are the parent's, and one of them may have held the lock.
            self._begin()
        work = _Work(function, whose)
        with self._changed:
            if self._may(whose):
                self._admit(work)
            else:
                self._waiting.setdefault(whose, deque()).append(work)
        try:
            # Its future outlives a call that was cancelled.
            await asyncio.wait([work.future])
        except asyncio.CancelledError:
            with self._changed:
                if not work.begun:
                    self._drop(work)
            if work.begun and left is not None:
                left(work.future)
            raise
        result: T = work.future.result()
        return result

    def _may(self, whose: Hashable) -> bool:
        held = self._held.get(whose, 0)
        return held < self._each and (self._busy < self._most or (not held and self._busy < self._most + _BEYOND))

    def _admit(self, work: _Work, *, here: bool = False) -> None:
        """It is to have a thread: the caller's own where it is ``here``, else an idle one or a new one."""
        self._held[work.whose] = self._held.get(work.whose, 0) + 1
        self._busy += 1
        self._ready.append(work)
        if here:
            return
        if self._idle >= len(self._ready):
            self._changed.notify()
            return
        try:
            threading.Thread(target=self._serve, name="fastness-function", daemon=True).start()
        except BaseException:
            self._ready.remove(work)
            self._release(work.whose, here=True)
            raise

    def _release(self, whose: Hashable, *, here: bool = False) -> None:
        """A thread less for this one, and so perhaps one for somebody who waits."""
        self._busy -= 1
        self._held[whose] -= 1
        if not self._held[whose]:
            del self._held[whose]
        for other in self._waiting:
            if self._may(other):
                # By turns: what is left of theirs goes to the end.
                works = self._waiting.pop(other)
                work = works.popleft()
                if works:
                    self._waiting[other] = works
                self._admit(work, here=here)
                return

    def _drop(self, work: _Work) -> None:
        if work in self._ready:
            self._ready.remove(work)
            self._release(work.whose)
            return
        works = self._waiting.get(work.whose)
        if works is not None and work in works:
            works.remove(work)
            if not works:
                del self._waiting[work.whose]

    def _serve(self) -> None:
        while (work := self._next()) is not None:
            value, error = None, None
            try:
                # What one call sets for its thread is not there for the next.
                value = contextvars.Context().run(work.function)
            except Exception as raised:  # noqa: BLE001  # it is its caller's; StopIteration cannot cross a future
                error = RuntimeError("StopIteration") if isinstance(raised, StopIteration) else raised
            except BaseException as raised:  # noqa: BLE001  # this thread, and the loop that waits for it, go on
                error = Exited(type(raised).__name__)
            with self._changed:
                self._release(work.whose, here=True)
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
                work.loop.call_soon_threadsafe(work.settle, value, error)
            # While it waits, a thread holds on to nothing of its last call.
            del work, value, error

    def _next(self) -> _Work | None:
        """The next work; None, and one thread less, where none comes for a while."""
        with self._changed:
            while not self._ready:
                self._idle += 1
                woken = self._changed.wait(_IDLE_S)
                self._idle -= 1
                if not woken and not self._ready:
                    return None
            work = self._ready.popleft()
            work.begun = True
            return work

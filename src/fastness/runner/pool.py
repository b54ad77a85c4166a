"""
A pool of warm guests of one kind: bounded in number, last used first, with the old and the idle weeded out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from fastness.errors import BackendError
from fastness.waiting import Slots

T = TypeVar("T")


class Pool(Generic[T]):
    """
    Hands out guests to one user at a time.

    ``make`` starts one; ``usable(guest)`` says whether a waiting one may still be used; ``end(guest)`` ends one.
    At most ``size`` exist at once, over all users of ``slots``, which several pools may share.
    """

    def __init__(
        self,
        make: Callable[[], Awaitable[T]],
        usable: Callable[[T], bool],
        end: Callable[[T], None],
        slots: Slots,
        size: int = 64,
    ) -> None:
        self._size = size
        self._make = make
        self._usable = usable
        self._end = end
        self._slots = slots
        # Held for list work only, never while a guest is started, used or ended.
        self._lock = threading.Lock()
        self._idle: list[T] = []
        self._retired = False
        self.used = time.monotonic()

    async def acquire(self) -> T:
        """A guest for the caller alone, waiting or started now.  Cancellation leaves nothing behind."""
        await self._slots.acquire()
        self.used = time.monotonic()
        try:
            while (guest := self._pop()) is not None:
                if self._usable(guest):
                    return guest
                self._end(guest)
            guest = await self._make()
            if self._retired:
                self._end(guest)
                raise BackendError("running", "the sandbox was closed meanwhile", "make a new one")
            return guest
        except BaseException:
            self._slots.release()
            raise

    def _pop(self) -> T | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def release(self, guest: T, reusable: bool) -> None:
        """Give it back; one that is not reusable is ended."""
        self.used = time.monotonic()
        ending = [guest]
        try:
            if reusable and not self._retired and self._usable(guest):
                with self._lock:
                    self._idle.append(guest)
                    # Those at the cold end that nobody has needed for long go too.
                    ending = []
                    while len(self._idle) > 1 and not self._usable(self._idle[0]):
                        ending.append(self._idle.pop(0))
            for one in ending:
                self._end(one)
        finally:
            # Last: whoever waits for the slot must find this guest waiting, or gone, and not start one too many.
            self._slots.release()

    async def warm(self, count: int) -> None:
        """Have ``count`` guests waiting."""
        ready: list[T] = []
        try:
            # No more than there are slots: waiting for one more while holding all of them would never end.
            while len(ready) < min(count, self._size):
                ready.append(await self.acquire())
        finally:
            for guest in ready:
                self.release(guest, True)

    @property
    def waiting(self) -> list[T]:
        """Guests that wait now."""
        with self._lock:
            return list(self._idle)

    def retire(self) -> None:
        """Take no guest back any more, and end those that wait."""
        self._retired = True
        self.close()

    def close(self) -> None:
        """End every waiting guest."""
        while (guest := self._pop()) is not None:
            self._end(guest)

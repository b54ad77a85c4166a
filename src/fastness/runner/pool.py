"""
A pool of warm guests of one kind: bounded in number, last used first, with the old and the idle weeded out.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

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
        slots: anyio.Semaphore,
    ) -> None:
        self._make = make
        self._usable = usable
        self._end = end
        self._slots = slots
        self._idle: list[T] = []
        self.used = time.monotonic()

    async def acquire(self) -> T:
        """A guest for the caller alone, waiting or started now.  Cancellation leaves nothing behind."""
        await self._slots.acquire()
        self.used = time.monotonic()
        try:
            while self._idle:
                guest = self._idle.pop()
                if self._usable(guest):
                    return guest
                self._end(guest)
            return await self._make()
        except BaseException:
            self._slots.release()
            raise

    def release(self, guest: T, reusable: bool) -> None:
        """Give it back; one that is not reusable is ended."""
        self._slots.release()
        self.used = time.monotonic()
        if reusable and self._usable(guest):
            self._idle.append(guest)
            self._weed()
        else:
            self._end(guest)

    def _weed(self) -> None:
        """End those at the cold end that nobody has needed for long."""
        while len(self._idle) > 1 and not self._usable(self._idle[0]):
            self._end(self._idle.pop(0))

    async def warm(self, count: int) -> None:
        """Have ``count`` guests waiting."""
        ready = [await self.acquire() for _ in range(max(0, count - len(self._idle)))]
        for guest in ready:
            self.release(guest, True)

    @property
    def waiting(self) -> list[T]:
        """Guests that wait now."""
        return list(self._idle)

    def close(self) -> None:
        """End every waiting guest."""
        while self._idle:
            self._end(self._idle.pop())

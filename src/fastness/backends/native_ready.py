"""
Guests that wait, by what was decided at their birth: bounded in number, for a caller may ask for any number of kinds.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastness.backends.native_guest import Guest, Size
    from fastness.backends.zygote_process import ZygoteProcess


class Ready:
    """The guests of one family that wait.  Used under its family's lock."""

    def __init__(self) -> None:
        # The kind that was asked for last comes last.
        self._by_key: OrderedDict[Size, list[Guest]] = OrderedDict()

    def values(self) -> list[Guest]:
        """All of them."""
        return [guest for guests in list(self._by_key.values()) for guest in list(guests)]

    def count(self, key: Size) -> int:
        """How many of one kind there are."""
        return len(self._by_key.get(key, ()))

    def take(self, key: Size) -> Guest | None:
        """The one of this kind that has waited longest."""
        guests = self._by_key.get(key)
        if not guests:
            return None
        self._by_key.move_to_end(key)
        return guests.pop(0)

    def put(self, guest: Guest, others: int) -> list[Guest]:
        """Add one; returns what is to go for it, so that no more than ``others`` are of other kinds."""
        own = self._by_key.setdefault(guest.key, [])
        own.append(guest)
        self._by_key.move_to_end(guest.key)
        more = sum(map(len, self._by_key.values())) - len(own) - others
        dropped: list[Guest] = []
        for key in [key for key in self._by_key if key != guest.key]:
            while self._by_key[key] and len(dropped) < more:
                dropped.append(self._by_key[key].pop(0))
            if not self._by_key[key]:
                del self._by_key[key]
        return dropped

    def drop(self, zygote: ZygoteProcess | None = None) -> list[Guest]:
        """Take out those that a zygote has made, or all."""
        dropped = [guest for guest in self.values() if zygote is None or guest.zygote is zygote]
        for guests in self._by_key.values():
            guests[:] = [guest for guest in guests if guest not in dropped]
        return dropped

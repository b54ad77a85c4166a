"""
Fields that only the host may say, taken out of what a guest sent to be carried on.

A payload that comes back to a plugin later, or goes to another one, must not say of itself what was to be done, when,
for whom, and that somebody agreed: whoever reads it could take those words for the host's.
"""

from __future__ import annotations

from typing import Any

from fastness.errors import AdapterError

__all__ = ["DEEP", "FORGED", "MOST", "without_forged"]

#: Keys that no payload has, wherever in it; exactly these, as nobody finds another spelling under them.
FORGED = frozenset({"action", "approved", "due_at", "owner"})
#: Lists and dicts inside each other, and values and keys in all, that a payload may have.
DEEP = 32
MOST = 10_000


def without_forged(payload: Any) -> tuple[Any, int]:
    """
    Plain data without the fields of :data:`FORGED` at any depth, and how many there were; what is given stays as it is.

    What stands below such a field goes with it, and is not counted.  Raises AdapterError, in words that are fit for a
    guest, where it is nested more than :data:`DEEP` deep or has more than :data:`MOST` values and keys in all.
    """
    return _Sieve().clean(payload, 0)


class _Sieve:
    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MOST

    def clean(self, value: Any, depth: int) -> tuple[Any, int]:
        self._count(1)
        kind = type(value)
        if kind is not dict and kind is not list:
            return value, 0
        if depth >= DEEP:
            raise AdapterError(f"what is sent may be nested {DEEP} deep, and no deeper")
        # Before it is gone through: what is dropped takes time too.
        self._count(len(value))
        dropped = 0
        if kind is list:
            items = []
            for item in value:
                kept, found = self.clean(item, depth + 1)
                items.append(kept)
                dropped += found
            return items, dropped
        fields = {}
        for key, item in value.items():
            if key in FORGED:
                dropped += 1
                continue
            fields[key], found = self.clean(item, depth + 1)
            dropped += found
        return fields, dropped

    def _count(self, more: int) -> None:
        self._left -= more
        if self._left < 0:
            raise AdapterError(f"what is sent may have {MOST} values and keys, and no more")

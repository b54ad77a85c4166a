"""
The families of one sandbox: one for each kind of guest that was asked for, those longest unused ended first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any

from fastness._linux import cgroup
from fastness.backends import native_ahead, native_config
from fastness.backends.native_family import Family
from fastness.backends.native_slots import SlotStock, no_groups, place
from fastness.backends.native_spawn import Outfit
from fastness.errors import BackendError

if TYPE_CHECKING:
    from fastness.backends.native_keeper import Keeper
    from fastness.runs import RunRequest
    from fastness.tier import Tier
    from fastness.waiting import Waiting

#: Families that are kept although they serve nobody.
_FAMILIES_MAX = 16


class Families:
    """
    Any thread may use them.

    ``groups`` says whether guests get control groups where there are any; ``ready`` is how many of a kind are to wait.
    """

    def __init__(self, tier: Tier, waiting: Waiting, keeper: Keeper, *, groups: bool, ready: int) -> None:
        self._tier = tier
        self._waiting = waiting
        self._keeper = keeper
        self._groups = groups
        self._ready = ready
        # Guards the table, and is never held for a wait; the other one is for whoever makes a family.
        self._lock = threading.RLock()
        self._making = threading.Lock()
        self._by_key: OrderedDict[tuple[Any, ...], Family] = OrderedDict()
        self._stock: SlotStock | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._by_key)

    def values(self) -> list[Family]:
        """All that there are now."""
        with self._lock:
            return list(self._by_key.values())

    def stock(self) -> SlotStock:
        """The slots of this sandbox.  Raises BackendError."""
        found = place()[1] if self._groups and self._stock is None else None
        with self._lock:
            if self._stock is None:
                self._stock = SlotStock(None if isinstance(found, cgroup.Unavailable) else found)
            return self._stock

    async def held(self, request: RunRequest) -> Family:
        """
        The family that serves a request, kept until it is let go.

        Raises BackendError, ConfigurationError, TierUnavailable.
        """
        key = _key(request)
        while True:
            with self._lock:
                if self._closed:
                    raise BackendError("running", "the sandbox is closed", "make a new one")
                found = self._by_key.get(key)
                if found is not None:
                    self._by_key.move_to_end(key)
                    found.holders += 1
                    return found
            # To look for control groups and to read sources takes a while.
            await self._waiting.call(partial(self._make, key))

    def let_go(self, family: Family) -> None:
        """The end of :meth:`held`."""
        with self._lock:
            family.holders -= 1

    def _make(self, key: tuple[Any, ...]) -> None:
        with self._making:
            if self._closed or key in self._by_key:
                return
            kind, preload, packages, _ = key
            stock = self.stock()
            if kind == "command" and stock.place is None:
                raise no_groups(self._tier)
            wanted = self._tier.value, kind, preload, packages
            outfit, first = native_ahead.take(wanted, stock.place) or (Outfit(wanted, stock.place), None)
            made: Family
            made = Family(outfit, self._waiting, stock, lambda one: self._keeper.bury(made, one), first)
            made.ready_most = max(made.ready_most, self._ready)
            with self._lock:
                self._by_key[key] = made
                # Those that serve nobody just now, the longest unused first.
                idle = [each for each, one in self._by_key.items() if not one.holders and one is not made]
                old = [self._by_key.pop(each) for each in idle[: max(0, len(self._by_key) - _FAMILIES_MAX)]]
        if self._is_closed():
            # It came too late to be found there.
            made.retire()
        for family in old:
            self._keeper.soon(family.retire)

    def _is_closed(self) -> bool:
        return self._closed

    def end_tenant(self, tenant: str) -> None:
        """End the families of one tenant, none of whose runs is under way."""
        with self._lock:
            old = [self._by_key.pop(key) for key in list(self._by_key) if key[3] == tenant]
        for family in old:
            self._keeper.soon(family.retire)

    def close(self) -> list[Family]:
        """Give out none any more; returns those that there were, which are to be retired.  Idempotent."""
        with self._lock:
            self._closed = True
            families = list(self._by_key.values())
            self._by_key.clear()
            return families

    def free(self) -> None:
        """Remove the slots, after the guests."""
        if self._stock is not None:
            self._stock.close()


def _key(request: RunRequest) -> tuple[Any, ...]:
    kind = "command" if request.runtime == "command" else "python"
    preload = native_config.check_preload(request.preload or ()) if kind == "python" else ()
    wanted = request.packages
    packages = native_config.packages_of(wanted if wanted is None else tuple(wanted))
    return kind, preload, packages, request.tenant

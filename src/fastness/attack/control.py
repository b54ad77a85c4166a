"""
Controls: an attack's effect where nothing stops it, shown once for all tiers that it is the same for.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastness.attack.arena import NATIVE, Arena
from fastness.attack.model import Attack, Effect, Skip

if TYPE_CHECKING:
    from fastness.sync import Sandbox


class Controls:
    """
    The controls of one attack, for the tiers that it is tried in one after another.

    One that had its effect stands for the next tier too, where it has asked neither which tier it was made for nor for
    its sandbox, and where the files that it found were open to no more users than those of the next tier are.  One that
    had none is made anew each time.
    """

    def __init__(self, attack: Attack) -> None:
        self._attack = attack
        #: By whether files were open to everybody.
        self._kept: dict[bool, Effect | Skip] = {}

    def of(self, tier: str, box: Sandbox) -> tuple[Effect, float]:
        """What the control did, and the seconds that it took now.  Raises what it raises."""
        kept = self._kept.get(False) or (self._kept.get(True) if tier in NATIVE else None)
        if kept is not None:
            if isinstance(kept, Skip):
                raise kept
            return kept, 0.0
        began = time.monotonic()
        found: Effect | Skip
        with Arena(tier, box) as arena:
            try:
                found = self._attack.control(arena)
            except Skip as reason:
                found = reason
        if not arena.knows_tier and (isinstance(found, Skip) or found.happened):
            self._kept[tier in NATIVE] = found
        if isinstance(found, Skip):
            raise found
        return found, time.monotonic() - began

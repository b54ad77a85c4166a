"""
Refusals of one run as its result tells them: equal ones are one row, and what does not fit is counted.
"""

from __future__ import annotations

import threading
import time

import msgspec

from fastness.broker.trail import Intent
from fastness.runs import Denial, DenialCode

__all__ = ["Refusals"]

#: Rows that are kept.
_ROWS = 64


class Refusals:
    """Any thread may note one and look at them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, ...], Denial] = {}
        self._dropped = 0
        self._began = time.monotonic()

    def note(self, intent: Intent, code: DenialCode, *, effect: bool = False) -> None:
        """This was refused, for this reason; where it may have had its ``effect``, that was its answer."""
        layer = "answer" if effect else "broker"
        key = (intent.capability, intent.operation, intent.target, code, layer)
        with self._lock:
            row = self._rows.get(key)
            if row is not None:
                self._rows[key] = msgspec.structs.replace(row, count=row.count + 1)
            elif len(self._rows) < _ROWS:
                self._rows[key] = Denial(
                    capability=intent.capability,
                    operation=intent.operation,
                    target=intent.target,
                    code=code,
                    layer=layer,
                    at=time.monotonic() - self._began,
                )
            else:
                self._dropped += 1

    def rows(self) -> tuple[tuple[Denial, ...], int]:
        """Those so far, and how many did not fit."""
        with self._lock:
            return tuple(self._rows.values()), self._dropped

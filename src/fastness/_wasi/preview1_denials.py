"""
The list of what the guest tried and was refused, bounded whatever the guest does.

Rows are facts that this process saw itself (``layer="wasi"``), in the order of their first occurrence.
"""

from __future__ import annotations

from time import monotonic_ns

#: Distinct rows that are kept; more are only counted.
ROWS_MAX = 64
#: Characters of a target that are kept.
TARGET_MAX = 256


def printable(text: str, cap: int = TARGET_MAX) -> str:
    """At most ``cap`` characters of ``text``, with everything that a terminal would not show as itself escaped."""
    text = text[:cap]
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)[:cap]


def _escaped(character: str) -> str:
    """As the codec ``unicode_escape`` would write it, which a confined process cannot load any more."""
    code = ord(character)
    named = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}.get(code)
    return named or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


class DenialLog:
    """
    Counts of refusals by (operation, target, code).

    Equal rows are merged; past :data:`ROWS_MAX` distinct rows only ``dropped`` grows.
    """

    __slots__ = ("_first", "_rows", "dropped")

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], int] = {}
        self._first: list[int] = []
        self.dropped = 0

    def add(self, operation: str, target: str, code: str) -> None:
        """Count one refusal."""
        key = (operation, target[:TARGET_MAX], code)
        count = self._rows.get(key)
        if count is not None:
            self._rows[key] = count + 1
        elif len(self._rows) < ROWS_MAX:
            self._rows[key] = 1
            self._first.append(monotonic_ns())
        else:
            self.dropped += 1

    def rows(self) -> list[tuple[str, str, str, str, int]]:
        """(operation, printable target, code, layer, count) of each kept row."""
        return [(op, printable(target), code, "wasi", count) for (op, target, code), count in self._rows.items()]

    def first_seen(self) -> list[int]:
        """When each kept row came first, on the engine's monotonic clock in nanoseconds; in the order of the rows."""
        return self._first

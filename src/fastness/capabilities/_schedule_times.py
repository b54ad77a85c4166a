"""
Times that guests name: instants, which are the same everywhere, and never the time of some place's clocks.

Inside they are whole microseconds since 1970 (UTC), so that steps add up.
"""

from __future__ import annotations

import datetime
import math

from fastness.errors import Denied
from fastness.runs import DenialCode

__all__ = ["MICROS", "PAST_S", "instant", "micros", "shown"]

MICROS = 1_000_000
#: Seconds that an instant may have passed by and still count as now: the way from a guest's clock takes time.
PAST_S = 60.0
_SHOWN = 40
#: The last instant that a text can name, the year 9999; numbers beyond are no times.
_END_S = 253_402_300_800


def micros(seconds: float) -> int:
    """Seconds as whole microseconds."""
    return round(seconds * MICROS)


def instant(when: float | str, now: int, ahead_s: float) -> int:
    """
    The instant that a guest names, which is no earlier than ``now`` and no later than so many seconds after it.

    ``when`` is seconds since 1970, or a text of ISO 8601 with its offset from UTC.  One that has passed by no more than
    :data:`PAST_S` is now.  Raises Denied: ``unsupported`` for what names no instant, such as a local time without an
    offset, which at the end of summer time is two; ``outside`` for one that is past or too far ahead.
    """
    found = _seconds(when)
    due = micros(found)
    if due < now - micros(PAST_S) or due > now + micros(ahead_s):
        raise Denied(DenialCode.OUTSIDE, shown(when))
    return max(due, now)


def _seconds(when: float | str) -> float:
    if isinstance(when, str):
        try:
            # It takes some letters for others, and does not see what stands behind a NUL.
            moment = datetime.datetime.fromisoformat(when if when.isascii() and when.isprintable() else "")
        except ValueError:
            raise Denied(DenialCode.UNSUPPORTED, f"{shown(when)}: not a time of ISO 8601") from None
        if moment.tzinfo is None:
            raise Denied(DenialCode.UNSUPPORTED, f"{shown(when)}: a time without its offset from UTC")
        return moment.timestamp()
    if not math.isfinite(when) or abs(when) > _END_S:
        raise Denied(DenialCode.UNSUPPORTED, f"{shown(when)}: not a time")
    return when


def shown(when: float | str) -> str:
    """A time for a record: as a guest wrote it, or an instant in UTC where it is a number."""
    if isinstance(when, str):
        return when[:_SHOWN]
    try:
        return datetime.datetime.fromtimestamp(when, datetime.UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{when:g}"

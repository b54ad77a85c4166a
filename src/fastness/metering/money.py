"""
Amounts of money as whole numbers: billionths of one unit of whatever currency the operator's prices are in.

A price of a million tokens with a few decimals is then exact for each token, and no sum drifts.
"""

from __future__ import annotations

import decimal
import math
from typing import Any

from fastness.errors import ConfigurationError

__all__ = ["UNIT", "in_money", "nanos"]

#: Billionths in one unit.
UNIT = 1_000_000_000
#: The most that a setting may say, in units.
_MOST = 1_000_000


def nanos(value: Any, field: str) -> int:
    """
    Billionths of an amount in units, written as a number.  Raises ConfigurationError that names ``field``.

    What has more than nine decimals is rounded up: a price is never taken for less than it is.
    """
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 <= value <= _MOST:
        raise ConfigurationError(field, value, f"an amount of money: a number from 0 to {_MOST}")
    # By its decimal text, which is what was written; the binary number beside it is another.
    exact = decimal.Decimal(str(value)) * UNIT
    return int(exact.to_integral_value(decimal.ROUND_CEILING))


def in_money(amount: int, currency: str = "") -> str:
    """An amount for people: at least two decimals, and no more than it has."""
    whole, rest = divmod(abs(amount), UNIT)
    digits = f"{rest:09d}".rstrip("0").ljust(2, "0")
    return f"{'-' if amount < 0 else ''}{whole}.{digits}" + (f" {currency}" if currency else "")

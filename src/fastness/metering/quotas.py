"""
Quotas of the operator's: what plugins may use up for owners in a day, in a month, or ever.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from fastness.errors import ConfigurationError
from fastness.limits import in_words, parse_size
from fastness.metering.money import in_money, nanos

__all__ = ["EACH", "MEASURES", "WRITTEN", "Amounts", "Quota", "first_day", "quota_of", "today"]

#: Stands for each plugin, or each owner, by itself.
EACH = "*"
#: What is counted, by the names of the fields of :class:`Amounts`.
MEASURES = ("calls", "bytes", "cpu_micros", "cost")
_DAY_S = 86_400
_MOST = (1 << 53) - 1
_SECONDS_MAX = 1_000_000_000

_Count = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """So many calls, bytes to and from guests, millionths of a second of processor time, and billionths of money."""

    calls: int = 0
    bytes: int = 0
    cpu_micros: int = 0
    cost: int = 0


class Quota(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    The most that may be used up ``per`` day or month (of UTC), or ever; a measure that is None has no bound here.

    ``plugin`` and ``owner`` say whose use it is about: a name is that one, ``*`` is each by itself, and where nothing
    is said it is all of them together.  So ``owner="*"`` alone bounds each owner's use of all plugins.
    """

    plugin: Annotated[str, msgspec.Meta(max_length=200)] = ""
    owner: Annotated[str, msgspec.Meta(max_length=200)] = ""
    per: Literal["day", "month", "ever"] = "day"
    calls: _Count | None = None
    bytes: _Count | None = None
    cpu_micros: _Count | None = None
    cost: _Count | None = None

    def concerns(self, plugin: str, owner: str) -> bool:
        """Whether what this plugin does for this owner counts here."""
        return self.plugin in ("", EACH, plugin) and self.owner in ("", EACH, owner)

    @property
    def whose(self) -> str:
        """Whose use it is about, in words."""
        plugins = {"": "all plugins", EACH: "each plugin"}.get(self.plugin, f"the plugin {self.plugin}")
        owners = {"": "all owners", EACH: "each owner"}.get(self.owner, f"the owner {self.owner}")
        return f"{plugins} for {owners}"

    def words(self, measure: str) -> str:
        """One of its bounds in words."""
        most = getattr(self, measure)
        shown = {
            "calls": f"{most} calls",
            "bytes": f"{in_words(most or 0)} to and from guests",
            "cpu_micros": f"{(most or 0) / 1e6:g} seconds of processor time",
            "cost": f"{in_money(most or 0)} of money",
        }[measure]
        return shown if self.per == "ever" else f"{shown} a {self.per}"


#: Fields of a quota as an operator writes them.
WRITTEN = ("plugin", "owner", "per", "calls", "bytes", "cpu_s", "cost")


def quota_of(plain: Mapping[str, Any], field: str) -> Quota:
    """
    A quota as an operator writes it: sizes with units, processor time in seconds and money in units.

    Raises ConfigurationError that names what is wrong below ``field``.
    """
    given = dict(plain)
    if not set(given) & {"calls", "bytes", "cpu_s", "cost"}:
        raise ConfigurationError(field, "nothing is bounded", "at least one of calls, bytes, cpu_s and cost")
    if "bytes" in given:
        given["bytes"] = parse_size(given["bytes"], f"{field}.bytes")
    if "cost" in given:
        given["cost"] = nanos(given["cost"], f"{field}.cost")
    if "cpu_s" in given:
        seconds = given.pop("cpu_s")
        number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not number or not 0 <= seconds <= _SECONDS_MAX:
            raise ConfigurationError(f"{field}.cpu_s", seconds, f"seconds, 0 to {_SECONDS_MAX}")
        given["cpu_micros"] = int(seconds * 1e6)
    try:
        return msgspec.convert(given, Quota, strict=True)
    except msgspec.ValidationError as error:
        words, _, place = str(error).partition(" - at `$.")
        name = place.rstrip("`")
        raise ConfigurationError(f"{field}.{name}" if name else field, plain.get(name), words.lower()) from None


def today(now: float) -> int:
    """The day of a time in seconds since 1970, in days since 1970, of UTC."""
    return int(now // _DAY_S)


def first_day(per: str, day: int) -> int:
    """The first day of the time that ``day`` is counted with."""
    if per == "day":
        return day
    if per == "ever":
        return 0
    start = datetime.date(1970, 1, 1)
    try:
        month = (start + datetime.timedelta(days=day)).replace(day=1)
    except OverflowError:
        # The clock is wrong by thousands of years: each day by itself.
        return day
    return (month - start).days

"""
``fastness plugin usage``: what plugins used for owners, and how far quotas are used up.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from fastness.cli import exits
from fastness.cli.audit import moment
from fastness.cli.console import err, size, table
from fastness.cli.plugin_host import plugin_host
from fastness.cli.plugin_screen import Screen, write_json
from fastness.cli.visible import one_line
from fastness.metering.ledger import counted
from fastness.metering.money import in_money
from fastness.metering.quotas import MEASURES

if TYPE_CHECKING:
    from fastness.metering.ledger import Left


def usage(*, plugin: str | None, owner: str | None, since: str | None, as_json: bool) -> int:
    """Sums by owner and plugin; as JSON every day and kind."""
    with plugin_host() as host:
        rows = host.usage(plugin=plugin, owner=owner, since=0.0 if since is None else moment(since))
        whose = dict.fromkeys((row.plugin, row.owner) for row in rows)
        quotas = _once(left for pair in whose for left in host.quotas(*pair))
        currency = host.currency
    if as_json:
        used = [{**msgspec.to_builtins(row), "day": _date(row.day)} for row in rows]
        write_json({"currency": currency, "used": used, "quotas": msgspec.to_builtins(quotas)})
        return exits.OK
    if not rows:
        err("nothing was used yet" if plugin is None and owner is None and since is None else "nothing was used")
        return exits.OK
    screen = Screen()
    made = table(
        "owner", "plugin", "runs", "calls", "refused", "to guests", "from guests", "cpu s", "cost", "held",
        wrap=("owner", "plugin"),
    )  # fmt: skip
    for (who, what), (tally, held) in counted(rows).items():
        seconds, cost = f"{tally.cpu_micros / 1e6:.3f}", in_money(tally.cost, currency)
        made.add_row(
            one_line(who, 40), one_line(what, 40), str(tally.runs), str(tally.calls), str(tally.refused),
            size(tally.bytes_in), size(tally.bytes_out), seconds, cost,
            _held(held, currency),
        )  # fmt: skip
    screen.table(made)
    if disputed := sum(row.disputed for row in rows):
        screen.line()
        screen.line(
            f"Of {disputed} answers of models the price was not to be believed, and was taken to be all that was held: "
            "fastness audit shows each.",
            "bold",
        )
    if quotas:
        screen.line()
        screen.line("Quotas", "bold")
        screen.rows(
            [(_name(left), words, "bold red" if over else "") for left in quotas for words, over in _words(left)]
        )
    return exits.OK


def _date(day: int) -> str:
    try:
        return (datetime.date(1970, 1, 1) + datetime.timedelta(days=day)).isoformat()
    except OverflowError:
        # It was written while the clock was wrong by thousands of years.
        return str(day)


def _held(held: dict[str, int], currency: str) -> str:
    shown = {
        "calls": f"{held['calls']} calls",
        "bytes": size(held["bytes"]),
        "cpu_micros": f"{held['cpu_micros'] / 1e6:g} s",
        "cost": in_money(held["cost"], currency),
    }
    return ", ".join(shown[name] for name in MEASURES if held[name])


def _once(quotas: Iterable[Left]) -> list[Left]:
    """Each quota once for each whose use it is about."""
    return list({(left.quota, left.plugin, left.owner): left for left in quotas}.values())


def _name(left: Left) -> str:
    return one_line(" ".join(filter(None, (left.owner, left.plugin))) or "all", 16)


def _words(left: Left) -> Iterable[tuple[str, bool]]:
    for name in MEASURES:
        most: Any = getattr(left.quota, name)
        if most is not None:
            used = getattr(left.used, name)
            part = f"{100 * used / most:.0f}%" if most else "all"
            yield f"{part} of {left.quota.words(name)}", used >= most

"""
``fastness bench``: the figures of ``SPECIFICATION.md``, measured here.
"""

from __future__ import annotations

import json
import os
import platform
import sys

import msgspec

from fastness.bench.measure import PARTS
from fastness.bench.rows import Row
from fastness.cli import exits
from fastness.cli.console import err, say, stdout_console, table
from fastness.errors import ConfigurationError

#: Characters of the reason why a part could not be measured.
_NOTE = 300


def bench(*, as_json: bool, quick: bool, only: tuple[str, ...] = ()) -> int:
    """
    Measure, show, and say which promises hold.  Exit code 0 whatever the figures: a busy machine is no error, and a
    part that cannot be measured on it is a row that says so.

    ``only`` names the parts to measure, none for all.  Raises ConfigurationError for a part that there is not.
    """
    for name in only:
        if name not in PARTS:
            raise ConfigurationError("--only", name, ", ".join(PARTS))
    rows: list[Row] = []
    for name, part in PARTS.items():
        if only and name not in only:
            continue
        if not as_json:
            err(f"measuring {name} ...")
        try:
            # One by one: what was measured before a part broke off is kept.
            for row in part(quick):
                rows.append(row)  # noqa: PERF402  # as above
        except Exception as error:  # noqa: BLE001  # whatever it is, the other parts are worth measuring
            rows.append(Row(name=name, note=f"could not be measured: {type(error).__name__}: {error}"[:_NOTE]))
    if as_json:
        found = [{**msgspec.to_builtins(row), "kept": row.kept} for row in rows]
        say(json.dumps({"schema": 1, "machine": _machine(), "rows": found}))
        return exits.OK
    shown = table("what", "p50", "p99", "ratio", "to", "promise", "kept", wrap=("what", "to"))
    for row in rows:
        shown.add_row(
            row.name, _number(row.value, row.unit), _number(row.p99, row.unit), _ratio(row.ratio),
            row.against or row.note, _promise(row), {True: "yes", False: "NO", None: ""}[row.kept],
        )  # fmt: skip
    stdout_console().print(shown)
    say(_machine())
    broken = [row.name for row in rows if row.kept is False]
    if broken:
        print(f"not kept in this run: {', '.join(broken)}", file=sys.stderr)
    return exits.OK


def _machine() -> str:
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    cores = len(os.sched_getaffinity(0))
    python = platform.python_version()
    return f"{platform.machine()}, {cores} cores, kernel {platform.release()}, Python {python}, load {load}"


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f}{'' if unit.startswith('/') else ' '}{unit}".rstrip()


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.3f}" if ratio < 1 else f"{ratio:.2f}"


def _promise(row: Row) -> str:
    if row.promise is None or row.bound is None:
        return ""
    # What is promised at another pace is said too: it is what stands in the specification.
    at_pace = f" ({row.promise:g})" if row.pace != 1 else ""
    bound = f"{row.bound:,.0f}" if row.bound >= 100 else f"{row.bound:.3g}"
    return f"{'at least' if row.at_least else 'at most'} {bound}{at_pace}"

"""
``fastness audit``: what was done on whose behalf, and whether the record of it is whole.
"""

from __future__ import annotations

import datetime
import os
import re
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from fastness.audit import reading
from fastness.audit.export import JsonLines
from fastness.audit.verify import Anchor, anchor, verify
from fastness.cli import exits
from fastness.cli.console import err, stdout_console
from fastness.cli.visible import one_line
from fastness.errors import ConfigurationError
from fastness.runner.trail import open_trail, places

if TYPE_CHECKING:
    from fastness.audit.record import AuditRecord

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGO = re.compile(r"([0-9]{1,9})([smhd])")
_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
#: Damages that are shown one by one.
_SHOWN = 50


def show(*, plugin: str | None, owner: str | None, since: str | None, count: int, follow: bool, as_json: bool) -> int:
    """Show records; with ``follow`` go on as more are written."""
    path, _ = places()
    query = reading.Query(plugin=plugin, owner=owner, since=None if since is None else moment(since))
    if as_json:
        found: Iterable[AuditRecord] = reading.last(path, query, count=count) if count else reading.records(path, query)
    else:
        found = reading.last(path, query, count=count or 100)
    # Asked for before anything is shown, so that nothing between the two is left out.
    newest = max((record.seq for record in reading.last(path, count=1)), default=-1)
    shown = _print(found, as_json=as_json)
    if not follow:
        if not os.path.lexists(path):
            err("nothing has been recorded yet")
        return exits.OK
    newest = max(newest, *(record.seq for record in shown[-1:])) if shown else newest
    for record in reading.follow(path, query, after=newest):
        _print([record], as_json=as_json, head=False)
    return exits.OK


def check(*, head: str | None, as_json: bool) -> int:
    """Verify the trail, against an anchor where there is one."""
    wanted = None if head is None else Anchor.parse(head)
    path, key = places()
    if not os.path.lexists(path) and wanted is None:
        err("nothing has been recorded yet")
        return exits.OK
    verdict = verify(path, key, wanted)
    if as_json:
        sys.stdout.write(msgspec.json.encode({"schema": 1, "whole": verdict.whole, **_plain(verdict)}).decode() + "\n")
    else:
        for damage in verdict.damages[:_SHOWN]:
            print(f"{damage.kind.value}: {one_line(damage.what)}")
        more = len(verdict.damages) - _SHOWN + verdict.more if len(verdict.damages) > _SHOWN else verdict.more
        if more > 0:
            print(f"and {more} more")
        pruned = f", after {verdict.pruned} that were pruned" if verdict.pruned else ""
        print(f"{verdict.records} records{pruned}; the head is {verdict.head}")
    if not verdict.whole:
        err("the audit trail is damaged: keep it, with the anchors that you have, and look at who could write to it")
        return exits.FAILED
    if wanted is None:
        err("whether its end was cut off shows only against an anchor: fastness audit verify --head NUMBER:HASH")
    return exits.OK


def print_anchor(*, as_json: bool) -> int:
    """Print the head, to be kept elsewhere."""
    path, _ = places()
    found = anchor(path) if os.path.lexists(path) else Anchor()
    print(msgspec.json.encode(_plain(found)).decode() if as_json else str(found))
    return exits.OK


def prune(*, before: str) -> int:
    """Remove old records, and have a checkpoint stand for them."""
    from fastness.audit.prune import prune as body

    path, _ = places()
    removed = body(open_trail(), before=moment(before)) if os.path.lexists(path) else 0
    print(f"{removed} records removed")
    return exits.OK


def moment(text: str) -> float:
    """Seconds since 1970 of a time: seconds since 1970, ISO 8601, or so long ago: ``30m``, ``2h``, ``7d``."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return time.time() - int(ago[1]) * _UNITS[ago[2]]
    try:
        return float(text) if re.fullmatch(r"[0-9.]{1,20}", text) else datetime.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        allowed = "seconds since 1970, a time such as 2026-11-30T12:00, or so long ago: 30m, 2h, 7d"
        raise ConfigurationError("time", text, allowed) from None


def _plain(value: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain


def _print(records: Iterable[AuditRecord], *, as_json: bool, head: bool = True) -> list[AuditRecord]:
    """Print records; those that were printed, the last one at least."""
    if as_json:
        line = JsonLines(sys.stdout)
        latest: list[AuditRecord] = []
        for record in records:
            line(record)
            latest = [record]
        return latest
    rows = list(records)
    if rows:
        made = _table(head=head)
        for record in rows:
            made.add_row(str(record.seq), _time(record.at), _who(record), _what(record), _came(record))
        stdout_console().print(made)
    return rows


def _table(*, head: bool) -> Any:
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD if head else None, show_header=head, pad_edge=False, padding=(0, 2, 0, 0))
    # Widths are fixed, so that lines which come later stand below those before; what is long takes several lines.
    for name, width in (("record", 7), ("time", 14), ("for", 14)):
        made.add_column(name, width=width, overflow="fold")
    made.add_column("what", ratio=3, overflow="fold")
    made.add_column("came of it", ratio=2, overflow="fold")
    made.expand = True
    return made


def _time(at: float) -> str:
    try:
        return time.strftime("%m-%d %H:%M:%S", time.localtime(at))
    except (ValueError, OverflowError, OSError, TypeError):
        return one_line(str(at), 14)


def _who(record: AuditRecord) -> str:
    return " / ".join(one_line(name, 60) for name in (record.plugin, record.owner) if name)


def _what(record: AuditRecord) -> str:
    name = ".".join(one_line(part, 60) for part in (record.capability, record.op) if part)
    # Of a digest as much as tells it from others; --json has it whole.
    target = _DIGEST.sub(r"\1...", record.target)
    return f"{name} {one_line(target)}".rstrip()


def _came(record: AuditRecord) -> str:
    code = one_line(record.code, 60)
    if record.phase == "outcome":
        if record.decision == "refused":
            return f"of {record.intent}: refused: {code}"
        if code and not record.micros:
            return f"of {record.intent}: {code}"
        return f"of {record.intent}: {code or 'done'}, {record.micros} µs"
    if record.decision == "refused":
        return f"refused: {code}"
    if record.phase == "event":
        return code or "recorded"
    return " ".join(filter(None, (one_line(record.phase, 20), code)))

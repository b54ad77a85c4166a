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
from fastness.broker.trail import ANSWER, LATE
from fastness.cli import exits
from fastness.cli.audit_grants import Grants
from fastness.cli.console import err, stdout_console
from fastness.cli.visible import one_line
from fastness.errors import ConfigurationError
from fastness.metering.money import in_money
from fastness.runner.trail import open_trail, places

if TYPE_CHECKING:
    from fastness.audit.record import AuditRecord

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGO = re.compile(r"([0-9]{1,9})([smhd])")
_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
#: What a line may end behind.
_PARTS = re.compile(r"[^\s/?&=,;:]*(?:[/?&=,;:]+\s*|\s+)|[^\s/?&=,;:]+")
#: Columns of the numbers, the times, and between two columns; and from how many on there is room for all of them.
_NUMBER, _CLOCK, _GAP, _ROOMY = 6, 8, 2, 100
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
    rows = _Rows(as_json=as_json)
    last = rows.show(found)
    if not follow:
        if not os.path.lexists(path):
            err("nothing has been recorded yet")
        elif last < 0 and not as_json:
            asked = {"plugin": plugin, "owner": owner, "since": since}
            words = ", ".join(f"{name} {one_line(value, 80)}" for name, value in asked.items() if value is not None)
            err(f"there is no record of {words}" if words else "there is no record")
        return exits.OK
    for record in reading.follow(path, query, after=max(newest, last)):
        rows.show([record])
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


class _Rows:
    """
    Shows records: those that come later stand below those before, in columns of the same widths.

    The day and the zone of the times have a line of their own, where they change.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._line = JsonLines(sys.stdout) if as_json else None
        self._console = stdout_console()
        self._day = ""
        self._head = True
        self._grants = Grants()
        wide = self._console.width
        whose = 14 if wide < 80 else 20 if wide < 100 else 26
        rest = max(wide - _NUMBER - _CLOCK - whose - 3 * _GAP, 8)
        came = (rest - _GAP) * 3 // 8
        #: Where there is little room, what came of it stands behind what was done.
        self._widths = (whose, rest) if wide < _ROOMY else (whose, rest - _GAP - came, came)

    def show(self, records: Iterable[AuditRecord]) -> int:
        """Show them; the number of the last one, or -1."""
        number, made, day = -1, None, ""
        refused: list[AuditRecord] = []
        for record in records:
            number = record.seq
            if record.decision == "refused":
                refused.append(record)
            if self._line is not None:
                self._line(record)
                continue
            found, clock = _when(record.at)
            if made is None or found != self._day:
                self._print(made, day)
                made, day, self._day = self._table(), found if found != self._day else "", found
            what, came = _what(record), _came(record)
            cells = [_who(record), what, came] if len(self._widths) > 2 else [_who(record), f"{what}: {came}"]
            made.add_row(str(record.seq), clock, *map(_folded, cells, self._widths))
        self._print(made, day)
        if self._line is None:
            for words, *commands in self._grants.of(refused):
                self._console.print(words, markup=False, highlight=False, soft_wrap=True)
                for one in commands:
                    self._console.print(f"  {one}", markup=False, highlight=False, soft_wrap=True)
        return number

    def _print(self, made: Any, day: str) -> None:
        if made is not None:
            if day:
                self._console.print(day)
            self._console.print(made)

    def _table(self) -> Any:
        from rich import box
        from rich.table import Table

        head, self._head = self._head, False
        # The box has a column of its own between two.
        padding = (0, _GAP - 1, 0, 0)
        made = Table(box=box.SIMPLE_HEAD, show_header=head, show_edge=False, pad_edge=False, padding=padding)
        names = ("for", "what", "came of it") if len(self._widths) > 2 else ("for", "what, and what came of it")
        for name, width in (("record", _NUMBER), ("time", _CLOCK), *zip(names, self._widths, strict=True)):
            made.add_column(name, width=width, overflow="fold")
        return made


def _folded(text: str, width: int) -> str:
    """A text whose lines end between words, else behind a mark, and within a word only where that is too long."""
    from rich.cells import cell_len

    lines = [""]
    for part in _PARTS.findall(text):
        if lines[-1] and cell_len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _when(at: float) -> tuple[str, str]:
    """The day with its zone, and the time of day."""
    try:
        moment = datetime.datetime.fromtimestamp(at, datetime.UTC).astimezone()
        return f"{moment:%Y-%m-%d}, times in UTC{moment.isoformat()[-6:]}", f"{moment:%H:%M:%S}"
    except (ValueError, OverflowError, OSError, TypeError):
        return f"no time: {one_line(str(at), 20)}", ""


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
        if code.startswith(ANSWER):
            code = f"may be done; the answer was refused: {code.removeprefix(ANSWER)}"
        elif code == LATE:
            code = "done, when nobody waited for it any more"
        dropped = f", forged fields dropped: {record.dropped}" if record.dropped else ""
        if record.decision == "refused":
            return f"of {record.intent}: refused: {code}{dropped}"
        if code and not record.micros:
            return f"of {record.intent}: {code}{dropped}"
        cost = f", cost {in_money(record.cost)}" if record.cost else ""
        return f"of {record.intent}: {code or 'done'}, {record.micros} µs{cost}{dropped}"
    if record.decision == "refused":
        return f"refused: {code}"
    if record.phase == "event":
        return code or "recorded"
    return " ".join(filter(None, (one_line(record.phase, 20), code)))

"""
What came of attacks, on a screen: the matrix of families by tiers, and each attack where that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fastness.attack import matrix, plan, report
from fastness.attack.model import Outcome, Verdict
from fastness.cli.console import stdout_console, table
from fastness.cli.doctor import in_lines
from fastness.cli.visible import one_line

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_STYLE = {
    "held": "green",
    "allowed": "cyan",
    "skipped": "dim",
    "escaped": "bold red",
    "void": "bold yellow",
    "unexpected": "bold yellow",
    "by": "",
    "quiet": "dim",
}


#: Characters of a reason that is not said again for each attack that has it.
_LONG_REASON = 80


def show(proof: report.Proof, *, verbose: bool) -> None:
    """All of it, on standard output; the last line is the summary."""
    from rich.text import Text

    console = stdout_console()
    if verbose:
        for tier in dict.fromkeys(outcome.tier for outcome in proof.outcomes):
            console.print(_each(tier, [outcome for outcome in proof.outcomes if outcome.tier == tier]), "")
    console.print(_matrix(proof))
    for line in _words(proof):
        console.print(Text(line), soft_wrap=True)


def _each(tier: str, outcomes: list[Outcome]) -> Table:
    """Each attack on one tier: what was claimed, tried and seen."""
    from rich.text import Text

    shown: Table = table("attack", "what is claimed, and what was seen", title=f"tier {tier}")
    for outcome in outcomes:
        head = Text(outcome.attack.id)
        head.append(f"\n{outcome.verdict.value}", style=_STYLE[outcome.verdict.value])
        head.append(f", {outcome.stopped_by}" if outcome.stopped_by else "")
        said = Text(outcome.says)
        if outcome.verdict is Verdict.SKIPPED:
            said.append(f"\n{one_line(outcome.detail, 300)}", style="dim")
        else:
            head.append(f"\n{outcome.seconds:.1f} s", style="dim")
            shared = "" if outcome.control_seconds else " (made for another tier)"
            said.append(f"\ninside: {one_line(outcome.seen, 600)}", style="dim")
            said.append(f"\ncontrol: {one_line(outcome.control, 600)}{shared}", style="dim")
        if outcome.before:
            said.append(f"\nat first: {one_line(outcome.before, 600)}", style="dim")
        shown.add_row(head, said, end_section=True)
    return shown


def _matrix(proof: report.Proof) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    shown.add_column("family", no_wrap=True)
    for standing in proof.standings.values():
        shown.add_column(standing.tier, overflow="fold", ratio=1)
    for family, row in proof.matrix.items():
        cells = []
        for tier, cell in row.items():
            if proof.standings[tier].holds:
                cells.append(_cell(cell))
            else:
                cells.append(Text("not here", style="dim"))
        shown.add_row(family, *cells, end_section=True)
    return shown


def _cell(cell: matrix.Cell) -> Text:
    from rich.text import Text

    found = Text()
    for number, (words, mark) in enumerate(matrix.lines(cell)):
        found.append("\n" if number else "")
        found.append(words, style=_STYLE[mark])
    return found


def _words(proof: report.Proof) -> Iterator[str]:
    """What is said below the matrix."""
    yield from map(in_lines, plan.unheld(proof.standings))
    if any(outcome.verdict is Verdict.ALLOWED for outcome in proof.outcomes):
        yield "allowed: made, and not stopped, as is said of the tier; see fastness explain TIER"
    if any(cell.not_promised for row in proof.matrix.values() for cell in row.values()):
        yield "not promised: attacks on what the tier does not promise, which were not made"
    left = sum(cell.left_out for row in proof.matrix.values() for cell in row.values())
    if left:
        yield f"{plan.LEFT_OUT}: {left}; of each family something was tried in each tier that it has attacks for"
    said: dict[tuple[str, str, str], list[str]] = {}
    for outcome in proof.outcomes:
        if outcome.verdict not in (Verdict.HELD, Verdict.ALLOWED) and outcome.detail != plan.LEFT_OUT:
            detail = one_line(outcome.detail, 2000)
            said.setdefault((outcome.attack.id, outcome.verdict.value, detail), []).append(outcome.tier)
    # The worst comes last, where it is read; a long reason that many have is said once.
    first: dict[str, str] = {}
    for (name, verdict, detail), tiers in sorted(said.items(), key=lambda item: item[0][1] != "skipped"):
        like = first.setdefault(detail, name)
        short = detail if like == name or len(detail) < _LONG_REASON else f"as {like}"
        yield f"{name}: {verdict}: {short} ({', '.join(tiers)})"
    for outcome in proof.outcomes:
        if outcome.before:
            yield f"{outcome.attack.id}: tried twice in {outcome.tier}: at first {one_line(outcome.before, 2000)}"
    yield f"{proof.seconds:.0f} s, {proof.lanes} at once"
    yield report.summary(proof.outcomes)

"""
``fastness attack``: the corpus against this machine's tiers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from fastness.attack import registry, report, runner
from fastness.attack.model import Outcome, Verdict
from fastness.backends import registry as backends
from fastness.cli import exits
from fastness.cli.console import err, say, stdout_console, table
from fastness.cli.progress import BuildProgress
from fastness.errors import BackendError
from fastness.sync import Sandbox
from fastness.tier import Tier

_STYLE = {
    Verdict.HELD: "green",
    Verdict.ALLOWED: "cyan",
    Verdict.SKIPPED: "dim",
    Verdict.ESCAPED: "bold red",
    Verdict.VOID: "bold yellow",
    Verdict.UNEXPECTED: "bold yellow",
}


def attack(
    *,
    tiers: tuple[str, ...],
    only: tuple[str, ...],
    quick: bool,
    write_doc: str | None,
    verbose: bool,
    as_json: bool,
) -> int:
    """Run attacks and show what came of them.  Exit code 1 unless every one was held or skipped."""
    attacks = registry.select(only)
    names = [Tier.parse(name).value for name in tiers] or sorted(tier.value for tier in backends.SERVED)
    outcomes: list[Outcome] = []
    for name in names:
        with BuildProgress() as building, Sandbox(tier=name) as box:
            # The first run proves the tier and builds what is missing; attacks are not timed with that.
            box.run("pass", on_event=lambda event, data: building(data) if event == "progress" else None)
            total = sum(1 for each in attacks if name in each.tiers)
            for done, outcome in enumerate(runner.run(attacks, name, box, quick=quick), 1):
                outcomes.append(outcome)
                _tick(outcome, done, total)
    good = bool(outcomes) and all(outcome.verdict.good for outcome in outcomes)
    if as_json:
        say(msgspec.json.encode(report.to_dict(outcomes)).decode())
    else:
        _show(outcomes, verbose=verbose)
    if write_doc is not None:
        _write(write_doc, report.document(outcomes))
    return exits.OK if good else exits.FAILED


def _tick(outcome: Outcome, done: int, total: int) -> None:
    """One line for whoever waits: overwritten where somebody watches, absent elsewhere unless it is bad news."""
    if sys.stderr.isatty():
        print(f"\r\033[K{done}/{total} {outcome.attack.id}", end="" if done < total else "\r\033[K", file=sys.stderr)
        sys.stderr.flush()
    if not outcome.verdict.good:
        err(f"{outcome.attack.id}: {outcome.verdict.value}: {outcome.detail}")


def _show(outcomes: list[Outcome], *, verbose: bool) -> None:
    from rich.text import Text

    console = stdout_console()
    for tier in dict.fromkeys(outcome.tier for outcome in outcomes):
        shown = table(
            "attack", "what is claimed", "verdict", "stopped by", title=f"tier {tier}", wrap=("what is claimed",)
        )
        for outcome in outcomes:
            if outcome.tier != tier:
                continue
            verdict = Text(outcome.verdict.value, style=_STYLE[outcome.verdict])
            shown.add_row(outcome.attack.id, outcome.says, verdict, outcome.stopped_by)
            if verbose:
                seen = Text(f"inside: {outcome.seen}\ncontrol: {outcome.control}", style="dim")
                shown.add_row("", seen, f"{outcome.seconds:.1f} s", "")
        console.print(shown)
    for outcome in outcomes:
        if outcome.verdict not in (Verdict.HELD, Verdict.ALLOWED):
            console.print(f"{outcome.attack.id}: {outcome.verdict.value}: {outcome.detail}")
    console.print(report.summary(outcomes))


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BackendError(f"writing {path}", error.strerror or error, "name a file that can be written") from error

#!/usr/bin/env python3
"""
Makes docs/security/boundaries.md and failures.md of the sentences and attacks in the code, and says what is wrong.

    python tools/boundaries.py                 write the pages
    python tools/boundaries.py --try-new       first run the attacks that docs/security/attacks.md does not have as they
                                               are, on the tiers of this machine, and put their rows there
    python tools/boundaries.py --try ID...     the same for these attacks
    python tools/boundaries.py --check         exit with 1 where a page is not what would be written, where a sentence
                                               has no attack that held, or where an attack has no sentence
    python tools/boundaries.py --ran FILE...   exit with 1 where that is so of what came of a run just now: FILE is what
                                               `fastness attack --write-doc FILE` wrote, and later files count more

It needs Fastness itself, as in .venv after tools/dev.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from fastness.attack import registry, report, rows, runner
from fastness.attack.boundaries import behind
from fastness.attack.boundaries.page import failures, page
from fastness.attack.model import Attack, Outcome
from fastness.errors import TierUnavailable

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "security"
RESULTS = FOLDER / "attacks.md"
MADE = {FOLDER / "boundaries.md": page, FOLDER / "failures.md": failures}


def outdated(attacks: Iterable[Attack], held: dict[str, list[rows.Row]]) -> list[tuple[str, Attack]]:
    """Tiers and attacks whose row is missing, says something else than the attack, or is of one that has failed."""
    found = []
    for attack in attacks:
        for tier, expect in attack.tiers.items():
            says = expect.says or attack.claim.says
            there = [row for row in held.get(tier, ()) if row.id == attack.id]
            said = (attack.claim.guarantee.value, says)
            if not any((row.good or row.skipped) and (row.guarantee, row.says) == said for row in there):
                found.append((tier, attack))
    return found


def try_these(wanted: Sequence[tuple[str, Attack]], attacks: Sequence[Attack]) -> int:
    """Run attacks and put their rows into the page of results.  Returns 1 where one did not come to what is said."""
    from fastness.sync import Sandbox

    outcomes, status = [], 0
    for tier in sorted({tier for tier, _ in wanted}):
        try:
            with Sandbox(tier=tier) as box:
                box.run("pass")
                found = list(runner.run([attack for other, attack in wanted if other == tier], tier, box))
        except TierUnavailable as unavailable:
            print(f"{tier}: not tried here: {unavailable}", file=sys.stderr)
            status = 1
            continue
        for outcome in found:
            print(f"{tier}: {outcome.attack.id}: {outcome.verdict.value} {outcome.detail}")
            status |= not outcome.verdict.good
        outcomes += found
    RESULTS.write_text(results(outcomes, attacks), "utf-8")
    return status


def results(outcomes: Sequence[Outcome], attacks: Sequence[Attack]) -> str:
    """The page of results with these in it."""
    known = {attack.id: attack.tiers for attack in attacks}
    return rows.merged(report.document(()), RESULTS.read_text("utf-8"), outcomes, known)


def checked(attacks: Sequence[Attack]) -> list[str]:
    """What is wrong with the pages."""
    text = RESULTS.read_text("utf-8")
    wrong = behind.faults(attacks, rows.read(text))
    if text != results((), attacks):
        wrong.append(f"{RESULTS.name} has another head, rows of what is no attack, or rows that are not in their order")
    for path, make in MADE.items():
        if not path.exists() or path.read_text("utf-8") != make(attacks):
            wrong.append(f"{path.name} is stale")
    if wrong:
        # The second does what the first does too; it takes as long as those attacks take.
        wrong.append("run: python tools/boundaries.py, or with --try-new where rows are missing")
    return wrong


def ran(attacks: Sequence[Attack], files: Sequence[str]) -> list[str]:
    """What is wrong with what came of a run: of its tiers alone, and whatever the page of results says."""
    held: dict[str, dict[str, rows.Row]] = {}
    for name in files:
        for tier, found in rows.read(Path(name).read_text("utf-8")).items():
            held.setdefault(tier, {}).update((row.id, row) for row in found)
    if not held:
        return [f"nothing was tried: {', '.join(files)}"]
    return behind.faults(attacks, {tier: list(found.values()) for tier, found in held.items()}, sorted(held))


def main(arguments: list[str]) -> int:
    """Do what the arguments say."""
    attacks = behind.shipped(registry.load())
    status = 0
    if arguments == ["--check"] or (arguments[:1] == ["--ran"] and arguments[1:]):
        wrong = checked(attacks) if arguments == ["--check"] else ran(attacks, arguments[1:])
        for line in wrong:
            print(line, file=sys.stderr)
        return 1 if wrong else 0
    if arguments == ["--try-new"]:
        status = try_these(outdated(attacks, rows.read(RESULTS.read_text("utf-8"))), attacks)
    elif arguments[:1] == ["--try"] and arguments[1:]:
        wanted = [(tier, attack) for attack in attacks if attack.id in arguments[1:] for tier in attack.tiers]
        status = try_these(wanted, attacks)
    elif arguments:
        print(__doc__, file=sys.stderr)
        return 2
    for path, make in MADE.items():
        path.write_text(make(attacks), "utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

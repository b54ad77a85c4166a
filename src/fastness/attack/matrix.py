"""
Families of attacks by tiers: how many were stopped, by what, and what a tier lets through by design.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fastness.attack.model import Attack, Outcome, Verdict
from fastness.attack.plan import LEFT_OUT, unpromised


@dataclasses.dataclass(slots=True)
class Cell:
    """
    One family on one tier.

    ``verdicts`` counts what came of it, without what ``left_out`` counts: that is what ``--quick`` did not ask for.
    ``layers`` counts what stopped those that were held; ``not_promised`` are attacks on what the tier does not promise,
    which were not made.
    """

    verdicts: Counter[Verdict] = dataclasses.field(default_factory=Counter)
    layers: Counter[str] = dataclasses.field(default_factory=Counter)
    left_out: int = 0
    not_promised: list[str] = dataclasses.field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to say: no attack of the family is for this tier."""
        return not (self.verdicts or self.left_out or self.not_promised)

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``: counts by verdict and by layer, and the ids of what is not promised."""
        return {
            **{verdict.value: self.verdicts[verdict] for verdict in Verdict},
            "left_out": self.left_out,
            "by": dict(self.layers.most_common()),
            "not_promised": self.not_promised,
        }


#: Cells by family, and by tier within one.
Matrix = Mapping[str, Mapping[str, Cell]]


def make(attacks: Iterable[Attack], tiers: Sequence[str], outcomes: Iterable[Outcome]) -> Matrix:
    """
    The matrix of these attacks in these tiers.  In a tier without outcomes, as it does not hold, only what it does
    not promise is said.
    """
    found: dict[str, dict[str, Cell]] = {}
    for attack in sorted(attacks, key=lambda each: each.family):
        row = found.setdefault(attack.family, {tier: Cell() for tier in tiers})
        for tier in tiers:
            if unpromised(attack, tier):
                row[tier].not_promised.append(attack.id)
    for outcome in outcomes:
        cell = found[outcome.attack.family][outcome.tier]
        if outcome.verdict is Verdict.SKIPPED and outcome.detail == LEFT_OUT:
            cell.left_out += 1
            continue
        cell.verdicts[outcome.verdict] += 1
        if outcome.verdict is Verdict.HELD:
            cell.layers[outcome.layer] += 1
    return found


#: What is said of a verdict, and how it is marked.
WORDS: dict[Verdict, tuple[str, str]] = {
    Verdict.ESCAPED: ("ESCAPED", "escaped"),
    Verdict.VOID: ("VOID", "void"),
    Verdict.UNEXPECTED: ("UNEXPECTED", "unexpected"),
    Verdict.HELD: ("stopped", "held"),
    Verdict.ALLOWED: ("allowed", "quiet"),
    Verdict.SKIPPED: ("skipped", "skipped"),
}


def lines(cell: Cell, *, everything: bool = False) -> Iterator[tuple[str, str]]:
    """
    What a cell says, line by line, worst first, each with how it is marked: a verdict's name, ``by`` or ``quiet``.

    ``everything`` also counts what ``--quick`` left out.
    """
    for verdict in (Verdict.ESCAPED, Verdict.VOID, Verdict.UNEXPECTED, Verdict.HELD):
        count = cell.verdicts[verdict]
        if count:
            word, mark = WORDS[verdict]
            yield f"{count} {word}", mark
    for layer, count in cell.layers.most_common():
        yield (f"{layer} {count}" if len(cell.layers) > 1 else f"by {layer}"), "by"
    for count, word in (
        (cell.verdicts[Verdict.ALLOWED], "allowed"),
        (cell.verdicts[Verdict.SKIPPED], "skipped"),
        (cell.left_out if everything else 0, "left out"),
        (len(cell.not_promised), "not promised"),
    ):
        if count:
            yield f"{count} {word}", "quiet"
    if cell.empty:
        yield "-", "quiet"

"""
Rows of the page of what came of attacks: written, read again, and some of them made anew.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Container, Iterable, Mapping

from fastness.attack.model import Layer, Outcome, Verdict
from fastness.tier import LIMITS_OF, Tier

_HEAD = "| guarantee | what is claimed | attack | stopped by |"


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Row:
    """
    One attack on one tier as the page has it.

    ``by`` is what was seen to stop it, the word for nothing where that is what is said, and the verdict in bold type
    where it is a bad one or the attack was left out.
    """

    guarantee: str
    id: str
    says: str
    by: str

    @property
    def good(self) -> bool:
        """Whether it came to what is said of it."""
        return not self.by.startswith("**")

    @property
    def skipped(self) -> bool:
        """Whether it could not be tried where the page was made."""
        return self.by == f"**{Verdict.SKIPPED.value}**"

    @property
    def allowed(self) -> bool:
        """Whether it shows what is not stopped."""
        return self.by == Layer.NOTHING.value


def row(outcome: Outcome) -> Row:
    """The row of an outcome."""
    right = outcome.verdict in (Verdict.HELD, Verdict.ALLOWED)
    by = outcome.stopped_by if right else f"**{outcome.verdict.value}**"
    return Row(outcome.attack.claim.guarantee.value, outcome.attack.id, outcome.says, by)


def section(tier: str, rows: Iterable[Row]) -> list[str]:
    """The lines of a tier's part, with its heading."""
    every = sorted(rows)
    lines = [f"## {tier}", "", _HEAD, "|---|---|---|---|"]
    lines += (f"| {one.guarantee} | {one.says} | `{one.id}` | {one.by} |" for one in every if not one.allowed)
    untested = sorted({g.value for g in Tier(tier).guarantees} - {one.guarantee for one in every if not one.allowed})
    if untested:
        lines += ["", f"Proven by `fastness doctor` only: {', '.join(untested)}."]
    lines += ["", f"Not stopped: {LIMITS_OF[Tier(tier)]}."]
    shown = [f"| {one.guarantee} | {one.says} | `{one.id}` | {one.by} |" for one in every if one.allowed]
    if shown:
        lines += ["", "Shown not to be:", "", _HEAD, "|---|---|---|---|", *shown]
    return [*lines, ""]


def read(page: str) -> dict[str, list[Row]]:
    """The rows of a page that :func:`document` has made, by tier."""
    found: dict[str, list[Row]] = {}
    for part in page.split("\n## ")[1:]:
        tier, _, text = part.partition("\n")
        cells = re.findall(r"^\| ([A-Z_]+) \| (.*) \| `([^`]+)` \| (.*) \|$", text, re.MULTILINE)
        found[tier] = [Row(guarantee, name, says, by) for guarantee, says, name, by in cells]
    return found


def merged(head: str, page: str, outcomes: Iterable[Outcome], known: Mapping[str, Container[str]]) -> str:
    """
    A page with the rows of ``outcomes`` in it, in place of older ones, below ``head``.

    ``known`` are the tiers of each attack that there is by its id; rows of others are left out.
    """
    found = read(page)
    for outcome in outcomes:
        rows = [one for one in found.get(outcome.tier, ()) if one.id != outcome.attack.id]
        found[outcome.tier] = [*rows, row(outcome)]
    lines = [head]
    for tier in sorted(found):
        lines += section(tier, (one for one in found[tier] if tier in known.get(one.id, ())))
    return "\n".join(lines)

"""
What came of attacks, for machines and as a page of documentation.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from fastness.attack.model import Layer, Outcome, Verdict
from fastness.tier import LIMITS_OF, Tier

#: Version of the object that ``fastness attack --json`` prints.
SCHEMA = 1
_HEAD = "| guarantee | what is claimed | attack | stopped by |"


def summary(outcomes: Sequence[Outcome]) -> str:
    """One line that counts, worst first."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    order = (Verdict.ESCAPED, Verdict.VOID, Verdict.UNEXPECTED, Verdict.HELD, Verdict.ALLOWED, Verdict.SKIPPED)
    parts = [f"{counts[verdict]} {verdict.value}" for verdict in order if counts[verdict] or verdict is Verdict.ESCAPED]
    ran = len(outcomes) - counts[Verdict.SKIPPED]
    return f"{ran} attacks ran, each with its control: {', '.join(parts)}"


def to_dict(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The object that ``--json`` prints."""
    return {
        "schema": SCHEMA,
        "ran": sum(1 for outcome in outcomes if outcome.verdict is not Verdict.SKIPPED),
        "good": bool(outcomes) and all(outcome.verdict.good for outcome in outcomes),
        "attacks": [
            {
                "id": outcome.attack.id,
                "family": outcome.attack.family,
                "tier": outcome.tier,
                "guarantee": outcome.attack.claim.guarantee.value,
                "claim": outcome.says,
                "verdict": outcome.verdict.value,
                "stopped_by": outcome.stopped_by,
                "detail": outcome.detail,
                "seen": outcome.seen,
                "control": outcome.control,
                "seconds": round(outcome.seconds, 3),
            }
            for outcome in outcomes
        ],
    }


def document(outcomes: Sequence[Outcome]) -> str:
    """A page in Markdown: what each tier stops, with the attack that shows it, and what it does not stop."""
    lines = [
        "# What each tier stops",
        "",
        "Made by `fastness attack --write-doc`; do not edit.",
        "Each line was attacked: inside the tier the attack had no effect, and where nothing stops it, it had.",
        'Lines below "not stopped" were attacked too: there it had one, as is said of that tier.',
        "[Boundaries](boundaries.md) says what of this is a vulnerability.",
        "Run `fastness attack` to see the same on your own machine.",
        "",
        "What stops an attack:",
        "`wasi` rows are refusals that the host recorded;",
        "`guest` rows come from inside the guest and are marked as claimed;",
        "`broker` rows are calls that the broker refused;",
        "`limit` is a limit that the outcome names;",
        "`absent` means that what the attack needs does not exist in the guest;",
        "`fresh` that each run starts from clean memory;",
        "`engine` that what happened in the engine process ended there;",
        "`host` is a check on the way out;",
        "`seccomp` names the system call that was refused and recorded;",
        "`killed` that the filter ended the process;",
        "`filter` is a filter of system calls that keeps no record;",
        "`landlock`, `namespace`, `cgroup`, `rlimit` and `privilege` name walls of the kernel's that keep none either.",
        "",
    ]
    for tier in dict.fromkeys(outcome.tier for outcome in outcomes):
        lines += section(tier, [row(outcome) for outcome in outcomes if outcome.tier == tier])
    return "\n".join(lines)


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


def merged(page: str, outcomes: Iterable[Outcome], known: Mapping[str, Container[str]]) -> str:
    """
    A page with the rows of ``outcomes`` in it, in place of older ones.

    ``known`` are the tiers of each attack that there is by its id; rows of others are left out.
    """
    head = page.split("\n## ", maxsplit=1)[0]
    found = read(page)
    for outcome in outcomes:
        rows = [one for one in found.get(outcome.tier, ()) if one.id != outcome.attack.id]
        found[outcome.tier] = [*rows, row(outcome)]
    lines = [head]
    for tier in sorted(found):
        lines += section(tier, (one for one in found[tier] if tier in known.get(one.id, ())))
    return "\n".join(lines)

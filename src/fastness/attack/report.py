"""
What came of attacks, for machines and as a page of documentation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fastness.attack import rows
from fastness.attack.model import Outcome, Verdict

#: Version of the object that ``fastness attack --json`` prints.
SCHEMA = 1


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
        lines += rows.section(tier, [rows.row(outcome) for outcome in outcomes if outcome.tier == tier])
    return "\n".join(lines)

"""
What came of attacks, for machines and as a page of documentation.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fastness.attack import rows
from fastness.attack.matrix import Matrix
from fastness.attack.model import Outcome, Verdict
from fastness.attack.plan import Standing

#: Version of the object that ``fastness attack --json`` prints.
SCHEMA = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Proof:
    """
    All that came of one time of trying.

    ``standings`` are by tier, also of those that do not hold and in which nothing was tried; ``machine`` are the facts
    of :func:`machine`; ``lanes`` is how many were tried at once and ``seconds`` how long it took in all.
    """

    outcomes: Sequence[Outcome]
    standings: Mapping[str, Standing]
    matrix: Matrix
    machine: Mapping[str, Any]
    quick: bool
    lanes: int
    seconds: float


def good(outcomes: Sequence[Outcome]) -> bool:
    """Whether every expectation held: something was tried, nothing escaped, and no control was void."""
    return tried(outcomes) and all(outcome.verdict.good for outcome in outcomes)


def tried(outcomes: Sequence[Outcome]) -> bool:
    """Whether anything was: what was skipped proves nothing."""
    return any(outcome.verdict is not Verdict.SKIPPED for outcome in outcomes)


def counts(outcomes: Sequence[Outcome]) -> dict[Verdict, int]:
    """How many there are of each verdict, worst first."""
    found = Counter(outcome.verdict for outcome in outcomes)
    order = (Verdict.ESCAPED, Verdict.VOID, Verdict.UNEXPECTED, Verdict.HELD, Verdict.ALLOWED, Verdict.SKIPPED)
    return {verdict: found[verdict] for verdict in order}


def summary(outcomes: Sequence[Outcome]) -> str:
    """One line that counts, worst first."""
    found = counts(outcomes)
    parts = [f"{count} {verdict.value}" for verdict, count in found.items() if count or verdict is Verdict.ESCAPED]
    ran = len(outcomes) - found[Verdict.SKIPPED]
    return f"{ran} attacks ran, each with its control: {', '.join(parts)}"


def machine() -> dict[str, Any]:
    """Facts of this machine that what is said of it depends on."""
    import importlib.metadata
    import os
    import platform
    import time

    try:
        version = importlib.metadata.version("fastness")
    except importlib.metadata.PackageNotFoundError:
        version = "not installed"
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "fastness": version,
        "processors": len(os.sched_getaffinity(0)),
        "root": os.geteuid() == 0,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def to_dict(proof: Proof) -> dict[str, Any]:
    """The object that ``--json`` prints."""
    outcomes = proof.outcomes
    return {
        "schema": SCHEMA,
        "ran": sum(1 for outcome in outcomes if outcome.verdict is not Verdict.SKIPPED),
        "good": good(outcomes),
        "attacks": [
            {
                "id": outcome.attack.id,
                "family": outcome.attack.family,
                "tier": outcome.tier,
                "guarantee": outcome.attack.claim.guarantee.value,
                "claim": outcome.says,
                "verdict": outcome.verdict.value,
                "stopped_by": outcome.stopped_by,
                "layer": outcome.layer,
                "detail": outcome.detail,
                "seen": outcome.seen,
                "control": outcome.control,
                "seconds": round(outcome.seconds, 3),
                "control_seconds": round(outcome.control_seconds, 3),
                "before": outcome.before,
            }
            for outcome in outcomes
        ],
        "counts": {verdict.value: count for verdict, count in counts(outcomes).items()},
        "tiers": {
            standing.tier: {
                "holds": standing.holds,
                "backend": standing.probe.backend,
                "guarantees": list(standing.probe.guarantees),
                "layers": dict(standing.probe.layers),
                "versions": dict(standing.probe.versions),
                "failures": [
                    {"guarantee": failure.guarantee, "cause": failure.cause, "remedy": failure.remedy}
                    for failure in standing.probe.failures
                ],
            }
            for standing in proof.standings.values()
        },
        "matrix": {
            family: {tier: cell.to_dict() for tier, cell in row.items()} for family, row in proof.matrix.items()
        },
        "machine": proof.machine,
        "quick": proof.quick,
        "lanes": proof.lanes,
        "seconds": round(proof.seconds, 3),
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
    for tier in sorted({outcome.tier for outcome in outcomes}):
        lines += rows.section(tier, [rows.row(outcome) for outcome in outcomes if outcome.tier == tier])
    return "\n".join(lines)

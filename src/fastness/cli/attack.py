"""
``fastness attack``: the corpus against this machine's tiers.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fastness.attack import lanes, matrix, plan, registry, report
from fastness.attack.lane import Lane
from fastness.attack.model import Outcome, Verdict
from fastness.backends import registry as backends
from fastness.cli import exits
from fastness.cli.attack_progress import AttackProgress
from fastness.cli.console import say
from fastness.cli.progress import BuildProgress
from fastness.errors import BackendError, ConfigurationError, TierUnavailable
from fastness.sync import Sandbox
from fastness.tier import Probe, Tier

if TYPE_CHECKING:
    from fastness.attack.plan import Standing


def attack(
    *,
    tiers: tuple[str, ...],
    only: tuple[str, ...],
    quick: bool,
    jobs: int | None,
    write_doc: str | None,
    html: str | None,
    verbose: bool,
    as_json: bool,
) -> int:
    """
    Run attacks and show what came of them.

    Exit code 1 unless every one was held or skipped and one was not skipped, and 3 where none of the tiers holds.
    Raises TierUnavailable where one does not hold that was asked for by name: then nothing is tried.
    """
    if jobs is not None and not 1 <= jobs <= lanes.MOST:
        raise ConfigurationError("--jobs", jobs, f"1 to {lanes.MOST}")
    attacks = registry.select(only)
    names = [Tier.parse(name).value for name in tiers] or [tier.value for tier in Tier if tier in backends.SERVED]
    names = list(dict.fromkeys(names))
    began = time.monotonic()
    standings = {name: _standing(name, asked=bool(tiers)) for name in names}
    holding = [name for name in names if standings[name].holds]
    todo, left_out = plan.tasks(attacks, holding, quick)
    count = lanes.how_many(todo, jobs)
    with Lane() as lane, AttackProgress(sum(len(there) for _, _, there in todo)) as progress:
        outcomes = lanes.run(todo, lane, count, progress)
    outcomes += [Outcome(one, tier, Verdict.SKIPPED, detail=plan.LEFT_OUT) for one, tier in left_out]
    place = {one.id: number for number, one in enumerate(attacks)}
    outcomes.sort(key=lambda outcome: (names.index(outcome.tier), place[outcome.attack.id]))
    proof = report.Proof(
        outcomes=outcomes,
        standings=standings,
        matrix=matrix.make(attacks, names, outcomes),
        machine=report.machine(),
        quick=quick,
        lanes=count,
        seconds=time.monotonic() - began,
    )
    if as_json:
        say(msgspec.json.encode(report.to_dict(proof)).decode())
    else:
        from fastness.cli import attack_screen

        attack_screen.show(proof, verbose=verbose)
    if write_doc is not None:
        _write(write_doc, report.document(outcomes))
    if html is not None:
        from fastness.attack import page

        _write(html, page.make(proof))
    if not holding:
        return exits.UNAVAILABLE
    return exits.OK if report.good(outcomes) else exits.FAILED


def _standing(name: str, *, asked: bool) -> Standing:
    """Whether a tier holds here.  Raises TierUnavailable for one that was asked for and does not."""
    with Sandbox(tier=name) as box, BuildProgress() as building:
        try:
            if name == Tier.WASM.value:
                # Its first run builds what is missing, which takes a while and is not to be timed with attacks.
                box.run("pass", on_event=lambda event, data: building(data) if event == "progress" else None)
            return plan.Standing(name, box.probe())
        except TierUnavailable as error:
            if asked:
                raise
            return plan.Standing(name, Probe(backend="", tier=name, failures=error.failures))


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BackendError(f"writing {path}", error.strerror or error, "name a file that can be written") from error

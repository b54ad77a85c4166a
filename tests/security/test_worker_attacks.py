"""
Every shipped attack against the worker tier of this machine, each with its control.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fastness
from fastness.attack import registry, runner
from fastness.attack.model import Attack, Verdict

pytestmark = pytest.mark.attack

ATTACKS = [attack for attack in registry.load() if "worker" in attack.tiers]


@pytest.fixture(scope="module")
def attacked() -> Iterator[fastness.Sandbox]:
    with fastness.Sandbox(tier="worker") as box:
        yield box


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.id for attack in ATTACKS])
def test_attack(attack: Attack, attacked: fastness.Sandbox) -> None:
    """Inside the tier it has no effect, for the stated reason; where nothing stops it, it has."""
    (outcome,) = runner.run([attack], "worker", attacked)
    if outcome.verdict is Verdict.SKIPPED:
        pytest.skip(outcome.detail)
    assert outcome.verdict is Verdict.HELD, f"{outcome.detail}; inside: {outcome.seen}; control: {outcome.control}"


def test_every_guarantee_of_the_tier_is_attacked() -> None:
    assert {attack.claim.guarantee for attack in ATTACKS} == fastness.Tier.WORKER.guarantees

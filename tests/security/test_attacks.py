"""
Every shipped attack against the wasm tier of this machine, each with its control.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fastness
import house
from fastness.attack import registry, runner
from fastness.attack.model import Attack, Verdict

pytestmark = pytest.mark.attack

ATTACKS = [attack for attack in registry.load() if "wasm" in attack.tiers]


@pytest.fixture(scope="module")
def attacked() -> Iterator[fastness.Sandbox]:
    """One sandbox for all: what one attack leaves behind would show in the next."""
    house.require("python guest")
    house.require("javascript guest")
    with fastness.Sandbox(tier="wasm") as box:
        box.run("pass")
        yield box


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.id for attack in ATTACKS])
def test_attack(attack: Attack, attacked: fastness.Sandbox) -> None:
    """Inside the tier it has no effect, for the stated reason; where nothing stops it, it has."""
    (outcome,) = runner.run([attack], "wasm", attacked)
    if outcome.verdict is Verdict.SKIPPED:
        pytest.skip(outcome.detail)
    assert outcome.verdict is Verdict.HELD, f"{outcome.detail}; inside: {outcome.seen}; control: {outcome.control}"


def test_the_machine_still_works(attacked: fastness.Sandbox) -> None:
    """After all of them the same sandbox serves an ordinary run."""
    assert attacked.run("print(6 * 7)").stdout == "42\n"


def test_every_guarantee_of_the_tier_is_attacked_or_observed() -> None:
    """A promise that no attack tests is one that a probe observes from the kernel's side instead."""
    observed = {
        fastness.Guarantee.NO_NEW_PRIVS,
        fastness.Guarantee.NO_PRIVILEGE,
        fastness.Guarantee.SYSCALL_FILTERED,
        fastness.Guarantee.NO_SYSCALLS,
    }
    attacked = {attack.claim.guarantee for attack in ATTACKS}
    assert fastness.Tier.WASM.guarantees - attacked <= observed

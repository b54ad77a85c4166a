"""
Every shipped attack against the tiers of this machine, each with its control.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fastness
import house
from fastness.attack import registry, runner
from fastness.attack.model import Attack, Layer, Rule, Verdict

pytestmark = pytest.mark.attack

NEEDS = {
    "wasm": ("python guest", "javascript guest"),
    "worker": ("worker tier",),
    "confined": ("confined tier",),
    "isolated": ("isolated tier",),
}
#: What a probe observes from the kernel's side instead.
OBSERVED = {
    "wasm": {
        fastness.Guarantee.NO_NEW_PRIVS,
        fastness.Guarantee.NO_PRIVILEGE,
        fastness.Guarantee.SYSCALL_FILTERED,
        fastness.Guarantee.NO_SYSCALLS,
    },
}
ATTACKS = [attack for attack in registry.load() if not attack.id.startswith("test.")]
CASES = [(tier, attack) for tier in NEEDS for attack in ATTACKS if tier in attack.tiers]


@pytest.fixture(scope="module")
def boxes() -> Iterator[dict[str, fastness.Sandbox]]:
    """One sandbox of a tier for all its attacks: what one attack leaves behind would show in the next."""
    made: dict[str, fastness.Sandbox] = {}
    yield made
    for box in made.values():
        box.close()


def box_of(tier: str, boxes: dict[str, fastness.Sandbox]) -> fastness.Sandbox:
    if tier not in boxes:
        for component in NEEDS[tier]:
            house.require(component)
        boxes[tier] = fastness.Sandbox(tier=tier)
        boxes[tier].run("pass")
    return boxes[tier]


@pytest.mark.parametrize(("tier", "attack"), CASES, ids=[f"{tier}-{attack.id}" for tier, attack in CASES])
def test_attack(tier: str, attack: Attack, boxes: dict[str, fastness.Sandbox]) -> None:
    """Inside the tier it has no effect, for the stated reason, or has one where that is said; where nothing stops it too."""
    (outcome,) = runner.run([attack], tier, box_of(tier, boxes))
    if outcome.verdict is Verdict.SKIPPED:
        pytest.skip(outcome.detail)
    allowed = attack.tiers[tier].layer is Layer.NOTHING
    expected = Verdict.ALLOWED if allowed else Verdict.HELD
    assert outcome.verdict is expected, f"{outcome.detail}; inside: {outcome.seen}; control: {outcome.control}"


@pytest.mark.parametrize("tier", NEEDS)
def test_the_machine_still_works(tier: str, boxes: dict[str, fastness.Sandbox]) -> None:
    """After all of them the same sandbox serves an ordinary run."""
    assert box_of(tier, boxes).run("print(6 * 7)").stdout == "42\n"


@pytest.mark.parametrize("tier", NEEDS)
def test_every_guarantee_of_the_tier_is_attacked_or_observed(tier: str) -> None:
    """Each promise is attacked, or is one that a probe observes from the kernel's side; what is none is not attacked."""
    tried = [attack for attack in ATTACKS if tier in attack.tiers and attack.tiers[tier].layer is not Layer.NOTHING]
    named = {attack.claim.guarantee for attack in tried}
    attacked = {one for one in named if isinstance(one, fastness.Guarantee)}
    guarantees = fastness.Tier(tier).guarantees
    assert attacked <= guarantees
    assert guarantees - attacked <= OBSERVED.get(tier, set())


@pytest.mark.parametrize("tier", NEEDS)
def test_every_rule_of_the_broker_is_attacked_in_each_tier(tier: str) -> None:
    """What the broker and the host of plugins keep to does not hang on the tier, and is tried from inside of each."""
    attacked = {attack.claim.guarantee for attack in ATTACKS if tier in attack.tiers}
    assert set(Rule) <= attacked

"""
Every control needs the attack's own text: without it, nothing happens where nothing stops it either.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import emptied
import fastness
import house
from fastness._container.faults import EngineFault
from fastness.attack import registry
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Skip

# It says something of the corpus and nothing of a machine, so it is asked for by .ci/long, and by whoever adds an attack.
pytestmark = [pytest.mark.attack, pytest.mark.long]

NEEDS = {
    "wasm": ("python guest", "javascript guest"),
    "worker": ("worker tier",),
    "confined": ("confined tier",),
    "isolated": ("isolated tier",),
}
ATTACKS = [attack for attack in registry.load() if not attack.id.startswith("test.")]


@pytest.fixture(scope="module")
def boxes() -> Iterator[dict[str, fastness.Sandbox]]:
    made: dict[str, fastness.Sandbox] = {}
    yield made
    for box in made.values():
        box.close()


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.id for attack in ATTACKS])
def test_a_control_needs_the_attack(
    attack: Attack, boxes: dict[str, fastness.Sandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not succeed with nothing in the place of what the attack does."""
    emptied.empty(attack, monkeypatch)
    # What runs nothing but in containers is made without one: a control needs no guest.
    tier = next((one for one in attack.tiers if one in NEEDS), "isolated")
    if tier not in boxes:
        for component in NEEDS[tier]:
            house.require(component)
        boxes[tier] = fastness.Sandbox(tier=tier)
    with Arena(tier, boxes[tier]) as arena:
        try:
            effect = attack.control(arena)
        except (Skip, OSError):
            # Nothing was made that it could look at, or this machine does not let it try.
            return
        except EngineFault:
            # No test here has an engine; those in tests/engines make the same of these.
            assert set(attack.tiers) == {"container"}
            pytest.skip("its control is a container; see tests/engines/test_container_controls.py")
    assert not effect.happened, effect.seen

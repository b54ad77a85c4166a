"""
Controls of attacks that are containers themselves need the attack's own text, as those that are none do.
"""

from __future__ import annotations

import pytest

import emptied
from fastness.attack import registry
from fastness.attack.arena import Arena
from fastness.attack.model import Attack
from fastness.sync import Sandbox

ATTACKS = [attack for attack in registry.load() if set(attack.tiers) == {"container"}]


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.id for attack in ATTACKS])
def test_a_control_needs_the_attack(attack: Attack, named: str, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not succeed with nothing in the place of what the attack does, and it does with that."""
    with Arena("container", box) as arena:
        effect = attack.control(arena)
    assert effect.happened, effect.seen
    emptied.empty(attack, monkeypatch)
    with Arena("container", box) as arena:
        effect = attack.control(arena)
    assert not effect.happened, effect.seen

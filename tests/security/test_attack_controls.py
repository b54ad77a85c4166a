"""
Every control needs the attack's own text: without it, nothing happens where nothing stops it either.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

import fastness
import house
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
#: What the text of an attack is called in its file, with what does nothing in its place.
TEXTS: dict[str, Any] = {
    "CODE": "pass",
    "FIRST": "pass",
    "PLANTED": "pass",
    "CODES": ("pass",) * 2,
    "SOURCES": ("pass",),
    "VALUES": ("1",),
    "BODY": "(nop)",
    "SQL": "SELECT 1",
    "WAT": '(module (memory (export "memory") 1) (func (export "_start")))',
}
JAVASCRIPT = ("limits.javascript_loop", "network.javascript")
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
    """It does not succeed with nothing in the place of the attack's text."""
    module = importlib.import_module(f"fastness.attack.corpus.{attack.id}")
    texts = {name: nothing for name, nothing in TEXTS.items() if hasattr(module, name)}
    assert texts, "its text has none of the names that texts of attacks have"
    for name, nothing in texts.items():
        monkeypatch.setattr(module, name, ";" if attack.id in JAVASCRIPT else nothing)
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
    assert not effect.happened, effect.seen

"""
Ends its host between the record and the end of what it announced.
"""

from __future__ import annotations

from fastness.attack import recording
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
open(MARK_FILE, 'w').close()
os.kill(os.getpid(), 9)
"""


def attack(arena: Arena) -> Effect:
    """A host of its own, in whose adapter this happens; then another host begins."""
    return recording.killed(arena, CODE)


def control(arena: Arena) -> Effect:
    """A host that writes down what it has done."""
    return recording.killed_carelessly(arena, CODE)


ATTACK = Attack(
    id="broker.record_killed",
    claim=Claim(Rule.RECORDED, "What a host was doing when it was killed is in the record, and the record says that."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

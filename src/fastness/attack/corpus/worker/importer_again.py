"""
Makes a module of the interpreter's own anew through its importer.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import importlib.machinery

importer = importlib.machinery.BuiltinImporter
signals = importer.create_module(importlib.machinery.ModuleSpec('_signal', None))
print('DONE', signals.pidfd_send_signal)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "got the untouched module")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "got the untouched module")


ATTACK = Attack(
    id="worker.importer_again",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall refuses a second copy by way of the importer too."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)

"""
Keeps a key in the kernel's key store, which namespaces do not cover.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
told(call('add_key', b'user', b'fastness-attack', b'x', 1, -1))
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(arena, native.program(CODE, "add_key"), "DONE", "kept a key")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, native.program(CODE, "add_key"), "DONE", "kept a key")


ATTACK = Attack(
    id="kernel.keys_added",
    claim=Claim(Guarantee.SYSCALL_FILTERED, "No key can be put into the kernel's store."),
    tiers={"confined": refused("add_key"), "container": Expect(Layer.FILTER), "isolated": refused("add_key")},
    attack=attack,
    control=control,
)

"""
Mounts a file system by the newer calls, one step after another.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, refused
from fastness.tier import Guarantee

CODE = """
context = call('fsopen', b'tmpfs', 0)
call('fsconfig', max(context, 0), 6, None, None, 0)
mounted = call('fsmount', max(context, 0), 0, 0)
moved = call('move_mount', max(mounted, 0), b'', -100, b'.', 4)
# By its path, which leads to what was mounted; it is taken away again.
call('umount2', os.getcwd().encode(), 2) if moved >= 0 else None
told(moved)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and in `isolated` as a program too."""
    return native.tried(
        arena, native.program(CODE, "fsopen", "fsconfig", "fsmount", "move_mount", "umount2"), "DONE", "mounted"
    )


def control(arena: Arena) -> Effect:
    """The same program with every power, in namespaces of its own."""
    return native.outside(
        arena,
        native.alone(native.program(CODE, "fsopen", "fsconfig", "fsmount", "move_mount", "umount2")),
        "DONE",
        "mounted",
    )


ATTACK = Attack(
    id="kernel.mount_anew",
    claim=Claim(Guarantee.NO_PRIVILEGE, "The newer calls mount nothing either."),
    tiers={"confined": refused("move_mount"), "container": Expect(Layer.FILTER), "isolated": refused("move_mount")},
    attack=attack,
    control=control,
)

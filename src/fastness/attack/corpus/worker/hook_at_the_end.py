"""
Has an object that outlives the hooks of its interpreter, and sees to it that the interpreter ends.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import codecs, os, sys

class Last:
    def __del__(self, system=os.system, command=f'touch {MARK_FILE}'):
        try:
            system(command)
        except PermissionError:
            pass

    def __call__(self, error):
        return '', error.end

def leave(*anything):
    raise SystemExit(0)

codecs.register_error('last', Last())
Last()
os._exit = leave
native = sys.modules.get('_fastness_native')
if native is not None:
    native._frame = leave
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="worker.hook_at_the_end",
    claim=Claim(
        Guarantee.ADDRESS_SPACE, "The module firewall ends the process before the interpreter drops its hooks."
    ),
    tiers={"worker": Expect(Layer.GUEST, "unsupported", outcomes=("ok", "guest_error", "crashed", "protocol"))},
    attack=attack,
    control=control,
)

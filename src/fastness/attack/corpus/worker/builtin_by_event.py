"""
Asks the hook for a module as the importer does, with too little, and looks for what is left in its frame.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import _imp, importlib.machinery, sys

make = _imp.create_builtin
for arguments in ((), ('posix',), ('posix', None), ('posix', [], 1)):
    try:
        sys.audit('fastness.create_builtin', *arguments)
    except Exception as error:
        trace = error.__traceback__
        while trace is not None:
            make = trace.tb_frame.f_locals.get('build') or make
            trace = trace.tb_next
posix = make(importlib.machinery.ModuleSpec('posix', None))
print('DONE', posix.pidfd_open(posix.getpid()))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "got the untouched module")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "got the untouched module")


ATTACK = Attack(
    id="worker.builtin_by_event",
    claim=Claim(
        Guarantee.ADDRESS_SPACE, "The module firewall shows nothing of what it holds where it is asked wrongly."
    ),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)

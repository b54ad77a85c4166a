"""
Takes the function that starts programs from a new copy of its module, which no event tells of.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import importlib.util, os, sys

sys.modules.pop('_posixsubprocess', None)
spec = importlib.util.find_spec('_posixsubprocess')
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
read, write = os.pipe()
pid = module.fork_exec(
    [b'touch', MARK_FILE.encode()], [b'/usr/bin/touch', b'/bin/touch'], True, (write,), None, None,
    -1, -1, -1, -1, -1, -1, read, write, True, False,
    *((-1,) if sys.version_info < (3, 14) else ()), None, None, None, -1, None,
    *((False,) if sys.version_info < (3, 14) else ()),
)
os.waitpid(pid, 0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="worker.fork_exec",
    claim=Claim(
        Guarantee.ADDRESS_SPACE, "The module firewall refuses a second copy of the module that starts programs."
    ),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)

"""
Looks for a way to take the hook off: a hook of its own, the list of them, and the end of the interpreter.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import atexit, os, sys, threading

def attempt(*args):
    try:
        os.system(f'touch {MARK_FILE}')
    except PermissionError:
        pass

sys.addaudithook(lambda event, args: None)
attempt()
for name in dir(sys):
    if 'audit' in name and 'clear' in name.lower():
        getattr(sys, name)()
attempt()

class Last:
    def __del__(self, attempt=attempt):
        attempt()

sys.last = Last()
atexit.register(attempt)
thread = threading.Thread(target=attempt)
thread.start()
thread.join()
sys.setprofile(attempt)
sys.settrace(attempt)
sys.exit(0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="worker.hook_removed",
    claim=Claim(
        Guarantee.ADDRESS_SPACE, "The module firewall is not taken off, not at the end of the interpreter either."
    ),
    tiers={"worker": Expect(Layer.GUEST, "unsupported", outcomes=("ok", "guest_error", "crashed"))},
    attack=attack,
    control=control,
)

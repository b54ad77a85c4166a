"""
Follows an exception into the hook that raised it, changes whatever is in reach there, and tries again.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import builtins, os, sys

found = []
for attempt in range(3):
    try:
        os.system(f'touch {MARK_FILE}')
    except PermissionError as error:
        trace = error.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            if frame.f_code.co_filename != '<run>':
                found.append(dict(frame.f_locals))
                for name in list(frame.f_globals):
                    if name not in ('__builtins__', '__name__'):
                        frame.f_globals[name] = lambda *args, **named: None
                for value in frame.f_locals.values():
                    if hasattr(value, '__code__'):
                        value.__code__ = (lambda *args, **named: None).__code__
            trace = trace.tb_next
    for name in ('len', 'type', 'str', 'isinstance', 'PermissionError', 'ImportError', 'frozenset'):
        setattr(builtins, name, lambda *args, **named: None) if attempt == 1 else None
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.marked(arena.run(arena.python(CODE)))


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.marked(arena.outside.run(arena.python(CODE)))


ATTACK = Attack(
    id="worker.hook_taken_apart",
    claim=Claim(
        Guarantee.ADDRESS_SPACE, "The module firewall holds where everything that an exception shows is changed."
    ),
    tiers={"worker": Expect(Layer.GUEST, "unsupported", outcomes=("ok", "guest_error", "protocol", "crashed"))},
    attack=attack,
    control=control,
)

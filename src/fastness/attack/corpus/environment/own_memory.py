"""
Looks for secrets of the caller's in all memory that the guest has a copy of, and in the interpreter's objects.
"""

from __future__ import annotations

import os

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import ctypes, gc, os, re, sys

library = ctypes.CDLL(None, use_errno=True)
read, write = os.pipe()
os.set_blocking(write, False)
pattern = re.compile(rb'canar' + rb'y-[0-9a-f]{24}')
found = set()

def page(address):
    "One page of memory where there is one: the kernel says so before anybody faults."
    if library.write(write, ctypes.c_void_p(address), 4096) != 4096:
        return b''
    return os.read(read, 4096)

def around(address, below, above):
    start = address & ~4095
    for at in range(start - below, start + above, 4096):
        found.update(pattern.findall(page(at)))

environ = ctypes.c_void_p.in_dll(library, 'environ').value
first = ctypes.c_void_p.from_address(environ).value if environ else 0
for address in (first, id(None), id(found), id(sys._getframe()), ctypes.addressof(ctypes.c_int())):
    if address:
        around(address, 8 << 20, 8 << 20)
for item in gc.get_objects():
    if isinstance(item, dict):
        for value in list(item.values()):
            if isinstance(value, (str, bytes)):
                found.update(pattern.findall(value.encode('utf-8', 'replace') if isinstance(value, str) else value))
frame = sys._getframe()
while frame:
    found.update(pattern.findall(repr(frame.f_locals).encode()))
    frame = frame.f_back
for name in ('environ', 'cmdline', 'auxv'):
    try:
        found.update(pattern.findall(open(f'/proc/self/{name}', 'rb').read()))
    except OSError:
        pass
print(found)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    # A new tenant has a zygote of its own, which is started now, with the secret around.
    held = [arena.token, arena.token.encode(), dict(os.environ)]
    effect = arena.leaked(arena.run(CODE, tenant=arena.folder.name, env={"OTHER": "x"}, timeout=20))
    assert held
    return effect


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.leaked(arena.outside.run(CODE))


ATTACK = Attack(
    id="environment.own_memory",
    claim=Claim(
        Guarantee.ADDRESS_SPACE, "The process that guests are copies of has never known a secret of the caller."
    ),
    tiers={"confined": Expect(Layer.FRESH), "container": Expect(Layer.FRESH), "isolated": Expect(Layer.FRESH)},
    attack=attack,
    control=control,
)

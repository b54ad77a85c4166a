"""
Prints text whose characters lie across writes, and bytes that are no text, and closes its streams.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = r"""
import os

for part in (b'\xe2', b'\x82', b'\xac', b'\xff\xfe', b'\xed\xa0\x80', b'\xf0\x9f\x98', b'\x80'):
    os.write(1, part)
    os.write(2, b'x' * 65535 + part)
os.close(2)
os.close(1)
"""
_WHOLE = b"\xe2\x82\xac\xff\xfe\xed\xa0\x80\xf0\x9f\x98\x80"
#: What reads piece by piece and takes each for text: what many executors do.
_PIECES = r"""
import os

read, write = os.pipe()
if os.fork() == 0:
    os.dup2(write, 1)
    os.dup2(os.open('/dev/null', os.O_WRONLY), 2)
    exec(CODE)
    os._exit(0)
os.close(write)
data, text = b'', ''
while part := os.read(read, 1):
    data += part
    text += part.decode('utf-8', 'replace')
print('CHANGED' if data == WHOLE and text != WHOLE.decode('utf-8', 'replace') else 'whole')
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    result = arena.run(CODE)
    changed = result.stdout_bytes != _WHOLE or "\u20ac" not in result.stdout or "\U0001f600" not in result.stdout
    return Effect(changed, f"what came out is {result.stdout_bytes!r}", result)


def control(arena: Arena) -> Effect:
    """The same program before a reader that takes each piece for a text."""
    return arena.said(arena.outside.run(arena.python(_PIECES, CODE=CODE, WHOLE=_WHOLE)), "CHANGED", "came out changed")


ATTACK = Attack(
    id="output.split_text",
    claim=Claim(Guarantee.OUTPUT_CAP, "Output comes out as the bytes that it was, however it was cut."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "container", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

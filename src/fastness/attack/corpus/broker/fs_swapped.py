"""
Reads and writes a name while another process makes it a link to what is outside and a file again.
"""

from __future__ import annotations

from fastness.attack import brokering, racing
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.capabilities.fs import FsScope
from fastness.tier import Guarantee

SECONDS = 2.0

CODE = """
import time
ends = time.monotonic() + SECONDS
token = 'canary' + '-'
tries = reads = 0
while time.monotonic() < ends:
    tries += 1
    for path in ('name', 'folder/name'):
        try:
            found = ctx.fs.read(path=path)
        except Exception as error:
            continue
        reads += 1
        if token.encode() in found:
            print(found, flush=True)
            ends = 0
    if tries % 16 == 0:
        for path in ('name', 'folder/name'):
            try:
                ctx.fs.write(path=path, data=b'inside')
            except Exception as error:
                pass
print(tries, 'tries', reads, 'reads')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, for two seconds."""
    with brokering.Broker(arena) as broker, racing.swaps(broker.root, broker.outside):
        scope = FsScope(read=True, write=True, run_bytes=1 << 40)
        # However fast the machine is, the end of the time ends it.
        most = {"calls": 1_000_000}
        facts = {"SECONDS": SECONDS}
        result = broker.run(CODE, scope, how=most, facts=facts, timeout=SECONDS + 8, limits=most)
        changed = brokering.changed(arena, broker.outside)
        return Effect(changed, "the file outside was changed", result) if changed else arena.leaked(result)


def control(arena: Arena) -> Effect:
    """Before a host that looks first and opens then, for as long at most."""
    with brokering.folders(arena) as outside, racing.swaps(outside.parent / "root", outside):
        bare = brokering.control(arena, CODE, SECONDS=SECONDS, RACING=True)
        changed = brokering.changed(arena, outside)
        return Effect(changed, "the file outside was changed") if changed else arena.leaked(bare)


ATTACK = Attack(
    id="broker.fs_swapped",
    claim=Claim(Guarantee.FS_CONFINED, "What a name leads to is judged on what was opened, however fast it changes."),
    tiers=dict.fromkeys(
        ("wasm", "confined", "isolated"), Expect(Layer.BROKER, "escape", calls=("read", "write", "delete", "list"))
    ),
    attack=attack,
    control=control,
    slow=True,
)

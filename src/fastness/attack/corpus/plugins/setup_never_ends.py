"""
Never comes back from its setup: spinning, sleeping, and catching whatever would end it.
"""

from __future__ import annotations

import time

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.errors import PluginTimeout
from fastness.tier import Guarantee

MANIFEST = 'MANIFEST = {"id": "attack.plugin", "version": "1.0.0"}\n'
LONG_S = 20.0
CODES = (
    """
def setup(ctx):
    while True:
        pass
""",
    """
import time

def setup(ctx):
    while True:
        try:
            time.sleep(9)
        except BaseException:
            pass
""",
)


def attack(arena: Arena) -> Effect:
    """In the tier, with 0.3 s for a setup."""
    began = time.monotonic()
    for code in CODES:
        folder = hosting.put(arena.shared_folder(0o700), {"plugin.py": MANIFEST + code})
        with hosting.isolated(arena, folder / "plugin.py", setup_timeout=0.3) as plugin:
            try:
                plugin.setup(hosting.Nothing())
            except PluginTimeout:
                pass
            else:
                return Effect(True, "setup came back")
    took = time.monotonic() - began
    return Effect(took > LONG_S, f"the host waited {took:.1f} s for {len(CODES)} of them")


def control(arena: Arena) -> Effect:
    """In a host that calls it."""
    stuck = 0
    for code in CODES:
        bare = arena.outside.run(f"{code}\nprint('BEGUN', flush=True)\nsetup(None)", limit_s=0.6)
        stuck += b"BEGUN" in bare.stdout_bytes and bare.status is None
    return Effect(stuck == len(CODES), f"the host was stuck in {stuck} of {len(CODES)}")


ATTACK = Attack(
    id="plugins.setup_never_ends",
    claim=Claim(Guarantee.WALL_KILL, "A setup that does not end is ended, and so is its guest."),
    tiers=dict.fromkeys(("isolated", "wasm"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
    slow=True,
)

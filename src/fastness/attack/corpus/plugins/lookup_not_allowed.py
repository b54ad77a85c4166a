"""
Looks up what its policy does not name, in names that look like one that it does, and by hand.
"""

from __future__ import annotations

from fastness.attack import brokering, hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.errors import PluginError

MANIFEST = 'MANIFEST = {"id": "attack.plugin", "version": "1.0.0"}\n'
GIVES = """
asked = []

class Ctx:
    def lookup(self, name):
        asked.append(name)
"""

CODE = """
def setup(ctx):
    for name in ('secrets', 'cache', 'Cache:a', ' cache:a', 'xcache:a', 'secrets:cache:a'):
        try:
            ctx.lookup(name)
        except Exception as error:
            pass
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with ``cache:*`` allowed."""
    folder = hosting.put(arena.shared_folder(0o700), {"plugin.py": MANIFEST + CODE})
    policy = {"lookup": ["cache:*"]}
    with hosting.isolated(arena, folder / "plugin.py", policy=policy) as plugin:
        context = hosting.Lookups(arena.token)
        try:
            plugin.setup(context)
        except PluginError:
            pass
        refused = sum(row.decision == "denied" for row in plugin.audit())
        brokering.sure(refused > 4, f"{refused} look-ups were refused")
        got = [name for name in context.asked if not name.startswith("cache:")]
        return Effect(bool(got), f"it got {got}; {refused} were refused")


def control(arena: Arena) -> Effect:
    """In a host that gives what it is asked for."""
    bare = arena.outside.run(f"{GIVES}{CODE}\nsetup(Ctx())\nprint('ASKED', len(asked))")
    return arena.said(bare, "ASKED 6", "looked up all of them")


ATTACK = Attack(
    id="plugins.lookup_not_allowed",
    claim=Claim(Rule.GRANTED, "A plugin looks up what its policy names, and nothing that looks like it."),
    tiers=dict.fromkeys(("isolated", "wasm"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

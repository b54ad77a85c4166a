"""
Asks for more in its next version, and is called before anybody has said yes.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

STEPS = """
host.install('plugin', FOLDERS['first']); host.grant('plugin')
host.install('plugin', FOLDERS['second'])
host.invoke('plugin')
print('KEPT' if ctx.storage.list()['keys'] else 'NOTHING')
"""

CODE = """
def work(ctx):
    ctx.storage.put(key='name', value=1)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    with hosting.Home(arena) as home:
        first = {"plugin.toml": hosting.manifest("work", more=""), "plugin.py": "def work(ctx):\n    return 1\n"}
        home.install(first)
        home.grant()
        home.invoke()
        home.install({"plugin.toml": hosting.manifest("work", version="2.0.0"), "plugin.py": CODE}, upgrade=True)
        result = home.tried()
        kept = home.kept()
        return Effect(kept > 0, f"it kept {kept} things", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    plugins = {"first": {"plugin.py": "def work(ctx):\n    return 1\n"}, "second": {"plugin.py": CODE}}
    return arena.said(hosting.careless(arena, STEPS, plugins=plugins), "KEPT", "kept something")


ATTACK = Attack(
    id="plugins.upgrade_asks_more",
    claim=Claim(Rule.GRANTED, "What a new version asks for beyond the old one waits for a grant."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

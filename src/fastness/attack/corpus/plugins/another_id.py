"""
Claims the id of a plugin that is installed, to read what that one has kept.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.errors import FastnessError

KEEPS = "def keep(ctx, value):\n    ctx.storage.put(key='name', value=value)\n"
STEPS = """
host.install('attack.plugin', FOLDERS['first']); host.grant('attack.plugin')
host.invoke('attack.plugin', 'keep', value=SECRET)
host.install('attack.plugin', FOLDERS['second'])
host.invoke('attack.plugin')
"""

CODE = """
def work(ctx):
    return ctx.storage.get(key='name')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, after the first one has kept something."""
    with hosting.Home(arena) as home:
        home.install({"plugin.toml": hosting.manifest("keep"), "plugin.py": KEEPS})
        home.grant()
        home.invoke(method="keep", value=arena.token)
        for how in ({}, {"source": "marketplace"}, {"source": "marketplace", "upgrade": True}):
            try:
                home.install({"plugin.toml": hosting.manifest("work"), "plugin.py": CODE}, **how)
            except FastnessError:
                continue
            result = home.tried()
            if result is not None:
                return arena.leaked(result)
        return Effect(False, "it could not be installed under that id")


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    plugins = {"first": {"plugin.py": KEEPS}, "second": {"plugin.py": CODE}}
    return arena.leaked(hosting.careless(arena, STEPS, plugins=plugins))


ATTACK = Attack(
    id="plugins.another_id",
    claim=Claim(Rule.OWNED, "No plugin takes the place of another by saying its id."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

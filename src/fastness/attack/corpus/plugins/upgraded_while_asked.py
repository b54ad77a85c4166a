"""
Is replaced by a version that asks for more, while somebody looks at what the first one asks for, and says yes to that.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.errors import GrantError

STEPS = """
host.install('plugin', FOLDERS['first'])
host.install('plugin', FOLDERS['second'])
host.grant('plugin')
host.invoke('plugin')
print('KEPT' if ctx.storage.list()['keys'] else 'NOTHING')
"""

CODE = """
def work(ctx):
    ctx.storage.put(key='name', value=1)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; the yes names the files that were shown."""
    with hosting.Home(arena) as home:
        first = {"plugin.toml": hosting.manifest("work", more=""), "plugin.py": "def work(ctx):\n    return 1\n"}
        seen = home.install(first).known.digest
        home.install({"plugin.toml": hosting.manifest("work", version="2.0.0"), "plugin.py": CODE}, upgrade=True)
        told = ""
        try:
            home.grant(digest=seen)
        except GrantError as error:
            told = f"; it was refused: {error.field}"
        result = home.tried()
        kept = home.kept()
        return Effect(kept > 0, f"it kept {kept} things{told}", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    plugins = {"first": {"plugin.py": "def work(ctx):\n    return 1\n"}, "second": {"plugin.py": CODE}}
    return arena.said(hosting.careless(arena, STEPS, plugins=plugins), "KEPT", "kept something")


ATTACK = Attack(
    id="plugins.upgraded_while_asked",
    claim=Claim(Rule.GRANTED, "A yes is for the files that were shown, whatever was installed since."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

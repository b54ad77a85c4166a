"""
Was data when it was granted, is code in its next version, and is called before anybody has said yes to that.
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

DATA = f"""
id = "attack.plugin"
version = "1.0.0"
api = 1
runtime = "data"
{hosting.STORAGE}
"""

CODE = """
def work(ctx):
    ctx.storage.put(key='name', value=1)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; it asks for what it had."""
    with hosting.Home(arena) as home:
        home.install({"plugin.toml": DATA, "words.txt": "one"})
        home.grant()
        home.install({"plugin.toml": hosting.manifest("work", version="2.0.0"), "plugin.py": CODE}, upgrade=True)
        result = home.tried()
        kept = home.kept()
        return Effect(kept > 0, f"it kept {kept} things", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    plugins = {"first": {"words.txt": "one"}, "second": {"plugin.py": CODE}}
    return arena.said(hosting.careless(arena, STEPS, plugins=plugins), "KEPT", "kept something")


ATTACK = Attack(
    id="plugins.upgrade_changes_runtime",
    claim=Claim(Rule.GRANTED, "What was granted to data, or to code in one engine, is not granted to code elsewhere."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

"""
Is installed under the name of a plugin that was removed, and looks for what that one remembered.
"""

from __future__ import annotations

from fastness.attack import hosting, models
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.waiting import drive

WANTS = '[[capabilities]]\nkind = "memory"\nnotes = 100\nquota = 65536\nof = "{of}"\nreason = "To remember."\n'
PLANTED = """
def work(ctx, word):
    return ctx.memory.add(f'secret {word}', ['tag'])
"""
CODE = """
def work(ctx):
    found = [ctx.memory.search('secret'), ctx.memory.list(), ctx.memory.list(tags=['tag'])]
    for number in range(1, 4):
        found.append(ctx.memory.get(number))
    return str(found)
"""
STEPS = """
host.install('plugin', FOLDERS['first'])
host.grant('plugin')
host.invoke('plugin', word=TOKEN)
host.granted.clear()
host.install('plugin', FOLDERS['second'])
host.grant('plugin')
host.invoke('plugin')
"""


def attack(arena: Arena) -> Effect:
    """In the tier: for what a plugin keeps to itself, and for what plugins share."""
    effects = []
    with hosting.Home(arena) as home:
        for of in ("plugin", "owner"):
            toml = hosting.manifest("work", more=WANTS.format(of=of))
            home.install({"plugin.toml": toml, "plugin.py": PLANTED})
            home.grant()
            home.invoke(word=arena.token)
            drive(home.host.remove("attack.plugin"))
            home.install({"plugin.toml": toml, "plugin.py": CODE})
            home.grant()
            effects.append(arena.leaked(home.invoke()))
            drive(home.host.remove("attack.plugin"))
    first, second = effects
    result, other = first.result, second.result
    return Effect(first.happened or second.happened, f"{first.seen}; {second.seen}", result, (other,) if other else ())


def control(arena: Arena) -> Effect:
    """Before a host that only forgets the plugin's name."""
    plugins = {"first": {"plugin.py": PLANTED}, "second": {"plugin.py": CODE}}
    bare = hosting.careless(arena, models.CARELESS + STEPS, plugins=plugins, BUDGET=0, PORT=0, TOKEN=arena.token)
    return arena.leaked(bare)


ATTACK = Attack(
    id="plugins.memory_after_remove",
    claim=Claim(Rule.OWNED, "A plugin remembers nothing of one that had its name and was removed."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
    slow=True,
)

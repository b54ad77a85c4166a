"""
Is changed in the folder that it was installed from, once somebody has looked at it.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

PLUGIN = "def work(ctx):\n    return 'AS IT WAS'  # and no other\n"
STEPS = """
host.install('plugin', FOLDERS['plugin'])
host.grant('plugin')
host.invoke('plugin')
with open(FOLDERS['plugin'] + '/plugin.py', 'w') as file:
    file.write(CODE)
host.invoke('plugin')
"""

CODE = """
def work(ctx):
    return 'CHANGED'
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    with hosting.Home(arena) as home:
        plugin = {"plugin.toml": hosting.manifest("work"), "plugin.py": PLUGIN}

        source = hosting.put(home.top / "source", plugin)
        home.install_from(source)
        home.grant()
        (source / "plugin.py").write_text(CODE)
        result = home.invoke()
        ran = result.value == "CHANGED"
        return Effect(ran, "what was changed ran" if ran else "what was changed did not run", result)


def control(arena: Arena) -> Effect:
    """Before a host that runs what lies there."""
    bare = hosting.careless(arena, STEPS, plugins={"plugin": {"plugin.py": PLUGIN}}, CODE=CODE)
    return arena.said(bare, "CHANGED", "ran what had been changed")


ATTACK = Attack(
    id="plugins.source_changed",
    claim=Claim(Rule.PACKAGED, "What runs is the copy that was made when it was installed."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

"""
Has the folder that an installed plugin is kept in replaced by another.
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

        digest = home.install(plugin).known.digest
        home.grant()
        kept = home.data / "plugins" / digest
        kept.rename(home.top / "away")
        hosting.put(kept, {**plugin, "plugin.py": CODE})
        for path in (kept, *kept.rglob("*")):
            path.chmod(0o700 if path.is_dir() else 0o600)
        result = home.tried()
        ran = result is not None and result.value == "CHANGED"
        return Effect(ran, "the other one ran" if ran else "the other one did not run", result)


def control(arena: Arena) -> Effect:
    """Before a host that runs what lies there."""
    bare = hosting.careless(arena, STEPS, plugins={"plugin": {"plugin.py": PLUGIN}}, CODE=CODE)
    return arena.said(bare, "CHANGED", "ran what had been changed")


ATTACK = Attack(
    id="plugins.files_replaced",
    claim=Claim(Rule.PACKAGED, "A folder in the place of an installed one does not run."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

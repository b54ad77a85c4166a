"""
Changes its own files when it runs, so that its next call runs others.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
import os

def work(ctx):
    text = "def work(ctx):\\n    return 'CHANGED'\\n"
    for place in (__file__, os.path.abspath('plugin.py'), '/work/plugin.py'):
        try:
            with open(place, 'w') as file:
                file.write(text)
        except OSError:
            pass
    return 'AS IT WAS'
"""


def attack(arena: Arena) -> Effect:
    """In the tier, twice."""
    with hosting.Home(arena) as home:
        home.install({"plugin.toml": hosting.manifest("work"), "plugin.py": CODE, "data.txt": "not only code"})
        home.grant()
        home.invoke()
        result = home.invoke()
        ran = "AS IT WAS" not in str(result.value)
        return Effect(ran, f"the second call gave {result.value!r}", result)


def control(arena: Arena) -> Effect:
    """Before a host that runs what lies there."""
    steps = (
        "host.install('plugin', FOLDERS['plugin']); host.grant('plugin')\nhost.invoke('plugin')\nhost.invoke('plugin')"
    )
    bare = hosting.careless(arena, steps, plugins={"plugin": {"plugin.py": CODE}})
    return arena.said(bare, "CHANGED", "ran what it had made of itself")


ATTACK = Attack(
    id="plugins.changes_itself",
    claim=Claim(Rule.PACKAGED, "What a plugin writes over its own files is gone with its run."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

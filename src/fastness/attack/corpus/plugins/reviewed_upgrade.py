"""
Is upgraded after its files were reviewed, to files that nobody has read.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.waiting import drive

STEPS = """
host.install('plugin', FOLDERS['first']); host.grant('plugin')
host.install('plugin', FOLDERS['second'])
host.invoke('plugin')
"""

READ = "def work(ctx):\n    return 1\n"
CODE = """
def work(ctx):
    with open(SECRET_FILE) as file:
        return file.read()
"""


def attack(arena: Arena) -> Effect:
    """Reviewed, set to ``worker``, and replaced by a version that asks for nothing new."""
    with hosting.Home(arena) as home:
        home.install({"plugin.toml": hosting.manifest("work", more=""), "plugin.py": READ}, choose=False)
        home.grant()
        drive(home.host.set_tier("attack.plugin", "worker", trust="reviewed"))
        if home.invoke().tier != "worker":
            raise RuntimeError("what was reviewed does not run where it may")
        text = hosting.manifest("work", version="2.0.0", more="")
        home.install({"plugin.toml": text, "plugin.py": arena.python(CODE)}, choose=False, upgrade=True)
        result = home.invoke()
        effect = arena.leaked(result)
        return effect if effect.happened else Effect(False, f"it ran in the tier {result.tier}", result)


def control(arena: Arena) -> Effect:
    """In a host of the same user, which was told once that the plugin is fine."""
    plugins = {"first": {"plugin.py": READ}, "second": {"plugin.py": arena.python(CODE)}}
    return arena.leaked(hosting.careless(arena, STEPS, plugins=plugins))


ATTACK = Attack(
    id="plugins.reviewed_upgrade",
    claim=Claim(Rule.GRANTED, "A review is of files: other ones do not run in a tier that they have only by it."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST, outcomes=("ok", "guest_error"))),
    attack=attack,
    control=control,
)

"""
Is set to a tier in which it can read this user's files, without anybody having reviewed it.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.errors import PolicyError
from fastness.waiting import drive

CODE = """
def work(ctx):
    with open(SECRET_FILE) as file:
        return file.read()
"""


def attack(arena: Arena) -> Effect:
    """Installed from both sources, and set to ``worker``."""
    with hosting.Home(arena) as home:
        files = {"plugin.toml": hosting.manifest("work", more=""), "plugin.py": arena.python(CODE)}
        told = []
        for source in ("local", "marketplace"):
            id = f"attack.{source}"
            home.install(
                {**files, "plugin.toml": hosting.manifest("work", id=id, more="")}, id=id, source=source, choose=False
            )
            home.grant(id)
            for trust in ("",) if source == "local" else ("", "reviewed"):
                try:
                    drive(home.host.set_tier(id, "worker", trust=trust))
                except PolicyError as error:
                    told.append(error.field)
            result = home.invoke(id)
            effect = arena.leaked(result)
            if effect.happened:
                return effect
        return Effect(False, f"it was refused {len(told)} times, and ran in the tier {result.tier}", result)


def control(arena: Arena) -> Effect:
    """In a host of the same user."""
    steps = "host.install('plugin', FOLDERS['plugin']); host.grant('plugin')\nhost.invoke('plugin')"
    return arena.leaked(hosting.careless(arena, steps, plugins={"plugin": {"plugin.py": arena.python(CODE)}}))


ATTACK = Attack(
    id="plugins.weaker_tier",
    claim=Claim(
        Rule.GRANTED, "A tier that is weaker than the default needs a review, and for strangers' plugins there is none."
    ),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST, outcomes=("ok", "guest_error"))),
    attack=attack,
    control=control,
)

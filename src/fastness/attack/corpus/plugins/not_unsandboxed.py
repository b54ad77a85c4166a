"""
Is called where the environment asks for no sandbox.
"""

from __future__ import annotations

import os

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.errors import ConfigurationError

VARIABLES = {"FASTNESS_ALLOW_UNSANDBOXED": "1", "FASTNESS_TIER": "local"}

CODE = """
def work(ctx):
    open(MARK_FILE, 'w').close()
"""


def attack(arena: Arena) -> Effect:
    """With both variables that let other code run so."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(VARIABLES)
    try:
        with hosting.Home(arena) as home:
            home.install(
                {"plugin.toml": hosting.manifest("work", more=""), "plugin.py": arena.python(CODE)}, choose=False
            )
            home.grant()
            result = home.tried()
            return Effect(
                arena.mark_file.exists(), "its code ran here" if arena.mark_file.exists() else "it did not", result
            )
    except ConfigurationError as error:
        return Effect(arena.mark_file.exists(), f"no host of plugins: {error.field}")
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def control(arena: Arena) -> Effect:
    """In a host that runs it in itself."""
    steps = "host.install('plugin', FOLDERS['plugin']); host.grant('plugin')\nhost.invoke('plugin')"
    hosting.careless(arena, steps, plugins={"plugin": {"plugin.py": arena.python(CODE)}})
    return Effect(arena.mark_file.exists(), "its code ran here" if arena.mark_file.exists() else "it did not")


ATTACK = Attack(
    id="plugins.not_unsandboxed",
    claim=Claim(Rule.GRANTED, "Plugins never run unsandboxed, whatever the environment says."),
    tiers=dict.fromkeys(("isolated", "wasm"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

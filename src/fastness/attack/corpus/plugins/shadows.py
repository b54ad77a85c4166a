"""
Brings modules of the names that Python and the guest's own code import, for whoever runs next.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

NAMES = (
    "colorsys.py",
    "json.py",
    "sitecustomize.py",
    "usercustomize.py",
    "encodings/__init__.py",
    "_fastness_context.py",
    "_fastness_encode.py",
    "boot.py",
)
SHADOWS = """
import colorsys, json, sys

def work(ctx):
    for name in ('colorsys', 'json', '_fastness_context'):
        sys.modules[name] = colorsys
    return 1
"""
VICTIM = """
import colorsys, json, sys

def work(ctx):
    names = [*sys.modules]
    return [name for name in names if getattr(sys.modules.get(name), 'TAKEN', None)] and 'SHADOWED'
"""
STEPS = """
host.install('attack.victim', FOLDERS['victim']); host.install('attack.plugin', FOLDERS['plugin'])
host.grant('attack.plugin'); host.grant('attack.victim')
host.invoke('attack.plugin')
host.invoke('attack.victim')
"""

CODE = """
TAKEN = 'SHADOWED'
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another plugin of the same owner runs next."""
    with hosting.Home(arena) as home:
        files = dict.fromkeys(NAMES, CODE)
        home.install({"plugin.toml": hosting.manifest("work"), "plugin.py": SHADOWS, "data.txt": "x", **files})
        home.install(
            {"plugin.toml": hosting.manifest("work", id="attack.victim"), "plugin.py": VICTIM}, id="attack.victim"
        )
        for id in ("attack.plugin", "attack.victim"):
            home.grant(id)
        home.tried()
        result = home.invoke("attack.victim")
        taken = "SHADOWED" in str(result.value)
        return Effect(taken, f"the next plugin had {result.value!r}", result)


def control(arena: Arena) -> Effect:
    """Before a host that runs both in itself."""
    plugins = {"plugin": {"plugin.py": SHADOWS, **dict.fromkeys(NAMES, CODE)}, "victim": {"plugin.py": VICTIM}}
    return arena.said(
        hosting.careless(arena, STEPS, plugins=plugins), "SHADOWED", "gave the next plugin its own modules"
    )


ATTACK = Attack(
    id="plugins.shadows",
    claim=Claim(Guarantee.ADDRESS_SPACE, "Modules that a plugin brings are its own and nobody else's."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

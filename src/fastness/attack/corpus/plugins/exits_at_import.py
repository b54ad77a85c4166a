"""
Ends its process when it is imported.
"""

from __future__ import annotations

from fastness.attack import hosting, serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODES = ("import os\nos._exit(3)\n", "import os\nos.abort()\n")
STEPS = """
host.install('plugin', FOLDERS['plugin']); host.grant('plugin')
try:
    host.invoke('plugin')
except BaseException:
    pass
print('SERVED', flush=True)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    with hosting.Home(arena) as home:
        for number, code in enumerate(CODES):
            id = f"attack.n{number}"
            home.install({"plugin.toml": hosting.manifest("work", id=id, more=""), "plugin.py": code}, id=id)
            home.grant(id)
            result = home.invoke(id)
            if result.ok:
                raise RuntimeError("it came back from its import")
        served = serving.served(arena)
        return Effect(not served, f"next run served: {served}", result)


def control(arena: Arena) -> Effect:
    """Before a host that imports plugins into itself."""
    died = 0
    for code in CODES:
        bare = hosting.careless(arena, STEPS, plugins={"plugin": {"plugin.py": code}}, limit_s=1.0)
        died += b"SERVED" not in bare.stdout_bytes
    return Effect(died == len(CODES), f"the host died of {died} of {len(CODES)}")


ATTACK = Attack(
    id="plugins.exits_at_import",
    claim=Claim(Guarantee.CRASH_CONTAINED, "A plugin that ends its process ends nobody else's."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST, outcomes=("ok", "guest_error", "crashed"))
    ),
    attack=attack,
    control=control,
)

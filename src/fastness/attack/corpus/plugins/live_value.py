"""
Returns, and raises, an object that does something when it is looked at, copied or unpacked.
"""

from __future__ import annotations

import copy

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

STEPS = """
import pickle
host.install('plugin', FOLDERS['plugin']); host.grant('plugin')
sys.modules['plugin'] = type(sys)('plugin')
# As between processes that trust each other.
pickle.loads(pickle.dumps(host.invoke('plugin')))
"""

CODE = """
class Evil(Exception):
    def __reduce__(self):
        return (open, (MARK_FILE, 'w'))

    def __str__(self):
        return 'evil'

    __repr__ = __str__

def work(ctx):
    return Evil()

def fail(ctx):
    raise Evil
"""


def attack(arena: Arena) -> Effect:
    """In the tier; its value is copied and shown."""
    with hosting.Home(arena) as home:
        home.install({"plugin.toml": hosting.manifest("work", "fail", more=""), "plugin.py": arena.python(CODE)})
        home.grant()
        results = [home.invoke(method=method) for method in ("work", "fail")]
        for result in results:
            copy.deepcopy(result.value)
            repr(result)
        effect = arena.marked(results[0])
        return Effect(effect.happened, effect.seen, results[0], tuple(results[1:]))


def control(arena: Arena) -> Effect:
    """Before a host that has objects sent."""
    return arena.marked(hosting.careless(arena, STEPS, plugins={"plugin": {"plugin.py": arena.python(CODE)}}))


ATTACK = Attack(
    id="plugins.live_value",
    claim=Claim(Guarantee.ADDRESS_SPACE, "What a plugin returns is plain data or a text, and never an object."),
    # Only plain data can be said; the guest finds no way to send anything else.
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.ABSENT)),
    attack=attack,
    control=control,
)

"""
Goes on keeping things when its grant has come to its end.
"""

from __future__ import annotations

import time

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

#: More than there is time for.
MOST = 2500
STEPS = """
host.install('plugin', FOLDERS['plugin'])
host.grant('plugin')

def revoke():
    host.granted.clear()
    before = len(ctx.storage.list()['keys'])
    time.sleep(0.1)
    if before and len(ctx.storage.list()['keys']) > before + 1:
        print('MORE', flush=True)

threading.Timer(0.1, revoke).start()
host.invoke('plugin')
"""

CODE = """
import time

def work(ctx, most=250):
    refused = 0
    for number in range(most):
        try:
            ctx.storage.put(key=f'k{number}', value=1)
        except Exception:
            refused += 1
        if refused > 20:
            break
        time.sleep(0.004)
    return refused
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a grant that ends in the middle of a call."""
    with hosting.Home(arena) as home:
        home.install({"plugin.toml": hosting.manifest("work"), "plugin.py": CODE})
        for seconds in (0.5, 3.0):
            ends = time.time() + seconds
            home.grant(expires=ends)
            call = hosting.Meanwhile(lambda: home.tried(most=MOST))
            time.sleep(max(0.0, ends - time.time()))
            before = home.kept()
            if before:
                break
            # The machine is busy: it had not begun by then.
            call.over()
        result = call.over()
        more = home.kept() - before
        return Effect(more > 1, f"{more} calls had an effect after the end", result)


def control(arena: Arena) -> Effect:
    """Before a host that looked at its grant when the call began."""
    bare = hosting.careless(arena, STEPS, plugins={"plugin": {"plugin.py": CODE}})
    return arena.said(bare, "MORE", "kept things after it was ended")


ATTACK = Attack(
    id="plugins.storage_expires",
    claim=Claim(Rule.GRANTED, "A grant that ends while a plugin runs allows nothing from then on."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"),
        Expect(Layer.BROKER, "expired", calls=("put",), outcomes=("ok", "cancelled")),
    ),
    attack=attack,
    control=control,
    slow=True,
)

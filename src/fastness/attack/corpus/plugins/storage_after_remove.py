"""
Goes on keeping things when another process has removed it, for whoever is installed under its name next.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

#: More than there is time for.
MOST = 2500
#: Another process, which ends it.
OTHER = """
import sys
import fastness
with fastness.PluginHost() as host:
    print('ready', flush=True)
    sys.stdin.readline()
    host.remove('attack.plugin')
    print('done', flush=True)
"""
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
    """In the tier; another process ends it in the middle of a call."""
    with hosting.Home(arena) as home:
        home.install({"plugin.toml": hosting.manifest("work"), "plugin.py": CODE})
        home.grant()
        with home.another(OTHER) as other:
            call = hosting.Meanwhile(lambda: home.invoke(most=MOST))
            hosting.until(lambda: home.kept() > 2)
            hosting.tell(other)
            hosting.wait_for(other, b"done")
            before = home.kept()
            result = call.over()
        more = home.kept() - before
        # One may have been let through before, and be finished after.
        return Effect(more > 1, f"{more} calls had an effect after it was removed", result)


def control(arena: Arena) -> Effect:
    """Before a host that looked at its grant when the call began."""
    bare = hosting.careless(arena, STEPS, plugins={"plugin": {"plugin.py": CODE}})
    return arena.said(bare, "MORE", "kept things after it was ended")


ATTACK = Attack(
    id="plugins.storage_after_remove",
    claim=Claim(Rule.GRANTED, "A plugin that is removed does nothing more."),
    tiers=dict.fromkeys(("wasm",), Expect(Layer.BROKER, "revoked", calls=("put",), outcomes=("ok", "cancelled"))),
    attack=attack,
    control=control,
    slow=True,
)

"""
Is revoked while a signal waits for it, and is granted again; and has less granted than when one was sent.
"""

from __future__ import annotations

from fastness.attack import hosting, signalling
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.signals import Handler, SignalsScope
from fastness.waiting import drive

TOPICS = ("news", "other")
#: What is granted in the end: one topic less.
LESS = SignalsScope(subscribe=("other",), handlers=(Handler(topic="*", method="work"),))
CODE = """
def work(ctx, signal=None):
    taken = ctx.signals.take() if getattr(ctx, 'signals', None) is not None else None
    print(signal, taken, flush=True)
    return [signal, taken]
"""
STEPS = """
host.install('plugin', FOLDERS['plugin'])
host.grant('plugin')
queue = [lambda: host.invoke('plugin', signal={'topic': 'news', 'data': TOKEN})]
host.granted.clear()
host.grant('plugin')
ctx.signals = None
for hand_over in queue:
    hand_over()
"""


def attack(arena: Arena) -> Effect:
    """In the tier: after a revocation, after a grant that came later, and after one of less."""
    with hosting.Home(arena) as home:
        wish = signalling.wants(subscribe=TOPICS, handlers={"*": "work"})
        home.install({"plugin.toml": hosting.manifest("work", more=wish), "plugin.py": CODE})
        home.grant()
        drive(home.host.publish("news", arena.token, owner=hosting.OWNER))
        home.revoke()
        called = drive(home.host.deliver())
        home.grant()
        called += drive(home.host.deliver())
        drive(home.host.publish("news", arena.token, owner=hosting.OWNER))
        home.grant(all=False, allowed=[LESS])
        called += drive(home.host.deliver())
        result = home.invoke()
    leaked = arena.leaked(result)
    return Effect(bool(called) or leaked.happened, f"it was called {len(called)} times; {leaked.seen}", result)


def control(arena: Arena) -> Effect:
    """Before a host that keeps what is to be done, whoever may do it by then."""
    bare = hosting.careless(arena, STEPS, plugins={"plugin": {"plugin.py": CODE}}, TOKEN=arena.token)
    return arena.leaked(bare)


ATTACK = Attack(
    id="plugins.signals_after_revoke",
    claim=Claim(
        Rule.GRANTED, "What waited for a plugin reaches it only under a grant that stood all the while and lists it."
    ),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

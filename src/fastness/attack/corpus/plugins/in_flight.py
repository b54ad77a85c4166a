"""
Has asked for something slow when its grant is revoked.
"""

from __future__ import annotations

import time

from fastness.attack import asking, hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

NOTES = '[[capabilities]]\nkind = "notes"\nreason = "To note things."\n'
#: The same call before a host that never revokes.
BY_HAND = "\ncall(1, 'notes', 'slow')\n"

CODE = """
def work(ctx):
    return ctx.notes.slow()
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a call that takes a second; it is revoked in the meantime."""
    desk = asking.Desk(arena, "notes")
    with hosting.Home(arena, adapters={"notes": desk}) as home:
        home.install({"plugin.toml": hosting.manifest("work", more=NOTES), "plugin.py": CODE})
        home.grant()
        call = hosting.Meanwhile(home.invoke)
        hosting.until(lambda: desk.now > 0)
        began = time.monotonic()
        home.revoke()
        result = call.over()
        if result is None:
            raise RuntimeError("it did not run")
        time.sleep(max(0.0, began + asking.SLOW_S + 0.1 - time.monotonic()))
        return arena.marked(result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    return arena.marked(asking.careless(arena, BY_HAND if "slow" in CODE else CODE))


ATTACK = Attack(
    id="plugins.in_flight",
    claim=Claim(Rule.GRANTED, "What is in flight when a grant is revoked is cancelled."),
    tiers=dict.fromkeys(("isolated", "wasm"), Expect(Layer.HOST, outcomes=("ok", "guest_error", "cancelled"))),
    attack=attack,
    control=control,
    slow=True,
)

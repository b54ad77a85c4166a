"""
Sends, and takes, what nobody else is to read.
"""

from __future__ import annotations

from fastness.attack import brokering, signalling
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.audit import reading
from fastness.capabilities.signals import SignalsScope

RECEIVERS = {"mine": [("plugin", signalling.SCOPE), ("victim", SignalsScope(subscribe=("mine.*",)))]}

CODE = """
attempt(ctx.signals.publish, topic='mine.news', data=TOKEN)
attempt(ctx.signals.publish, topic='mine.news', data={TOKEN: TOKEN})
attempt(ctx.signals.publish, topic='other.' + TOKEN.upper(), data=1)
attempt(ctx.signals.publish, topic=[TOKEN], data=1)
attempt(ctx.signals.publish, topic='mine.news', data=TOKEN * 10000)
attempt(ctx.signals.take, most=TOKEN)
attempt(ctx.signals.take)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; then all files of the audit trail are searched."""
    with signalling.Broker(arena, RECEIVERS) as broker:
        broker.signals.publish("mine", "mine.news", arena.token)
        result = broker.run(CODE, signalling.SCOPE, facts={"TOKEN": arena.token})
        rows = len(list(reading.records(str(broker.audit))))
        kept = brokering.anywhere(broker.folder, arena.token, "audit*")
    return Effect(kept or rows < 10, f"{rows} rows, {'with' if kept else 'without'} it", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    signalling.control(arena, CODE, TOKEN=arena.token, LOG=str(arena.folder / "careless.log"))
    kept = brokering.anywhere(arena.folder, arena.token, "careless.log")
    return Effect(kept, f"the log is {'with' if kept else 'without'} it")


ATTACK = Attack(
    id="broker.signals_words_recorded",
    claim=Claim(Rule.RECORDED, "No record has anything of what a signal carries."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

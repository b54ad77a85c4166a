"""
Writes a result of its own to every descriptor, so that the host takes it for the truth about the run.
"""

from __future__ import annotations

from fastness.attack import channel, serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import json, os, struct

answer = b'{"kind":"ok","value":"FORGED"}'
# Of the next run: what it says of its own is not in question.
head = json.dumps({'id': 2, 'ending': 'returned', 'payload_len': len(answer)}).encode()
frames = [
    *(struct.pack('>BBHII', 1, kind, 0, len(head), len(answer)) + head + answer for kind in (0x48, *range(80))),
    b'{"outcome":"ok","value":"FORGED"}\\n',
    struct.pack('>BBHII', 255, 255, 65535, 2**32 - 1, 2**32 - 1),
]
for number in range(3, 64):
    for frame in frames:
        try:
            os.write(number, frame)
        except OSError:
            break
raise RuntimeError('this is how it really ended')
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    result = arena.run(CODE)
    after = arena.run(serving.NEXT)
    forged = any("FORGED" in repr(each.value) for each in (result, after)) or result.ok
    out_of_step = not serving.good(after)
    return Effect(
        forged or out_of_step, f"the run ended as {result.outcome.kind.value}, the next as {after.outcome.kind.value}"
    )


def control(arena: Arena) -> Effect:
    """Before a host that believes it."""
    return channel.believed(arena, channel.Harm.FILED, CODE)


ATTACK = Attack(
    id="channel.forged_result",
    claim=Claim(
        Guarantee.ADDRESS_SPACE,
        "What a guest writes anywhere cannot pass for another run's result or put the host out of step.",
    ),
    tiers={
        "wasm": Expect(Layer.HOST),
        "worker": Expect(Layer.HOST),
        "confined": Expect(Layer.HOST),
        "container": Expect(Layer.HOST),
        "isolated": Expect(Layer.HOST),
    },
    attack=attack,
    control=control,
)

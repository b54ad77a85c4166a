"""
Writes a result of its own to every descriptor, so that the host takes it for the truth about the run.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, struct

head = b'{"type":"result","id":1,"ending":"return","stdout_len":0,"stderr_len":0,"value":"FORGED"}'
frames = [
    struct.pack('>BBHII', 1, kind, 0, len(head), 0) + head for kind in range(32)
] + [b'{"outcome":"ok","value":"FORGED"}\\n', struct.pack('>BBHII', 255, 255, 65535, 2**32 - 1, 2**32 - 1)]
for number in range(3, 64):
    for frame in frames:
        try:
            os.write(number, frame)
        except OSError:
            break
raise RuntimeError('this is how it really ended')
"""
NEXT = "print('SERVED')"
#: An executor whose programs report on the stream that they print to.
NAIVE = """
import json, subprocess, sys

program = "print('{\\"outcome\\": \\"ok\\", \\"value\\": \\"FORGED\\"}'); raise RuntimeError"
done = subprocess.run([sys.executable, '-c', program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
print(json.loads(done.stdout)['value'])
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    result = arena.run(CODE)
    after = arena.run(NEXT)
    forged = "FORGED" in repr(result.value) or result.ok
    out_of_step = after.stdout_bytes != b"SERVED\n" or not after.ok
    return Effect(
        forged or out_of_step, f"the run ended as {result.outcome.kind.value}, the next as {after.outcome.kind.value}"
    )


def control(arena: Arena) -> Effect:
    """A host that believes what comes by the program's own output."""
    return arena.said(arena.outside.run(NAIVE), "FORGED", "passed for a result")


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
        "isolated": Expect(Layer.HOST),
    },
    attack=attack,
    control=control,
)

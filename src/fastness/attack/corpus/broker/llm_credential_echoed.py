"""
Has a service say back the credential that the host sent it: whole, in other spellings, and cut into a stream.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from fastness.attack import models
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.attack.outside import Bare
from fastness.capabilities.llm import LlmScope
from fastness.runs import RunResult

SCOPE = LlmScope(tiers=("cheap",), budget=models.BUDGET)
CODE = """
heard = attempt(ctx.llm.ask, prompt='x')
stream = attempt(ctx.llm.stream, messages=[{'role': 'user', 'content': 'x'}])
text = ''
for _ in range(200):
    got = attempt(ctx.llm.read, stream)
    if got is None:
        break
    text += got['text']
    if got['done']:
        break
print(heard and heard['text'])
print('STREAM', text)
"""


def _echo(_asked: dict[str, Any], head: bytes) -> dict[str, Any]:
    found = re.search(rb"(?i)authorization: bearer (\S+)", head)
    value = b"" if found is None else found[1]
    forms = (value, base64.b64encode(b"key=" + value), value.hex().encode())
    whole = value.decode()
    return {
        "text": " ".join(form.decode() for form in forms),
        "pieces": [whole[:5], whole[5:9], whole[9:]],
        "between_s": 0.02,
    }


def _forms(ran: RunResult | Bare, value: str) -> int:
    data = value.encode()
    said, _, streamed = ran.stdout_bytes.partition(b"STREAM ")
    # Of base64 what does not depend on what stands before and after.
    forms = (data, base64.b64encode(b"key=" + data)[8:24], data.hex().encode())
    return sum(form in said for form in forms) + (data in streamed)


def attack(arena: Arena) -> Effect:
    """In the tier."""
    server = models.serve(arena, _echo)
    with models.broker(arena, server, key=arena.token) as broker:
        result = broker.run(CODE, SCOPE)
    came = _forms(result, arena.token)
    return Effect(came > 0 or len(server.asked) < 2, f"it came back in {came} forms", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = models.serve(arena, _echo)
    came = _forms(models.control(arena, CODE, server, CREDENTIAL=arena.token), arena.token)
    return Effect(came == 4, f"it came back in {came} forms")


ATTACK = Attack(
    id="broker.llm_credential_echoed",
    claim=Claim(
        Rule.OWNED,
        "The credential of a model's service does not come back: as it is, in base64, in hexadecimal, or in pieces.",
    ),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

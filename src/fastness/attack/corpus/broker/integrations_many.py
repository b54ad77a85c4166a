"""
Sends more mails than there may be: one after another, to many at once, all together, and by servers that refuse them.
"""

from __future__ import annotations

from fastness.attack import mailing
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
attempt(ctx.integrations.email.send, to=[f'a{n}@example.test' for n in range(3)], subject='s', text='t')
attempt(ctx.integrations.email.send, to=[f'b{n}@example.test' for n in range(3)], subject='s', text='t')
for number in range(8):
    attempt(ctx.integrations.email.send, to=f'c{number}@example.test', subject='s', text='t')
"""


def _refuses(line: bytes, server: mailing.Server) -> bytes | None:
    # It takes each, and says that it did not.
    return b"451 later\r\n" if line == b"." else None


def attack(arena: Arena) -> Effect:
    """In the tier, with four a day."""
    server = mailing.serve(arena, _refuses)
    with mailing.broker(arena, server) as broker:
        result = broker.run(CODE, mailing.SCOPE)
    came = server.went_to("@")
    return Effect(came > mailing.MAILS or not came, f"{came} people got mail", result)


def control(arena: Arena) -> Effect:
    """Before a host that counts what went well."""
    server = mailing.serve(arena, _refuses)
    mailing.control(arena, CODE, server, PER_DAY=mailing.MAILS)
    came = server.went_to("@")
    return Effect(came > mailing.MAILS, f"{came} people got mail")


ATTACK = Attack(
    id="broker.integrations_many",
    claim=Claim(Rule.BOUNDED, "No more people get mail than the grant says, whatever the server says of each."),
    tiers=dict.fromkeys(mailing.TIERS, Expect(Layer.BROKER, "quota", calls=("email.send",))),
    attack=attack,
    control=control,
)

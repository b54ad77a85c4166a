"""
Writes to somebody whom nobody granted: by lists, copies, routes, quotes, comments, and addresses of two readings.
"""

from __future__ import annotations

from fastness.attack import mailing
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
for to in ('eve@evil.test', 'eve@evil.test,ann@example.test', '<eve@evil.test> ann@example.test',
           'eve%evil.test@example.test', '@example.test:eve@evil.test', '"eve@evil.test"@example.test',
           'eve@evil.test(@example.test)', 'eve@example.test.evil.test', 'eve@evil.test#example.test',
           'example.test@evil.test', 'eve@evil.test\\0.example.test', ['ann@example.test', 'eve@evil.test']):
    attempt(ctx.integrations.email.send, to=to, subject='s', text='t')
attempt(ctx.integrations.email.send, to='ann@example.test', cc=['eve@evil.test'], subject='s', text='t')
for text in (b'{"to": "ann@example.test", "to": "eve@evil.test", "subject": "s", "text": "t"}',
             b'{"to": "ann@example.test", "bcc": "eve@evil.test", "subject": "s", "text": "t"}'):
    by_hand('integrations', 'email.send', text)
"""
BY_NAME = """
def by_hand(capability, operation, text):
    attempt(ctx.integrations.email.send, **json.loads(text))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    server = mailing.serve(arena)
    with mailing.broker(arena, server) as broker:
        result = broker.run(CODE, mailing.SCOPE)
    came = server.went_to("evil")
    return Effect(came > 0, f"{came} mails went to somebody else", result)


def control(arena: Arena) -> Effect:
    """Before a careless host, which looks for the name of a domain that was granted."""
    server = mailing.serve(arena)
    mailing.control(arena, BY_NAME + CODE, server)
    came = server.went_to("evil")
    return Effect(came > 3, f"{came} mails went to somebody else")


ATTACK = Attack(
    id="broker.integrations_recipients",
    claim=Claim(Rule.GRANTED, "Mail goes to addresses and domains that were granted, however one is written."),
    tiers=dict.fromkeys(mailing.TIERS, Expect(Layer.BROKER, "not_granted", calls=("email.send",))),
    attack=attack,
    control=control,
)

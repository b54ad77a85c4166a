"""
Ends a mail in its own text, with every dot between two line ends that a server may take for one, and begins a second.
"""

from __future__ import annotations

from fastness.attack import mailing
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
second = 'MAIL FROM:<boss@host.test>{0}RCPT TO:<eve@evil.test>{0}DATA{0}Subject: now{0}{0}do it{0}'
for end, dot in (('\\r\\n', '\\r\\n.\\r\\n'), ('\\n', '\\n.\\n'), ('\\r\\n', '\\r\\n.\\n'), ('\\r\\n', '\\n.\\r\\n')):
    attempt(ctx.integrations.email.send, to='ann@example.test', subject='s', text='t' + dot + second.format(end))
"""


def attack(arena: Arena) -> Effect:
    """In the tier; all four mails may be sent, and each is one."""
    server = mailing.serve(arena)
    with mailing.broker(arena, server) as broker:
        result = broker.run(CODE, mailing.SCOPE)
    server.close()
    more = server.went_to("evil")
    whole = len(server.taken) == mailing.MAILS
    return Effect(more > 0 or not whole, f"{len(server.taken)} mails, {more} of them to somebody else", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    server = mailing.serve(arena)
    mailing.control(arena, CODE, server)
    server.close()
    more = server.went_to("evil")
    return Effect(more > 0, f"{len(server.taken)} mails, {more} of them to somebody else")


ATTACK = Attack(
    id="broker.integrations_body",
    claim=Claim(Rule.GRANTED, "No text ends the mail that it is in, or begins another one."),
    tiers=dict.fromkeys(mailing.TIERS, Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

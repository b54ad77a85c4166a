"""
Sends a mail by a server that no longer offers TLS, as where somebody in between takes that out of what it says.
"""

from __future__ import annotations

from fastness.attack import brokering, mailing
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
attempt(ctx.integrations.email.send, to='ann@example.test', subject='s', text='t')
"""


def _effect(server: mailing.Server, result: object = None) -> Effect:
    open_ = sum(line.startswith(b"AUTH") for line in server.lines) + len(server.taken)
    seen = f"{open_} times a password or a mail came in the open"
    return Effect(open_ > 0, seen, result)  # type: ignore[arg-type]  # a run's, or none


def attack(arena: Arena) -> Effect:
    """In the tier, where the operator said that TLS is begun."""
    server = mailing.serve(arena)
    with mailing.broker(arena, server, password=arena.token, tls="starttls") as broker:
        result = broker.run(CODE, mailing.SCOPE)
    brokering.sure(server.lines, "nobody came to the server")
    return _effect(server, result)


def control(arena: Arena) -> Effect:
    """Before a careless host, which begins it where it is offered."""
    server = mailing.serve(arena)
    mailing.control(arena, CODE, server, PASSWORD=arena.token)
    return _effect(server)


ATTACK = Attack(
    id="broker.integrations_without_tls",
    claim=Claim(Rule.OWNED, "A server of mail that offers no TLS is told no password and no mail."),
    tiers=dict.fromkeys(mailing.TIERS, Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

"""
Sends a mail by a server that answers a letter at a time, so that no single wait is long.
"""

from __future__ import annotations

import time

from fastness.attack import mailing
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

LONG_S = 1.1

CODE = """
attempt(ctx.integrations.email.send, to='ann@example.test', subject='s', text='t')
"""


def _drips(line: bytes, server: mailing.Server) -> bytes | None:
    if not line.startswith(b"MAIL"):
        return None
    for _ in range(13):
        if server.over.wait(0.1):
            break
        server.link.sendall(b"2")
    return b"50 ok\r\n"


def _stayed(server: mailing.Server) -> float:
    ends = time.monotonic() + 3
    while server.left_s is None and time.monotonic() < ends:
        time.sleep(0.02)
    server.close()
    return server.left_s or 0.0


def attack(arena: Arena) -> Effect:
    """In the tier, with 0.3 s for a call."""
    server = mailing.serve(arena, _drips)
    with mailing.broker(arena, server, call_s=0.3) as broker:
        result = broker.run(CODE, mailing.SCOPE)
    stayed = _stayed(server)
    return Effect(stayed > LONG_S or not server.lines, f"it stayed {stayed:.1f} s", result)


def control(arena: Arena) -> Effect:
    """Before a careless host, which waits a third of a second for each answer and puts that off with each letter."""
    server = mailing.serve(arena, _drips)
    mailing.control(arena, CODE, server, TIMEOUT_S=0.3, WHOLE=True)
    stayed = _stayed(server)
    return Effect(stayed > LONG_S, f"it stayed {stayed:.1f} s")


ATTACK = Attack(
    id="broker.integrations_stalls",
    claim=Claim(Rule.BOUNDED, "A mail ends at its time, however its server answers."),
    tiers=dict.fromkeys(mailing.TIERS, Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

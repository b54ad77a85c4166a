"""
Asks by hand for actions that nobody does, or that were not granted, and for the credential itself.
"""

from __future__ import annotations

from fastness.attack import brokering, mailing
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.integrations import IntegrationsScope

#: ``sms.send`` is granted, and nobody here does it.
SCOPE = IntegrationsScope(actions=("sms.send",), per_day=4, recipients=("example.test",))
CODE = """
for action in ('sms.send', 'email.send', 'email.password', 'credentials.read', 'email', 'email.__dict__', 'read'):
    by_hand('integrations', action, b'{"to": "ann@example.test", "subject": "s", "text": "t"}')
print('THERE', getattr(ctx, 'integrations', None))
"""
BY_NAME = """
def by_hand(capability, operation, text):
    given = json.loads(text)
    found = ctx.integrations
    for word in operation.split('.'):
        found = getattr(found, word, None) or (lambda **_: PASSWORD)
    attempt(found, **given) if callable(found) else attempt(str, found)
"""


def _came(server: mailing.Server, said: bytes, token: str) -> tuple[list[bool], str]:
    """Whether a mail went, whether the credential came, and whether there was anything to ask; and that in words."""
    mailed, told, there = bool(server.taken), token.encode() in said, b"THERE" in said and b"THERE None" not in said
    words = f"{len(server.taken)} mails; the credential {'came' if told else 'did not come'}"
    return [mailed, told, there], f"{words}; ctx {'has' if there else 'has none of'} it"


def attack(arena: Arena) -> Effect:
    """In the tier."""
    server = mailing.serve(arena)
    with mailing.broker(arena, server, password=arena.token) as broker:
        result = broker.run(CODE, SCOPE)
    brokering.sure(b"THERE" in result.stdout_bytes, "it did not come to its end")
    came, seen = _came(server, result.stdout_bytes, arena.token)
    return Effect(any(came), seen, result)


def control(arena: Arena) -> Effect:
    """Before a host that looks an action up by its name, whatever that is."""
    server = mailing.serve(arena)
    bare = mailing.control(arena, BY_NAME + CODE, server, PASSWORD=arena.token)
    came, seen = _came(server, bare.stdout_bytes, arena.token)
    return Effect(all(came), seen)


ATTACK = Attack(
    id="broker.integrations_not_there",
    claim=Claim(Rule.GRANTED, "An action that nobody does, or that was not granted, is not there and is refused."),
    tiers=dict.fromkeys(mailing.TIERS, Expect(Layer.BROKER, "no_adapter", calls=("sms.send",))),
    attack=attack,
    control=control,
)

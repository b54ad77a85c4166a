"""
Has functions of the host ask for the end of their program, as those do that read a guest's words as options.
"""

from __future__ import annotations

from collections.abc import Callable

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
attempt(ctx.host.parse, text='--nothing-of-that-name')
attempt(ctx.host.parse_later, text='--nothing-of-that-name')
"""
NEXT = "print('SERVED', ctx.host.add(a=20, b=22))"
#: A host that calls its functions itself, one call after another.
_HOST = """
class _Host:
    def parse(self, text):
        raise SystemExit(2)

    parse_later = parse

    def add(self, a, b):
        return a + b

ctx.host = _Host()
"""


def parse(text: str) -> str:
    """As argparse does with an option that it does not know."""
    raise SystemExit(2)


async def parse_later(text: str) -> str:
    """The same where functions are coroutines."""
    raise SystemExit(2)


def add(a: int, b: int) -> int:
    """What an honest guest calls."""
    return a + b


def attack(arena: Arena) -> Effect:
    """In the tier; another run makes a call then."""
    functions: dict[str, Callable[..., object]] = {"parse": parse, "parse_later": parse_later, "add": add}
    try:
        with brokering.Broker(arena, functions=functions) as broker:
            first = broker.run(CODE, brokering.host("parse", "parse_later"))
            second = broker.run(NEXT, brokering.host("add"))
    except RuntimeError as error:
        return Effect(True, f"nobody is served any more: {error}")
    told = first.stdout_bytes.count(b"SystemExit") == 2
    served = second.ok and second.stdout_bytes == b"SERVED 42\n"
    seen = f"its calls were {'answered' if told else 'not answered'}, the next run's {'was' if served else 'was not'}"
    return Effect(not (told and served), seen, first)


def control(arena: Arena) -> Effect:
    """In a host that calls what it is told to, and then what the next run asks for."""
    bare = brokering.control(arena, f"{_HOST}\n{CODE}\n{NEXT}")
    served = b"SERVED 42" in bare.stdout_bytes
    return Effect(not served, f"the next call was {'served' if served else 'not served'}")


ATTACK = Attack(
    id="broker.function_exits",
    claim=Claim(Guarantee.CRASH_CONTAINED, "A function of the host that wants its program to end ends no other calls."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

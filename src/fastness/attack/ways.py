"""
Attempts that can be made in several ways: an attack makes all of them, and its control each by itself.

The text of such an attempt has a generator ``tries`` of functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fastness.attack.model import Effect
from fastness.attack.outside import Bare

_TAIL = """
ways = [*tries()]
print('WAYS', len(ways), flush=True)
for each in ways[PART]:
    try:
        each()
    except OSError as error:
        print(error, flush=True)
"""


def every(text: str) -> str:
    """A program that tries all of them, one after another."""
    return f"{text}\nPART = slice(None)\n{_TAIL}"


def each(text: str, attempt: Callable[[str], tuple[Bare, Effect]]) -> Effect:
    """The control: ``attempt`` runs a program outside, once for each way.  The effect is that each of them has it."""
    number, count = 0, 1
    while number < count:
        bare, effect = attempt(f"{text}\nPART = slice({number}, {number + 1})\n{_TAIL}")
        said = re.search(rb"^WAYS (\d+)$", bare.stdout_bytes, re.MULTILINE)
        if said is None or not effect.happened:
            return Effect(False, f"by its way {number}: {effect.seen}")
        count = int(said[1])
        number += 1
    return Effect(True, f"by each of its {count} ways: {effect.seen}")

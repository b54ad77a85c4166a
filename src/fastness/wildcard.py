"""
The wildcard language of lifecycle names: ``*`` stands for any run of characters, ``?`` for exactly one.

A list of patterns allows a name where one of them matches it whole; an empty list allows nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["MATCH_MAX", "covers", "matches", "matches_any", "pattern_problem"]

#: Characters of a pattern, and of a name that is looked at: what is longer matches nothing.
MATCH_MAX = 200
_PATTERN = re.compile(r"[A-Za-z0-9_.:/@*?-]+")


def pattern_problem(text: object) -> str:
    """What is wrong with a pattern, or nothing."""
    if not isinstance(text, str):
        return "must be text"
    if not text:
        return "is empty; * stands for every name"
    if len(text) > MATCH_MAX:
        return f"is longer than {MATCH_MAX} characters"
    if _PATTERN.fullmatch(text) is None:
        return "may hold ASCII letters, digits, _ . : / @ - and the wildcards * and ?"
    return ""


def matches(pattern: str, name: str) -> bool:
    """Whether ``name`` as a whole is what ``pattern`` describes.  It takes at most length times length steps."""
    return len(name) <= MATCH_MAX and len(pattern) <= MATCH_MAX and _walk(pattern, name, any_one="")


def matches_any(patterns: Iterable[str], name: str) -> bool:
    """Whether one of ``patterns`` matches; of none, none does."""
    return any(matches(pattern, name) for pattern in patterns)


def covers(wide: str, narrow: str) -> bool:
    """
    Whether ``wide`` certainly matches every name that the pattern ``narrow`` matches.

    It may say no where the truth is yes, never the other way round.
    """
    return len(wide) <= MATCH_MAX and len(narrow) <= MATCH_MAX and _walk(wide, narrow, any_one="*")


def _walk(pattern: str, text: str, *, any_one: str) -> bool:
    """
    Match with one place to go back to: the last ``*``.

    An earlier one never has to take more, as the last can take all that it could.  ``any_one`` are characters of
    ``text`` that stand for runs: only ``*`` may take them.
    """
    at = here = 0
    star = back = -1
    while here < len(text):
        letter = text[here]
        sign = pattern[at] if at < len(pattern) else ""
        if sign == "*":
            star, back = at, here
            at += 1
        elif sign in {"?", letter} and letter not in any_one:
            at += 1
            here += 1
        elif star >= 0:
            back += 1
            at, here = star + 1, back
        else:
            return False
    return all(sign == "*" for sign in pattern[at:])

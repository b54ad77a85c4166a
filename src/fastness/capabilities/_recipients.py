"""
Addresses of mail that a plugin names, and the patterns of a scope that say which of them it may write to.

What two mail systems could read in two ways is refused here, so that what is judged is where the mail goes: no quoted
names, no routes, no comments, and nothing that a relay takes for the way to another host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from fastness.capabilities import _hosts
from fastness.capabilities._hosts import BadHost, Host, host_of

__all__ = ["BadRecipient", "Recipient", "covers", "matches", "meet_patterns", "pattern_of", "recipient_of"]

#: RFC 5321, 4.5.3.1: octets of a path without its angle brackets, and of what stands before the sign.
_LONGEST, _LONGEST_LOCAL = 254, 64
#: Less than the atoms of RFC 5321, 4.1.2: without ``%``, ``!`` and ``/``, by which relays were told a way (RFC 1123,
#: 5.2.16), without what a shell reads, and not beginning with what a program takes for an option.
_LOCAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_+=~'-]*(?:\.[A-Za-z0-9_+=~'-]+)*")
ANYBODY = "*"


class BadRecipient(ValueError):
    """A text that is no address of mail, or none that is read in one way only.  The message says why."""


class Recipient(msgspec.Struct, frozen=True):
    """An address, normalised: the ``local`` part as it was written, the ``domain`` in ASCII and lower case."""

    local: str
    domain: str

    def __str__(self) -> str:
        return f"{self.local}@{self.domain}"


@lru_cache(maxsize=512)
def recipient_of(text: str) -> Recipient:
    """The address that a text is, with nothing around it: no name and no brackets.  Raises BadRecipient."""
    if len(text) > _LONGEST:
        raise BadRecipient(f"an address of more than {_LONGEST} characters")
    local, sign, domain = text.rpartition("@")
    if not sign:
        raise BadRecipient("an address without a domain")
    if len(local) > _LONGEST_LOCAL or not _LOCAL.fullmatch(local):
        raise BadRecipient("an address whose name is not made of letters, digits and . _ + - = ~ '")
    found = Recipient(local, _domain(domain))
    if len(str(found)) > _LONGEST:
        raise BadRecipient(f"an address of more than {_LONGEST} characters")
    return found


def _domain(text: str) -> str:
    try:
        host = host_of(text)
    except BadHost as error:
        raise BadRecipient(f"an address with {error}") from None
    if host.address is not None:
        raise BadRecipient("an address whose domain is a number")
    return host.name


@lru_cache(maxsize=512)
def pattern_of(text: str) -> str:
    """
    A pattern of an allow-list, normalised: an address, a domain, ``*.`` and a domain, or ``*``.  Raises BadRecipient.

    ``example.com`` is every address there, and none below it; ``*.example.com`` is every one below it.
    """
    if text == ANYBODY:
        return text
    if "@" in text:
        return str(recipient_of(text))
    under = text.startswith("*.")
    name = _domain(text[2:] if under else text)
    return f"*.{name}" if under else name


def matches(pattern: str, recipient: Recipient) -> bool:
    """Whether a normalised pattern takes in an address.  What stands before the sign is compared letter by letter."""
    if pattern == ANYBODY:
        return True
    if "@" in pattern:
        return pattern == str(recipient)
    return _hosts.matches(pattern, Host(recipient.domain))


def covers(wide: str, narrow: str) -> bool:
    """Whether every address that ``narrow`` takes in is taken in by ``wide``.  Both are normalised patterns."""
    if wide in (ANYBODY, narrow):
        return True
    if "@" in wide or narrow == ANYBODY:
        return False
    if "@" in narrow:
        return matches(wide, recipient_of(narrow))
    return _hosts.covers(wide, narrow)


def meet_patterns(some: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    """Patterns that take in what both lists take in: of two patterns one covers the other, or they share nothing."""
    others = tuple(others)
    both = [
        one if covers(other, one) else other
        for one in some
        for other in others
        if covers(other, one) or covers(one, other)
    ]
    unique = list(dict.fromkeys(both))
    return tuple(one for one in unique if not any(other != one and covers(other, one) for other in unique))

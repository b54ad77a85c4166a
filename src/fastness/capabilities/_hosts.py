"""
Names of hosts: normalised once, before anything is judged, and matched against the patterns of a scope.

What two parsers could read in two ways is refused here, so that what is judged is what is connected to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

import msgspec

from fastness.capabilities._addresses import Address, read_ipv4, read_ipv6

__all__ = ["BadHost", "Host", "covers", "host_of", "matches", "meet_patterns", "pattern_of"]

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
#: A last label that makes a parser of URLs read the whole as an IPv4 address, as browsers do.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST = 253
#: Characters of text that is mapped to ASCII: four times what a name can have, for the sake of the mapping's time.
_LONGEST_TEXT = 1_000


class BadHost(ValueError):
    """A text that names no host, or that different programs would read differently.  The message says why."""


class Host(msgspec.Struct, frozen=True):
    """A host, normalised: ``name`` in ASCII and lower case; where it is an address, ``address``, and its usual text."""

    name: str
    address: Address | None = None

    @property
    def in_url(self) -> str:
        """As it stands in a URL and in the Host field (RFC 3986, 3.2.2): an IPv6 address in brackets."""
        return f"[{self.name}]" if isinstance(self.address, IPv6Address) else self.name


@lru_cache(maxsize=512)
def host_of(text: str) -> Host:
    """
    The host that a text names, as it stands between ``//`` and the port of a URL.

    Addresses in every spelling that ``inet_aton`` reads are addresses.  Other names become ASCII once (UTS 46 and
    RFC 5891), lose one trailing dot, and must then be letters, digits and hyphens (RFC 1123).  Raises BadHost.
    """
    if not text:
        raise BadHost("no host")
    if len(text) > _LONGEST_TEXT:
        raise BadHost("a host that is too long")
    if text[0] == "[":
        address = read_ipv6(text[1:-1]) if text[-1] == "]" else None
        if address is None:
            raise BadHost("brackets without an IPv6 address")
        return Host(str(address), address)
    name = text.lower() if text.isascii() else _to_ascii(text)
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(name) > _LONGEST or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadHost("a host that is not made of letters, digits and hyphens")
    if _NUMBER.fullmatch(labels[-1]):
        found = read_ipv4(name)
        if found is None:
            raise BadHost("a host that ends in a number and is no address")
        return Host(str(found), found)
    return Host(name)


def _to_ascii(text: str) -> str:
    try:
        import idna
    except ImportError:
        raise BadHost("a host that is not ASCII, which takes fastness[net] to read") from None
    try:
        # The mapping turns full-width digits, other full stops and capitals into the ASCII that they stand for; what is
        # left is judged like any other text.
        mapped = idna.uts46_remap(text, std3_rules=True, transitional=False)
        return mapped if mapped.isascii() else idna.encode(mapped, strict=True, std3_rules=True).decode("ascii")
    except (UnicodeError, ValueError):
        raise BadHost("a host that is no internationalised name") from None


@lru_cache(maxsize=512)
def pattern_of(text: str) -> str:
    """
    A pattern of an allow-list, normalised: a host, ``*.`` and a name, or ``*``.  Raises BadHost.

    ``*.example.com`` is every name that ends in ``.example.com``; it is not ``example.com``.
    """
    if text == "*":
        return text
    under = text.startswith("*.")
    rest = text[2:] if under else text
    host = host_of(_bracketed(rest))
    if not under:
        return host.name
    if host.address is not None:
        raise BadHost("a wildcard before an address")
    return f"*.{host.name}"


def _bracketed(text: str) -> str:
    """An IPv6 address may stand without its brackets where no port can follow.  Raises BadHost for what follows."""
    if "/" in text:
        raise BadHost("a URL, where a host alone is meant")
    if ":" not in text or text[:1] == "[":
        return text
    if len(text) <= _LONGEST_TEXT and read_ipv6(text) is None:
        name, _, port = text.rpartition(":")
        if ":" not in name and port.isdecimal():
            raise BadHost("a host with a port, which stands in ports")
        raise BadHost("a colon, and no IPv6 address")
    return f"[{text}]"


def matches(pattern: str, host: Host) -> bool:
    """Whether a normalised pattern takes in a host.  ``*`` takes in all; the guard still judges their addresses."""
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        return host.address is None and host.name.endswith(pattern[1:]) and len(host.name) >= len(pattern)
    return pattern == host.name


def covers(wide: str, narrow: str) -> bool:
    """Whether every host that ``narrow`` takes in is taken in by ``wide``.  Both are normalised patterns."""
    if wide in ("*", narrow):
        return True
    if not wide.startswith("*."):
        return False
    if narrow.startswith("*."):
        return narrow.endswith(wide[1:])
    return narrow != "*" and matches(wide, Host(narrow, _literal(narrow)))


def _literal(name: str) -> Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


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

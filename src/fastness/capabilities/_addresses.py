"""
Is an address public?  One classifier, on parsed addresses, for every way in which one address is hidden in another.

The tables are IANA's registries of special-purpose addresses (RFC 6890, as of 2026), read strictly: what is not plainly
part of the public internet is not public, and a tunnel or translation is judged by where it leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import msgspec

from fastness.errors import ConfigurationError

__all__ = ["Address", "AddressGuard", "Allowance", "read_ipv4", "read_ipv6", "why_not_public"]

Address = IPv4Address | IPv6Address

#: Addresses at which clouds serve credentials to whoever asks from inside, whatever range they lie in.
_METADATA = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",  # most clouds
            "169.254.170.2",  # container credentials
            "169.254.170.23",  # pod credentials
            "168.63.129.16",  # a platform's own server, in a range that is public otherwise
            "100.100.100.200",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:42::42",
        ),
    )
)

_V4 = tuple(
    (IPv4Network(network), why)
    for network, why in (
        ("0.0.0.0/8", "this network"),  # RFC 1122: Linux connects 0.0.0.0 to itself
        ("10.0.0.0/8", "private"),  # RFC 1918
        ("100.64.0.0/10", "shared with a provider's customers"),  # RFC 6598
        ("127.0.0.0/8", "loopback"),  # RFC 1122
        ("169.254.0.0/16", "link-local"),  # RFC 3927
        ("172.16.0.0/12", "private"),  # RFC 1918
        ("192.0.0.0/24", "reserved for protocols"),  # RFC 6890
        ("192.0.2.0/24", "documentation"),  # RFC 5737
        ("192.88.99.0/24", "a relay of 6to4"),  # RFC 7526
        ("192.168.0.0/16", "private"),  # RFC 1918
        ("198.18.0.0/15", "benchmarking"),  # RFC 2544
        ("198.51.100.0/24", "documentation"),  # RFC 5737
        ("203.0.113.0/24", "documentation"),  # RFC 5737
        ("224.0.0.0/4", "multicast"),  # RFC 1112
        ("240.0.0.0/4", "reserved"),  # RFC 1112; the limited broadcast is its last
    )
)

#: Of IPv6 only 2000::/3 is handed out for the public internet (RFC 4291); what lies in it and is not public is here.
_V6_GLOBAL = IPv6Network("2000::/3")
_V6 = tuple(
    (IPv6Network(network), why)
    for network, why in (
        ("2001::/32", "a Teredo tunnel"),  # RFC 4380
        ("2001::/23", "reserved for protocols"),  # RFC 2928: ORCHID, benchmarking and others
        ("2001:db8::/32", "documentation"),  # RFC 3849
        ("2002::/16", "a 6to4 tunnel"),  # RFC 3056
        ("3fff::/20", "documentation"),  # RFC 9637
    )
)
#: And what lies outside it, by a name that tells more than "reserved".
_V6_OTHER = tuple(
    (IPv6Network(network), why)
    for network, why in (
        ("::1/128", "loopback"),
        ("::/128", "unspecified"),
        ("::/96", "IPv4-compatible"),  # RFC 4291, deprecated
        ("64:ff9b:1::/48", "a translation to IPv4 of local use"),  # RFC 8215
        ("100::/64", "discarded"),  # RFC 6666
        ("fc00::/7", "unique local"),  # RFC 4193
        ("fe80::/10", "link-local"),  # RFC 4291
        ("fec0::/10", "site-local"),  # RFC 3879
        ("ff00::/8", "multicast"),  # RFC 4291
    )
)
_MAPPED = IPv6Network("::ffff:0:0/96")  # RFC 4291
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")  # RFC 7915
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052
#: The middle of an interface identifier of ISATAP, with and without the universal bit (RFC 5214).
_ISATAP = (0x00005EFE, 0x02005EFE)


def why_not_public(address: Address) -> str:
    """
    Why an address is not one of the public internet; "" where it is.

    Addresses that are an IPv4 address in another dress (mapped, NAT64) are judged as what they stand for.  Tunnels
    (6to4, Teredo, ISATAP, IPv4-compatible) are never public: where their other end is cannot be judged.
    """
    if isinstance(address, IPv4Address):
        if address in _METADATA:
            return "a metadata service"
        return next((why for network, why in _V4 if address in network), "")
    if address.scope_id is not None:
        return "bound to an interface"
    if address in _METADATA:
        return "a metadata service"
    if address in _MAPPED or address in _NAT64 or address in _TRANSLATED:
        why = why_not_public(IPv4Address(int(address) & 0xFFFFFFFF))
        # Nothing on the public internet answers at the stateless form.
        return why or ("a translation to IPv4 of local use" if address in _TRANSLATED else "")
    for network, why in _V6_OTHER:
        if address in network:
            return why
    if address not in _V6_GLOBAL:
        return "reserved"
    for network, why in _V6:
        if address in network:
            return why
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        return "an ISATAP tunnel"
    return ""


def read_ipv4(text: str) -> IPv4Address | None:
    """
    What the C library's ``inet_aton`` reads from a text of ASCII letters, digits and dots; None where it refuses it.

    One to four numbers, each decimal, octal (0...) or hexadecimal (0x...); the last fills the bytes that are left.
    """
    parts = text.split(".")
    if len(parts) > 4:
        return None
    numbers = []
    for part in parts:
        number = _number(part)
        if number is None:
            return None
        numbers.append(number)
    *firsts, last = numbers
    if any(number > 0xFF for number in firsts) or last >= 1 << 8 * (4 - len(firsts)):
        return None
    value = last
    for place, number in enumerate(firsts):
        value |= number << 8 * (3 - place)
    return IPv4Address(value)


def _number(text: str) -> int | None:
    digits, base = text, 10
    if text[:2] in ("0x", "0X"):
        digits, base = text[2:], 16
    elif text[:1] == "0":
        base = 8
    allowed = "0123456789abcdefABCDEF" if base == 16 else "01234567" if base == 8 else "0123456789"
    # A length first: a number of a million digits is not read to find that it is too large.
    if not digits or any(digit not in allowed for digit in digits) or len(digits.lstrip("0")) > 11:
        return None
    return int(digits, base)


def read_ipv6(text: str) -> IPv6Address | None:
    """An IPv6 address without brackets and without a zone, or None."""
    if len(text) > 45 or not text.isascii() or "%" in text:
        return None
    try:
        return IPv6Address(text)
    except ValueError:
        return None


class Allowance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    An address that is not public and that the operator lets be reached all the same.

    A URL of this ``host`` and ``port`` may be asked at this ``address``, in text.  An adapter without a resolver of its
    own asks it there and nowhere else: the name is not looked up.  Several may name the same host and port.
    """

    host: str
    address: str
    port: int


class AddressGuard:
    """
    The check that stands between a host's name and a connection: public addresses, and what ``allow`` names exactly.

    Raises ConfigurationError that names the field of an allowance which is no host, address or port, or whose address
    is a metadata service's.
    """

    def __init__(self, allow: Iterable[Allowance] = ()) -> None:
        # Imported here, as that module builds on this one.
        from fastness.capabilities._hosts import BadHost, pattern_of

        self._allowed: set[tuple[str, Address, int]] = set()
        self._pinned: dict[tuple[str, int], list[Address]] = {}
        for one in allow:
            try:
                address = ip_address(one.address)
            except ValueError:
                raise ConfigurationError("address", one.address, "one address, such as 127.0.0.1") from None
            if why_not_public(address) == "a metadata service":
                raise ConfigurationError("address", one.address, "any address but a metadata service's")
            try:
                host = pattern_of(one.host)
            except BadHost as error:
                raise ConfigurationError("host", one.host, f"one host ({error})") from None
            if host.startswith("*"):
                raise ConfigurationError("host", one.host, "one host: an allowance has no patterns")
            if isinstance(one.port, bool) or not 1 <= one.port <= 65_535:
                raise ConfigurationError("port", one.port, "1 to 65535")
            if (host, address, one.port) not in self._allowed:
                self._allowed.add((host, address, one.port))
                self._pinned.setdefault((host, one.port), []).append(address)

    def pinned(self, host: str, port: int) -> list[Address]:
        """The addresses that allowances name for this host and port, in their order; empty where none does."""
        return list(self._pinned.get((host, port), ()))

    def why_not(self, host: str, address: Address, port: int) -> str:
        """Why this address may not be reached under this name and port; "" where it may."""
        return "" if (host, address, port) in self._allowed else why_not_public(address)

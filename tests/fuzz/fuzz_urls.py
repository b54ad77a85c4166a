"""URLs, locations, names of hosts, and the guard that judges addresses."""

from __future__ import annotations

import re
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

import fuzzing
import idna

from fastness.capabilities._addresses import AddressGuard, Allowance, read_ipv4, read_ipv6, why_not_public
from fastness.capabilities._hosts import BadHost, Host, host_of, matches, pattern_of
from fastness.capabilities._urls import DEFAULT_PORTS, BadUrl, Url, follow, url_of

assert idna.__name__ == "idna"  # imported here, so that it is watched like the rest
BASE = url_of("https://a.test:8443/x/y?q")
INNER = IPv4Address("127.0.0.1")
GUARD = AddressGuard([Allowance("inner.test", str(INNER), 8443)])
#: Where clouds serve credentials, beside what the standard library knows as not global.
METADATA = frozenset(map(ip_address, ("168.63.129.16", "169.254.169.254", "100.100.100.200", "fd00:ec2::254")))


def allowed(address: IPv4Address | IPv6Address) -> None:
    """An address that the guard lets pass is public to the standard library, and so is whatever is hidden in it."""
    assert address.is_global, address
    assert not address.is_multicast
    assert not address.is_loopback
    assert address not in METADATA
    if isinstance(address, IPv4Address):
        return
    assert address.scope_id is None
    number = int(address)
    assert address.sixtofour is None
    assert address.teredo is None
    if address.ipv4_mapped is not None:
        allowed(address.ipv4_mapped)
    elif number >> 32 == 0x0064FF9B << 64:
        allowed(IPv4Address(number & 0xFFFFFFFF))
    else:
        assert number >> 125 == 1, "outside of 2000::/3"
        assert number >> 32 & 0xFDFFFFFF != 0x00005EFE, "ISATAP"


def address(source: fuzzing.Source) -> None:
    """An address by its bits, many of them those of a range that is special."""
    high = source.pick((0, 0xFFFF << 32, 0xFFFF << 48, 0x0064FF9B << 96, 0x0064FF9B0001 << 80, 0x2002 << 112, 0x20010000 << 96,
                        0x20014860 << 96 | 0x5EFE << 32, 0x2001 << 112, 0x3FFF << 112, 0x2606 << 112, 0xFE80 << 112, 0xFD00 << 112))  # fmt: skip
    kind = source.below(4)
    found: IPv4Address | IPv6Address
    if kind == 0:
        found = IPv4Address(int.from_bytes(source.take(4).ljust(4, b"\0"), "big"))
    elif kind == 1:
        found = IPv6Address(int.from_bytes(source.take(16).ljust(16, b"\0"), "big"))
    else:
        inner = int.from_bytes(source.take(4).ljust(4, b"\0"), "big")
        found = IPv6Address(high | inner << (80 if kind == 3 else 0))
    judged(found)


def judged(found: IPv4Address | IPv6Address) -> None:
    why = why_not_public(found)
    assert why == "" or why.isprintable()
    if not why:
        allowed(found)
    for name, port in (("inner.test", 8443), ("inner.test", 443), ("other.test", 8443)):
        passes = GUARD.why_not(name, found, port) == ""
        assert passes == (not why or (found == INNER and (name, port) == ("inner.test", 8443)))


def host(text: str) -> Host | None:
    """A text is refused, or is one host to everybody who reads what is made of it."""
    try:
        found = host_of(text)
    except BadHost as error:
        str(error).encode()
        return None
    assert found.name.isascii() and found.name == found.name.lower() and len(found.name) <= 253
    assert host_of(found.in_url) == found
    assert pattern_of(found.name) == found.name
    assert matches(found.name, found) and matches("*", found)
    try:
        theirs = socket.inet_aton(found.name)
    except OSError:
        assert not isinstance(found.address, IPv4Address)
    else:
        assert found.address == IPv4Address(theirs), "a name to us, an address to the C library"
    if isinstance(found.address, IPv6Address):
        assert socket.inet_pton(socket.AF_INET6, found.name) == found.address.packed
    elif found.address is None:
        assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)*", found.name)
        assert not found.name.startswith("-")
    if found.address is not None:
        judged(found.address)
    return found


def fixed(url: Url) -> None:
    """What is read is plain ASCII, is read again as itself, and the library's parser reads the same out of it."""
    written = str(url)
    assert re.fullmatch(r"[!-~]+", written)
    assert "\\" not in written
    assert "@" not in url.authority
    assert "#" not in written
    assert url_of(written) == url
    assert follow(BASE, written) == url
    theirs = urlsplit(written)
    assert (theirs.scheme, theirs.hostname, theirs.port or DEFAULT_PORTS[url.scheme]) == (
        url.scheme,
        url.host.name,
        url.port,
    )
    assert theirs.path == url.path
    assert (theirs.query or "") == (url.query or "")
    segments = re.sub("%2[eE]", ".", url.path).split("/")
    assert "." not in segments
    assert ".." not in segments
    assert 1 <= url.port <= 65_535
    assert host(url.host.in_url) == url.host
    if url.host.address is not None and not GUARD.why_not(url.host.name, url.host.address, url.port):
        allowed(url.host.address)


def url(text: str) -> None:
    try:
        found = url_of(text)
    except BadUrl as error:
        str(error).encode()
        return
    fixed(found)


def location(text: str) -> None:
    """What a server says is read as strictly; without a host of its own it stays where it was."""
    try:
        found = follow(BASE, text)
    except BadUrl:
        return
    fixed(found)
    if not re.match(r"(?i)https?:|//", text):
        assert found.origin == BASE.origin


def literal(text: str) -> None:
    """Readings of addresses agree with the C library's."""
    if text.isascii() and not re.search(r"\s|\0", text):
        try:
            theirs = IPv4Address(socket.inet_aton(text))
        except OSError:
            theirs = None
        assert read_ipv4(text) == theirs
    found = read_ipv6(text)
    if found is not None:
        assert socket.inet_pton(socket.AF_INET6, text) == found.packed
        judged(found)


READINGS = (url, location, host, literal)


def one(data: bytes) -> None:
    source = fuzzing.Source(data)
    kind = source.below(6)
    with fuzzing.memory((2 << 20) + 400 * len(data)):
        if kind == 5:
            address(source)
        elif kind == 4:
            url("http://" + fuzzing.text_of(source.rest()))
        else:
            READINGS[kind](fuzzing.text_of(source.rest()))


def seeds() -> list[bytes]:
    texts = (
        "http://a.test", "https://user@a.test:443/x/../%2e%2E/y?z=[1]#f", "http://0x7f.1/", "http://[::ffff:127.0.0.1]:80/", "http://evil.test\\@good.test/",
        "http://evil.test。/", "http://１２７.0.0.1/", "http://ⓔvil.test/", "http://017700000001:8080/%7Ea", "HTTPS://xn--bcher-kva.test:65535//x//y", "http://[fe80::1%25lo]/",
    )  # fmt: skip
    hosts = (
        "a.test.",
        "*.a.test",
        "[::1]",
        "2130706433",
        "bücher.test",
        "faß.test",
        "a\u200db.test",
        "1.2.3.4.",
        "0x7f.0x1",
    )
    found = [b"\0" + text.encode() for text in texts]
    found += [b"\1" + text.encode() for text in ("//b.test/z", "../z", "?r", "#f", "/a/./b", "http:z", "z:1/x")]
    found += [b"\2" + text.encode() for text in hosts]
    found += [b"\3" + text.encode() for text in ("0177.1", "::ffff:1.2.3.4", "0x7f000001", "1::", "08.1")]
    numbers = (b"\x7f\0\0\1", b"\x0a\0\0\1", b"\xa9\xfe\xa9\xfe", b"\x08\x08\x08\x08", b"\xa8\x3f\x81\x10")
    return found + [bytes((5, high, kind)) + number for high in range(13) for kind in (0, 2, 3) for number in numbers]


TARGET = fuzzing.Target(
    name="urls",
    says="a URL is refused or read by everybody alike; no address that is not public passes, in whatever dress",
    one=one,
    seeds=seeds,
    words=tuple(
        text.encode("utf-8", "surrogatepass")
        for text in ("http://", "https://", "://", "//", "\\", "@", "%2e", "%2F", "..", "[", "]", "::", "::ffff:", "127.0.0.1", "0x7f", "0177",
                     "xn--", "。", "．", "１", "ß", "\u200d", "\u00ad", "\ud800", ":65536", ":080", "#", "?", "169.254.169.254", "2002:", "64:ff9b::")
    ),
    most=1024,
)  # fmt: skip

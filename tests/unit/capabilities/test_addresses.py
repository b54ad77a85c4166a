"""
Which addresses are public: by table, by embedding, and against what the standard library and the C library say.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness.capabilities._addresses import AddressGuard, Allowance, read_ipv4, read_ipv6, why_not_public
from fastness.errors import ConfigurationError

PUBLIC = ("1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0",
          "223.255.255.255", "2606:4700::1111", "2001:200::1", "2a00:1450:4001:800::200e", "::ffff:8.8.8.8",
          "64:ff9b::808:808")  # fmt: skip
NOT = {
    "0.0.0.0": "this network", "0.1.2.3": "this network", "10.0.0.1": "private", "100.64.0.1": "shared",
    "100.127.255.255": "shared", "127.0.0.1": "loopback", "127.255.255.254": "loopback", "169.254.0.1": "link-local",
    "169.254.169.254": "metadata", "169.254.170.2": "metadata", "168.63.129.16": "metadata", "100.100.100.200": "metadata",
    "172.16.0.1": "private", "172.31.255.255": "private", "192.0.0.1": "protocols", "192.0.2.1": "documentation",
    "192.88.99.1": "6to4", "192.168.1.1": "private", "198.18.0.1": "benchmarking", "198.19.255.255": "benchmarking",
    "198.51.100.1": "documentation", "203.0.113.9": "documentation", "224.0.0.1": "multicast", "239.1.1.1": "multicast",
    "240.0.0.1": "reserved", "255.255.255.255": "reserved",
    "::": "unspecified", "::1": "loopback", "fe80::1": "link-local", "febf::1": "link-local", "fec0::1": "site-local",
    "fc00::1": "unique local", "fdff::1": "unique local", "fd00:ec2::254": "metadata", "fd20:ce::254": "metadata",
    "ff02::1": "multicast", "2001:db8::1": "documentation", "3fff::1": "documentation", "100::1": "discarded",
    "2001:2::1": "protocols", "2001:10::1": "protocols", "2001:20::1": "protocols", "5f00::1": "reserved",
    "4000::1": "reserved", "fe80::1%1": "interface", "2606:4700::1%1": "interface",
}  # fmt: skip

#: Every way in which IPv6 carries an IPv4 address, as a function of it.
EMBEDDINGS = {
    "mapped": lambda v4: int(v4) | 0xFFFF << 32,
    "compatible": int,
    "translated": lambda v4: int(v4) | 0xFFFF << 48,
    "nat64": lambda v4: int(v4) | 0x0064FF9B << 96,
    "nat64 of local use": lambda v4: int(v4) | 0x0064FF9B0001 << 80,
    "nat64 of local use, /48": lambda v4: 0x0064FF9B0001 << 80 | (int(v4) >> 16) << 64 | (int(v4) & 0xFFFF) << 40,
    "6to4": lambda v4: 0x2002 << 112 | int(v4) << 80 | 1,
    "teredo, the server": lambda v4: 0x20010000 << 96 | int(v4) << 64,
    "teredo, the client": lambda v4: 0x20010000 << 96 | 0x08080808 << 64 | int(v4) ^ 0xFFFFFFFF,
    "isatap": lambda v4: 0x20014860 << 96 | 0x5EFE << 32 | int(v4),
    "isatap, universal": lambda v4: 0x20014860 << 96 | 0x02005EFE << 32 | int(v4),
}


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_public(text: str) -> None:
    """Control for all that follows: the classifier does not refuse everything."""
    assert why_not_public(ip_address(text)) == ""


@pytest.mark.parametrize(("text", "why"), NOT.items())
def test_the_rest_is_not(text: str, why: str) -> None:
    """Each special range is refused, by a name that says what it is."""
    assert why in why_not_public(ip_address(text))


@pytest.mark.parametrize("form", EMBEDDINGS)
@pytest.mark.parametrize("inside", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"])
def test_an_inner_address_is_refused_in_every_embedding(form: str, inside: str) -> None:
    """What is not public does not become so by being written as IPv6."""
    address = IPv6Address(EMBEDDINGS[form](IPv4Address(inside)))
    assert why_not_public(address), address


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(EMBEDDINGS)))
def test_no_embedding_is_wider_than_what_it_embeds(number: int, form: str) -> None:
    """For every IPv4 address: an embedding is public only where the address is, and only as mapped or NAT64."""
    inner = IPv4Address(number)
    if not why_not_public(IPv6Address(EMBEDDINGS[form](inner))):
        assert not why_not_public(inner)
        assert form in ("mapped", "nat64")


@given(st.one_of(st.integers(0, 2**32 - 1).map(IPv4Address), st.integers(0, 2**128 - 1).map(IPv6Address)))
def test_what_is_public_here_is_global_to_the_standard_library(address: IPv4Address | IPv6Address) -> None:
    """Two tables, kept by different people, agree in the direction that matters."""
    if not why_not_public(address):
        embedded = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        assert (embedded or address).is_global
        assert not address.is_multicast


SPELLINGS = ("127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0x7F.0.0.0x1", "0177.0.0.1",
             "017700000001", "0177.0.1", "00000177.1", "0x0000007f.1")  # fmt: skip


@pytest.mark.parametrize("text", SPELLINGS)
def test_loopback_in_every_spelling(text: str) -> None:
    """Decimal, octal, hexadecimal and short forms are the address that the C library connects to."""
    assert socket.inet_aton(text) == b"\x7f\0\0\x01"  # control: it is no invention of ours
    assert read_ipv4(text) == IPv4Address("127.0.0.1")


@pytest.mark.parametrize("text", ["", ".", "1.", "1..1", "256.0.0.1", "1.2.3.4.5", "1.2.3.4.0", "1.2.65536", "4294967296", "08.1.1.1", "0x",
                                  "0x.1", "1e3", "+1", "-1", "1_0", "1.2.3.4 ", "１.1.1.1", "9" * 5_000])  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    """Nothing is read into a text that the C library refuses; digits of other scripts are not digits."""
    assert read_ipv4(text) is None


part = st.one_of(
    st.integers(0, 300).map(str), st.integers(0, 2**33).map(str), st.integers(0, 400).map(lambda n: f"0{n:o}"),
    st.integers(0, 2**33).map(hex), st.text("0123456789abcdefxX", max_size=6),
)  # fmt: skip


@given(st.lists(part, min_size=1, max_size=5).map(".".join))
def test_reads_as_inet_aton_does(text: str) -> None:
    """Where the C library finds an address, we find the same one; where it finds none, we find none."""
    try:
        theirs = socket.inet_aton(text)
    except OSError:
        theirs = None
    ours = read_ipv4(text)
    assert (ours.packed if ours else None) == theirs


def test_the_largest_numbers_are_read() -> None:
    """Each part of an address goes up to its last number, and an IPv6 address is as long as one can be."""
    for text, found in (
        ("255.255.255.255", "255.255.255.255"),
        ("255.1", "255.0.0.1"),
        ("1.255.65535", "1.255.255.255"),
    ):
        assert read_ipv4(text) == IPv4Address(found)
    longest = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255"
    assert read_ipv6(longest) == IPv6Address(2**128 - 1)
    assert read_ipv6("0" + longest) is None


def test_zones_and_other_texts_are_no_ipv6() -> None:
    """A zone names an interface of the host; the rest is not an address in any reading."""
    assert read_ipv6("::1") == IPv6Address("::1")
    for text in ("fe80::1%eth0", "::1%25lo", "::1]", "[::1]", "", "1::2::3", ":" * 100, "::１"):
        assert read_ipv6(text) is None


def test_an_allowance_is_exact() -> None:
    """A host, an address and a port that agree are let through; with one of them different nothing is."""
    guard = AddressGuard([Allowance("files.test", "10.0.0.5", 8080)])
    inside = ip_address("10.0.0.5")
    assert guard.why_not("files.test", inside, 8080) == ""
    assert guard.why_not("files.test", inside, 80)
    assert guard.why_not("other.test", inside, 8080)
    assert guard.why_not("files.test", ip_address("10.0.0.6"), 8080)
    assert guard.why_not("files.test", ip_address("::ffff:10.0.0.5"), 8080)
    assert AddressGuard().why_not("files.test", inside, 8080)
    assert AddressGuard().why_not("files.test", ip_address("8.8.8.8"), 80) == ""


@pytest.mark.parametrize("address", ["169.254.169.254", "fd00:ec2::254", "168.63.129.16", "::ffff:169.254.169.254"])
def test_a_metadata_service_cannot_be_allowed(address: str) -> None:
    """What hands out the machine's own credentials is out of reach even by the operator's mistake."""
    with pytest.raises(ConfigurationError, match="metadata"):
        AddressGuard([Allowance("x.test", address, 80)])
    with pytest.raises(ConfigurationError):
        AddressGuard([Allowance("x.test", "localhost", 80)])


@pytest.mark.parametrize("host", ["*", "*.test", "a b.test", "http://a.test", ""])
def test_an_allowance_names_one_host(host: str) -> None:
    """No pattern and no other text: what is let through is one name."""
    with pytest.raises(ConfigurationError, match="one host"):
        AddressGuard([Allowance(host, "10.0.0.5", 80)])


@pytest.mark.parametrize("port", [0, -1, 65_536, True])
def test_an_allowance_names_one_port(port: int) -> None:
    """That there is; a truth value is none, though it counts as 1."""
    with pytest.raises(ConfigurationError, match="1 to 65535"):
        AddressGuard([Allowance("a.test", "10.0.0.5", port)])


def test_the_first_and_the_last_port_can_be_allowed() -> None:
    """The control."""
    guard = AddressGuard([Allowance("a.test", "10.0.0.5", 1), Allowance("a.test", "10.0.0.5", 65_535)])
    assert guard.why_not("a.test", ip_address("10.0.0.5"), 1) == ""
    assert guard.why_not("a.test", ip_address("10.0.0.5"), 65_535) == ""


def test_where_an_allowed_name_is_asked() -> None:
    """At the addresses of its allowances in their order, each once; without one it is looked up."""
    guard = AddressGuard(
        [Allowance("a.test", text, 80) for text in ("10.0.0.5", "10.0.0.4", "10.0.0.5")]
        + [Allowance("A.test.", "10.0.0.3", 81)]
    )
    assert [str(one) for one in guard.pinned("a.test", 80)] == ["10.0.0.5", "10.0.0.4"]
    assert [str(one) for one in guard.pinned("a.test", 81)] == ["10.0.0.3"]
    assert guard.pinned("b.test", 80) == []

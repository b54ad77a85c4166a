"""
Names of hosts are brought into one form, and patterns take in exactly what they say.
"""

from __future__ import annotations

import socket
import sys
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness.capabilities._hosts import BadHost, Host, covers, host_of, matches, meet_patterns, pattern_of
from fastness.capabilities._net_scope import NetScope, exceeds, meet, risk

label = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=7).map(
    lambda text: text.strip("-") or "a"
)
name = st.lists(label, min_size=1, max_size=4).map(".".join).filter(lambda text: not text.rpartition(".")[2].isdigit())
name = name.filter(lambda text: not text.rpartition(".")[2].startswith("0x"))
pattern = st.one_of(name, name.map("*.{}".format), st.just("*"))


@pytest.mark.parametrize(("text", "expected"), [
    ("EXAMPLE.com", "example.com"), ("example.com.", "example.com"), ("bücher.example", "xn--bcher-kva.example"),
    ("BÜCHER.example", "xn--bcher-kva.example"), ("ｅｘａｍｐｌｅ.com", "example.com"), ("a。b．c", "a.b.c"),
    ("１２７.0.0.1", "127.0.0.1"), ("①②⑦.0.0.1", "127.0.0.1"), ("0x7f.1", "127.0.0.1"), ("127.1.", "127.0.0.1"),
    ("2130706433", "127.0.0.1"), ("[::1]", "::1"), ("[0:0:0:0:0:0:0:1]", "::1"), ("[::ffff:127.0.0.1]", "::ffff:7f00:1"),
    ("localhost", "localhost"), ("1.2.3.4.example", "1.2.3.4.example"), ("a--b.example", "a--b.example"),
])  # fmt: skip
def test_one_form(text: str, expected: str) -> None:
    """Every spelling of a host becomes the one that is judged, resolved and connected to."""
    found = host_of(text)
    assert found.name == expected or (found.address is not None and found.address == ip_address(expected))


@pytest.mark.parametrize("text", [
    "", ".", "..", "a..b", ".a", "a.b..", "-a.com", "a-.com", "a_b.com", "a b.com", "a\tb.com", "a\0b.com", "a\rb", "a\nb",
    "a%2eb", "a\\b", "a/b", "a@b", "a:b", "a#b", "a?b", "[::1", "::1", "[::1]x", "[::1%lo]", "[::1%25lo]", "[v1.x]", "[]", "[",
    "1.2.3.4.5", "256.1.1.1", "0x", "1.2.3.08", "example.1", "a" * 64, ".".join(["a" * 63] * 5), "a" * 5_000, "ü" * 5_000,
    "\u200b.com", "\ud800.com", "a\u202eb.com", "😀.com", "xn--\xfc.com",
])  # fmt: skip
def test_what_names_no_host(text: str) -> None:
    """Controls, characters that no name has, and names that programs read in different ways are refused."""
    with pytest.raises(BadHost):
        host_of(text)


def why(text: str) -> str:
    """Why it names no host; "" where it does."""
    try:
        host_of(text)
    except BadHost as error:
        return str(error)
    return ""


def test_how_long_a_host_may_be() -> None:
    """253 characters as it is asked for (RFC 1035), a dot at its end beside them; and 1,000 of text to read it from."""
    longest = ".".join(["a" * 63] * 3 + ["b" * 61])
    assert len(longest) == 253
    assert host_of(longest).name == host_of(longest + ".").name == longest
    assert "letters, digits and hyphens" in why(longest + "b")
    # What is mapped to nothing counts as text that is read.
    text = "a" + "\u00ad" * 994 + ".test"
    assert len(text) == 1_000
    assert host_of(text).name == "a.test"
    assert "too long" in why("\u00ad" + text)


def test_a_name_that_is_not_ascii_takes_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it such a name is refused, and one is told what is missing; others are read as ever."""
    monkeypatch.setitem(sys.modules, "idna", None)
    host_of.cache_clear()
    assert "takes fastness[net] to read" in why("bücher.example")
    assert host_of("a.example").name == "a.example"
    host_of.cache_clear()


@given(st.text(max_size=40))
def test_any_text_is_refused_or_plain(text: str) -> None:
    """Whatever comes in, what comes out is ASCII of letters, digits and hyphens, or an address; and stays as it is."""
    try:
        found = host_of(text)
    except BadHost:
        return
    assert found.name.isascii()
    assert found.name == found.name.lower()
    if found.address is None:
        assert set(found.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    assert host_of(found.in_url) == found


@given(st.text("0123456789abcdefxX.", min_size=1, max_size=20))
def test_nothing_that_the_c_library_takes_for_an_address_is_a_name(text: str) -> None:
    """A text that ``inet_aton`` reads is judged as that address, or refused; it never reaches a resolver as a name."""
    try:
        theirs = socket.inet_aton(text)
    except OSError:
        return
    try:
        found = host_of(text)
    except BadHost:
        return
    assert found.address is not None
    assert found.address.packed == theirs


# patterns


def test_patterns_mean_what_the_manual_says() -> None:
    """``*.example.com`` matches a.example.com, not example.com, and never example.com.evil.net."""
    wild = pattern_of("*.Example.com.")
    assert wild == "*.example.com"
    assert matches(wild, host_of("a.example.com"))
    assert matches(wild, host_of("a.b.example.com"))
    assert not matches(wild, host_of("example.com"))
    assert not matches(wild, host_of("example.com.evil.net"))
    assert not matches(wild, host_of("aexample.com"))
    assert not matches(wild, host_of("evil-example.com"))
    assert matches("example.com", host_of("EXAMPLE.com."))
    assert not matches("example.com", host_of("a.example.com"))
    assert matches(pattern_of("*.bücher.example"), host_of("a.bücher.example"))
    assert matches("*", host_of("anything.test"))
    assert matches("*", host_of("10.0.0.1"))  # and the guard refuses it
    assert matches(pattern_of("[2606:4700::1]"), host_of("[2606:4700:0::1]"))
    assert matches(pattern_of("2606:4700::1"), host_of("[2606:4700:0::1]"))


@pytest.mark.parametrize("text", ["", "*.", "**", "*.*", "a.*", "*a.com", "a*.com", "*.*.com", "?.com", "*.1.1.1.1", "*.[::1]", "*.0x7f.1",
                                  "http://a.com", "a.com/x", "a.com:80", "a.com\0", "*.a..b", "*\n"])  # fmt: skip
def test_what_is_no_pattern(text: str) -> None:
    """A wildcard stands in front of a whole label of a name, or alone."""
    with pytest.raises(BadHost):
        pattern_of(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("https://x.com/", "a URL"),
        ("x.com/y", "a URL"),
        ("localhost:80", "a port"),
        ("*.x.com:80", "a port"),
        ("::zz", "a colon"),
        ("1::2::3", "a colon"),
        ("[::zz]", "brackets"),
        ("a:" + "b" * 998, "a colon"),
        ("a:" + "b" * 999, "too long"),
        ("*.1.1.1.1", "a wildcard before an address"),
    ],
)
def test_why_a_text_is_no_pattern(text: str, words: str) -> None:
    """It is told of what was written, and not of what was made of it."""
    with pytest.raises(BadHost, match=words):
        pattern_of(text)


@given(name, name)
def test_a_wildcard_takes_in_what_ends_in_its_name(inner: str, outer: str) -> None:
    """For all names: below it yes, itself no, and no name that merely begins with it or has it glued on."""
    wild = f"*.{outer}"
    assert matches(wild, Host(f"{inner}.{outer}"))
    assert not matches(wild, Host(outer))
    assert not matches(wild, Host(f"{inner}{outer}")) or f"{inner}{outer}".endswith(f".{outer}")
    assert not matches(wild, Host(f"{outer}.{inner}")) or f"{outer}.{inner}".endswith(f".{outer}")


@given(st.lists(pattern, max_size=4), st.lists(pattern, max_size=4), name)
def test_what_two_lists_share(some: list[str], others: list[str], one: str) -> None:
    """The meeting of two lists takes in a host where both do, and no other."""
    met = meet_patterns(some, others)
    host = Host(one)
    for candidate in (host, *(Host(text.replace("*", "x").lstrip(".")) for text in (*some, *others))):
        both = any(matches(text, candidate) for text in some) and any(matches(text, candidate) for text in others)
        assert any(matches(text, candidate) for text in met) == both


@given(st.data(), name, label)
def test_covering_is_about_hosts(data: st.DataObject, outer: str, inner: str) -> None:
    """Where one pattern covers another, no host tells otherwise; where it does not, one host does."""
    names = [outer, f"{inner}.{outer}", f"{inner}{outer}", f"a.{inner}.{outer}"]
    patterns = [*names, f"*.{outer}", f"*.{inner}.{outer}", f"*.{inner}{outer}", "*"]
    wide, narrow = data.draw(st.sampled_from(patterns)), data.draw(st.sampled_from(patterns))
    hosts = [Host(text) for text in (*names, f"x.{outer}", f"x.{inner}.{outer}", f"x.{inner}{outer}", "q.w.e")]
    tells = any(matches(narrow, host) and not matches(wide, host) for host in hosts)
    assert covers(wide, narrow) == (not tells)


def test_what_is_glued_to_a_name_is_not_below_it() -> None:
    """Of two wildcards the wide one takes in the other where a dot stands between, and not where a name only ends alike."""
    assert covers("*.x.test", "*.y.x.test")
    assert not covers("*.x.test", "*.yx.test")
    assert not covers("*.x.test", "yx.test")
    assert not covers("*.y.x.test", "*.x.test")
    assert not covers("x.test", "y.x.test")
    assert not covers("*.x.test", "*")


# scopes


@given(st.builds(NetScope, schemes=st.just(("http", "https")), ports=st.just((80, 443))), st.lists(pattern, max_size=3))
def test_an_empty_list_allows_nothing(empty: NetScope, hosts: list[str]) -> None:
    """Whatever the other side has: with no host, no scheme or no port there is no scope left."""
    wide = NetScope(hosts=(*hosts, "*"), schemes=("http", "https"), ports=(80, 443))
    assert empty.hosts == ()
    assert meet(empty, wide) is None
    assert meet(wide, empty) is None
    assert meet(wide, NetScope(hosts=("*",), schemes=())) is None
    assert meet(wide, NetScope(hosts=("*",), ports=())) is None
    assert meet(wide, wide) == NetScope(hosts=("*",), schemes=("http", "https"), ports=(80, 443))


scope = st.builds(
    NetScope,
    hosts=st.lists(pattern, max_size=3).map(tuple),
    schemes=st.lists(st.sampled_from(["http", "https"]), unique=True).map(tuple),
    ports=st.lists(st.sampled_from([80, 443, 8080]), unique=True).map(tuple),
    secrets=st.lists(st.sampled_from(["a", "b"]), unique=True).map(tuple),
)


@given(scope, scope)
def test_a_meeting_exceeds_neither(asked: NetScope, allowed: NetScope) -> None:
    """What is granted is within what was asked and within what is allowed; where nothing is beyond, it is all of it."""
    both = meet(asked, allowed)
    if both is not None:
        assert exceeds(both, asked) == []
        assert exceeds(both, allowed) == []
    elif asked.hosts and asked.schemes and asked.ports:
        assert exceeds(asked, allowed)


@pytest.mark.parametrize("wrong", [
    {"hosts": ("http://a",)}, {"hosts": ("*a",)}, {"schemes": ("ftp",)}, {"ports": (0,)}, {"ports": (65536,)}, {"ports": (True,)},
    {"secrets": ("*",)}, {"secrets": ("a b",)}, {"hosts": ("a.test",) * 300},
])  # fmt: skip
def test_scopes_that_are_none(wrong: dict[str, tuple[str, ...]]) -> None:
    """A mistake in a scope is told where it is made."""
    with pytest.raises(ValueError):
        NetScope(**wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_words_for_the_owner() -> None:
    """What is new is listed thing by thing, and the risk names the worst: everywhere, http, credentials."""
    old = NetScope(hosts=("api.example.com",))
    new = NetScope(
        hosts=("*.example.com", "api.example.com"), schemes=("http", "https"), ports=(80, 443), secrets=("key",)
    )
    assert exceeds(new, old) == ["the host *.example.com", "the scheme http", "the port 80", "the credential 'key'"]
    assert exceeds(old, new) == []
    assert "any server on the internet" in risk(NetScope(hosts=("*",)))
    assert "read and change" in risk(new)
    assert "key" in risk(new)
    assert "may register" in risk(NetScope(hosts=("*.com",)))
    assert risk(NetScope()) == "It reaches nothing."

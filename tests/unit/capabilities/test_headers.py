"""
Header fields: what a guest may not say, and what it is not told.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness.capabilities._headers import BadHeader, checked, for_guest, kept_on_redirect

FORBIDDEN = (
    "Cookie", "cookie2", "Authorization", "AUTHORIZATION", "Proxy-Authorization", "Proxy-Connection", "proxy-x", "X-Forwarded-For",
    "X-Forwarded-Host", "x-forwarded-anything", "X_Forwarded_For", "x_forwarded-for", "Forwarded", "Host", "host", "Connection",
    "Keep-Alive", "TE", "Trailer", "Upgrade", "Transfer-Encoding", "Transfer_Encoding", "Content-Length", "content_length", "Expect",
    "Accept-Encoding", "Via", "X-Real-IP", "True-Client-IP", "X-HTTP-Method-Override", "X-Method-Override", "X-Original-URL",
    "X-Rewrite-URL", "Metadata-Flavor", "Metadata", "X-aws-ec2-metadata-token", "Sec-Fetch-Site", "Max-Forwards", "HTTP2-Settings",
)  # fmt: skip


@pytest.mark.parametrize("name", FORBIDDEN)
def test_fields_that_are_the_hosts(name: str) -> None:
    """Who asks, where a message ends, and what is asked for are said by the host alone, in every spelling of a name."""
    with pytest.raises(BadHeader, match=re.escape(name.lower())):
        checked({name: "x"})


@pytest.mark.parametrize("headers", [
    {"X-A": "1\r\nCookie: x"}, {"X-A": "1\nx"}, {"X-A": "1\rx"}, {"X-A": "\0"}, {"X-A": "\x7f"}, {"X-A": "é"}, {"X-A": " x"}, {"X-A": "x\t"},
    {"X-A": "\u2028"}, {"X A": "1"}, {"X-A:": "1"}, {"": "1"}, {"X-A\r\nHost": "b"}, {"X-Ä": "1"}, {"X-A\0": "1"}, {" Host": "b"}, {"Host ": "b"},
    {"X-A": "1", "x-a": "2"}, {"X-A": "1", "x_a": "2"}, {f"x-{n}": "" for n in range(65)}, {f"x-{n}": "y" * 8_000 for n in range(3)},
])  # fmt: skip
def test_fields_that_are_none(headers: dict[str, str]) -> None:
    """Ends of lines, controls, names that are none, doubles and floods do not get as far as a connection."""
    with pytest.raises(BadHeader):
        checked(headers)


def test_fields_of_the_guest() -> None:
    """Control: ordinary fields are taken as they are."""
    given_fields = {"Accept": "text/html", "X-Api-Version": "2", "If-None-Match": '"a b\tc"', "Empty": ""}
    assert checked(given_fields) == {name.lower(): value for name, value in given_fields.items()}


def test_how_many_fields_and_how_long() -> None:
    """64 of them, and 16 KiB as they are sent, each with its colon, space and line end: one more is refused."""
    fields = {f"x-{number}": "" for number in range(64)}
    assert checked(fields) == fields
    with pytest.raises(BadHeader, match="too many fields"):
        checked({**fields, "y": ""})
    # Two fields with names of 3 and 4 characters: 16,384 bytes with what stands around them.
    whole = {"x-a": "y" * 8_000, "x-bc": "z" * 8_369}
    assert sum(len(f"{name}: {value}\r\n") for name, value in whole.items()) == 16 << 10
    assert checked(whole) == whole
    for name, value in whole.items():
        with pytest.raises(BadHeader, match="too long together"):
            checked({**whole, name: value + "y"})


def test_fields_are_told_apart_by_what_gateways_read() -> None:
    """The second of two that are one to a gateway is named; a field that only begins like a forbidden one is not one."""
    with pytest.raises(BadHeader, match=r"^x_a twice$"):
        checked({"X-A": "1", "X_A": "2"})
    with pytest.raises(BadHeader, match=r"^x-a with a value that is not plain text$"):
        checked({"X-A": "é"})
    assert checked({"Hosts": "1", "X-Forward": "2", "Section": "3"}) == {"hosts": "1", "x-forward": "2", "section": "3"}


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=4))
def test_what_passes_makes_one_line(headers: dict[str, str]) -> None:
    """For any fields: what passes is a name and a value that no parser cuts in two."""
    try:
        passed = checked(headers)
    except BadHeader:
        return
    for name, value in passed.items():
        line = f"{name}: {value}".encode("ascii")
        assert line.splitlines() == [line]
        assert line.partition(b":")[0].decode() == name
        assert value == value.strip()


def test_what_goes_with_a_redirect() -> None:
    """To the same origin everything that is not about a body that stays; elsewhere only what proves nothing."""
    fields = {"accept": "*/*", "x-api-key": "k", "content-type": "text/plain", "if-match": "x"}
    assert kept_on_redirect(fields, same_origin=True, body=True) == fields
    assert kept_on_redirect(fields, same_origin=True, body=False) == {
        "accept": "*/*",
        "x-api-key": "k",
        "if-match": "x",
    }
    assert kept_on_redirect(fields, same_origin=False, body=True) == {"accept": "*/*", "content-type": "text/plain"}
    assert kept_on_redirect(fields, same_origin=False, body=False) == {"accept": "*/*"}


def test_what_a_guest_sees() -> None:
    """Repeated fields are joined, in order; cookies and words about the connection are not shown."""
    raw = [(b"X-A", b"1"), (b"Set-Cookie", b"s=1"), (b"x-a", b"2"), (b"SET-COOKIE2", b"s"), (b"Connection", b"close"),
           (b"Transfer-Encoding", b"chunked"), (b"Proxy-Authenticate", b"Basic"), (b"Content-Length", b"3"), (b"X-B", b"\xe9")]  # fmt: skip
    assert for_guest(raw) == {"x-a": "1, 2", "content-length": "3", "x-b": "é"}
    assert for_guest(raw, without=frozenset(("content-length",))) == {"x-a": "1, 2", "x-b": "é"}

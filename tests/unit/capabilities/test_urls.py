"""
A URL is read in one way or not at all, and stays what it is when it is read again.
"""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness.capabilities._urls import BadUrl, Url, follow, url_of


def naive_host(url: str) -> str | None:
    """The host as much code finds it: what stands between the slashes and the next slash."""
    found = re.match(r"https?://([^/?#]*)", url)
    return found[1].rpartition("@")[2].partition(":")[0] if found else None


@pytest.mark.parametrize(("text", "expected"), [
    ("http://a.test", "http://a.test/"), ("HTTP://A.Test:80", "http://a.test/"), ("https://a.test:443/x", "https://a.test/x"),
    ("https://a.test:80/x", "https://a.test:80/x"), ("http://a.test?q", "http://a.test/?q"), ("http://a.test/?", "http://a.test/?"),
    ("http://a.test/a/../b/./c/%2e%2E/d", "http://a.test/b/d"), ("http://a.test/../../x", "http://a.test/x"),
    ("http://a.test/x/..", "http://a.test/"), ("http://a.test/x/.", "http://a.test/x/"), ("http://a.test/%7Ea%2fb", "http://a.test/~a%2Fb"),
    ("http://a.test/x#frag?y", "http://a.test/x"), ("http://a.test/é?ü=[1]", "http://a.test/%C3%A9?%C3%BC=[1]"),
    ('http://a.test/"<>^`{|}', "http://a.test/%22%3C%3E%5E%60%7B%7C%7D"), ("http://[::1]:8080/", "http://[::1]:8080/"),
    ("http://[0:0::1]/", "http://[::1]/"), ("http://0x7f.1/", "http://127.0.0.1/"), ("http://a.test//x//y", "http://a.test//x//y"),
    ("http://a.test/x?a=/../b", "http://a.test/x?a=/../b"), ("http://a.test#@b.test/", "http://a.test/"),
])  # fmt: skip
def test_one_form(text: str, expected: str) -> None:
    """Case, default ports, dot segments, needless escapes and fragments make no difference to what is sent."""
    assert str(url_of(text)) == expected


def test_how_long_a_url_may_be() -> None:
    """8,192 characters of text, whatever is left of it: one more is refused, and the fragment counts."""
    text = "http://a.test:65535/" + "x" * 8_172
    assert len(text) == 8_192
    assert str(url_of(text)) == text
    for longer in (text + "x", "http://a.test/#" + "f" * 8_178):
        with pytest.raises(BadUrl, match="too long"):
            url_of(longer)


#: URLs that two parsers take to two hosts, ports or paths; none of them is read at all.
DISAGREED = (
    "http://good.test\\@evil.test/", "http://good.test\\.evil.test/", "http:\\\\evil.test\\", "http://evil.test\\/good.test",
    "http://good.test@evil.test/", "http://good.test:80@evil.test/", "http://good.test%2f@evil.test/", "http://@evil.test/",
    "http://a@good.test@evil.test/", "http://good.test:@evil.test", "http://evil.test:80:443/", "http://evil.test:/",
    "http://evil.test:0080/", "http://evil.test:+80/", "http://evil.test:-1/", "http://evil.test:0/", "http://evil.test:65536/",
    "http://evil.test:99999999999/", "http://evil.test:８０/", "http://evil.test:80x/", "http://evil.test:8_0/", "http://evil.test: 80/",
    "http://ev\til.test/", "ht\ntp://evil.test/", "http://evil.test/\r\nX: y", " http://evil.test/", "http://evil.test/ ", "http:// evil.test/",
    "http://evil.test\x00.good.test/", "http://evil.test\x1f/", "http://evil.test\x7f/", "http://evil.test\u00a0/", "http://evil.test/\u2028",
    "http://evil%2etest/", "http://%65vil.test/", "http://evil.test%00/", "http://[::1/", "http://::1/", "http://[::1]evil.test/",
    "http://evil.test[::1]/", "http://[::1]:80:80/", "http://[::1%25lo]/", "http://[::1%lo]/", "http://[v1.x]/", "http://[]/",
    "http:///evil.test/", "http:evil.test", "http:/evil.test", "http://", "http:///", "//evil.test/", "evil.test", "/x", "", "ftp://evil.test/",
    "file:///etc/passwd", "gopher://evil.test/", "javascript:x", "http+unix://x/", "https//evil.test", "http://evil..test/", "http://.evil.test/",
    "http://ev_il.test/", "http://evil.test/%", "http://evil.test/%g0", "http://evil.test/?%2", "http://evil.test/\ud800",
    "http://evil.test/" + "a" * 9_000, "http://evil.test。。/", "http://e\u00advil.test\\/",
)  # fmt: skip


@pytest.mark.parametrize("text", DISAGREED)
def test_what_parsers_disagree_about_is_refused(text: str) -> None:
    """No reading is chosen where another program might choose a different one."""
    with pytest.raises(BadUrl):
        url_of(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("http://u@a.test/", "a user name"), ("http://a.test:1:2/", "host or port cannot be read"), ("http://a.test:0/", "1 to 65535"),
        ("http://a.test:65536/", "1 to 65535"), ("http://a..test/", "letters, digits and hyphens"), ("ftp://a.test/", "http:// or https://"),
        ("http:///x", "without a host"), ("http:a", "without a host"), ("http://a.test/\\", "a backslash"), ("http://a.test/%", "a percent sign"),
        ("http://a.test/\ud800", "half a character"),
    ],
    ids=ascii,
)  # fmt: skip
def test_why_a_url_is_none(text: str, words: str) -> None:
    """Whoever wrote it is told which part of it is meant."""
    with pytest.raises(BadUrl, match=words):
        url_of(text)


def test_control_parsers_do_disagree() -> None:
    """Control: for these URLs the library's parser and a plain one see different hosts, so that a check is passed by."""
    for text in (
        "http://good.test\\@evil.test/",
        "http://evil.test\\.good.test/",
        "http://evil.test:80\\@good.test:80/",
    ):
        browser = naive_host(text.replace("\\", "/"))
        assert naive_host(text) != browser
        assert urlsplit(text).hostname != browser


pieces = st.lists(
    st.one_of(
        st.sampled_from(["http", "https", "://", ":", "/", "//", "\\", "@", "#", "?", "%", "%2e", "%2f", "..", ".", "[", "]", "::1",
                         "127.0.0.1", "0x7f", "a.test", "evil.test", "80", "\t", "\0", "\r\n", " ", "é", "。", "１"]),
        st.text(max_size=3),
    ),
    max_size=10,
).map("".join)  # fmt: skip


@given(
    st.one_of(
        pieces,
        pieces.map("http://{}".format),
        pieces.map("http://a.test/{}".format),
        pieces.map("http://a.test{}".format),
    )
)
def test_any_text_is_refused_or_fixed(text: str) -> None:
    """What is read is plain ASCII, is read again as itself, and other parsers read the same out of it."""
    try:
        url = url_of(text)
    except BadUrl:
        return
    written = str(url)
    assert re.fullmatch(r"[!-~]+", written)
    assert "\\" not in written
    assert "@" not in url.authority
    assert url_of(written) == url
    theirs = urlsplit(written)
    assert (theirs.scheme, theirs.hostname, theirs.port or {"http": 80, "https": 443}[url.scheme]) == (
        url.scheme,
        url.host.name,
        url.port,
    )
    assert naive_host(written) == url.host.name or url.host.in_url.startswith("[")
    assert theirs.path == url.path
    segments = re.sub("%2[eE]", ".", url.path).split("/")
    assert "." not in segments
    assert ".." not in segments


base = url_of("https://a.test:8443/x/y?q")


@pytest.mark.parametrize(("location", "expected"), [
    ("http://b.test/z", "http://b.test/z"), ("//b.test/z", "https://b.test/z"), ("/z", "https://a.test:8443/z"), ("z", "https://a.test:8443/x/z"),
    ("../z", "https://a.test:8443/z"), ("?r", "https://a.test:8443/x/y?r"), ("./", "https://a.test:8443/x/"), ("#f", "https://a.test:8443/x/y?q"),
    ("/z#f", "https://a.test:8443/z"), ("../../../z", "https://a.test:8443/z"), ("HTTPS://B.test:443", "https://b.test/"),
])  # fmt: skip
def test_locations(location: str, expected: str) -> None:
    """A location is seen from where it was given (RFC 3986, 5.2), as the library does it too."""
    assert str(follow(base, location)) == expected
    if location != "#f":
        assert str(url_of(urljoin(str(base), location))) == expected


@pytest.mark.parametrize("location", ["", "\\\\b.test", "/\\b.test", "\t//b.test", "ftp://b.test", "javascript:x", "data:,x", "http:b.test", "https:/b.test",
                                      "//u@b.test", "/a b", "x:y", "///b.test", "//", "/%zz"])  # fmt: skip
def test_locations_that_lead_nowhere(location: str) -> None:
    """A server's word is read as strictly as a guest's."""
    with pytest.raises(BadUrl):
        follow(base, location)


@given(pieces)
def test_any_location_is_refused_or_fixed(text: str) -> None:
    """The same for whatever a server sends."""
    try:
        url = follow(base, text)
    except BadUrl:
        return
    assert isinstance(url, Url)
    assert url_of(str(url)) == url

"""Addresses of mail and their patterns, where each bound lies, and what one pattern says beside another."""

from __future__ import annotations

import pytest

from fastness.capabilities._recipients import (
    BadRecipient,
    Recipient,
    covers,
    matches,
    meet_patterns,
    pattern_of,
    recipient_of,
)


def why(text: str) -> str:
    """Why it is no address; "" where it is one."""
    try:
        recipient_of(text)
    except BadRecipient as error:
        return str(error)
    return ""


def domain(length: int) -> str:
    """A name of so many characters."""
    labels = ["a" * 59] * (length // 60)
    rest = length - 60 * len(labels)
    return ".".join([*labels, "b" * rest] if rest else [*labels[:-1], "a" * 58 + "c"])


def test_how_long_an_address_may_be() -> None:
    """64 characters before the sign and 254 in all, as servers of mail take it (RFC 5321): one more is refused."""
    assert str(recipient_of("x" * 64 + "@a.test")) == "x" * 64 + "@a.test"
    assert "made of letters" in why("x" * 65 + "@a.test")
    longest = "ann@" + domain(250)
    assert (len(longest), why(longest)) == (254, "")
    assert "more than 254" in why("anna@" + domain(250))


def test_an_address_that_grows() -> None:
    """What is within the bound as it is written, and not as it is sent, is refused."""
    seven, eight = ("x" * 60 + "@" + ".".join(["ü" * 20] * number) for number in (7, 8))
    assert (len(seven), len(str(recipient_of(seven)))) == (207, 249)
    assert len(eight) == 228
    assert "more than 254" in why(eight)
    # Nor is more than that read, though it would come to less.
    assert "more than 254" in why("ann@x" + "\u00ad" * 250 + ".test")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ann", "without a domain"), ("", "without a domain"), ("a b@x.test", "made of letters"), ("@x.test", "made of letters"),
        ("ann@127.0.0.1", "a number"), ("ann@[::1]", "a number"), ("ann@x..test", "letters, digits and hyphens"), ("ann@", "no host"),
    ],
)  # fmt: skip
def test_why_a_text_is_no_address(text: str, words: str) -> None:
    """In words that say which part of it."""
    assert words in why(text)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("*", "*"), ("Ann@X.test.", "Ann@x.test"), ("X.test", "x.test"), ("*.X.test", "*.x.test"), ("bücher.test", "xn--bcher-kva.test"),
        ("*.bücher.test", "*.xn--bcher-kva.test"),
    ],
)  # fmt: skip
def test_a_pattern_has_one_form(text: str, pattern: str) -> None:
    """That in which it is compared."""
    assert pattern_of(text) == pattern


@pytest.mark.parametrize(
    "text",
    [
        "",
        "**",
        "*.",
        "*@x.test",
        "a*",
        "*.*.test",
        "1.2.3.4",
        "*.1.2.3.4",
        "@x.test",
        "ann@",
        "*.ann@x.test",
        "ann@*.test",
    ],
)
def test_what_is_no_pattern_of_addresses(text: str) -> None:
    """A star stands alone, or before the dot of a domain."""
    with pytest.raises(BadRecipient):
        pattern_of(text)


#: From the widest on, and which of the others each takes in beside itself.
COVERED = {
    "*": {"x.test", "*.x.test", "y.x.test", "ann@x.test", "bob@x.test", "ann@y.x.test"},
    "*.x.test": {"y.x.test", "ann@y.x.test"},
    "x.test": {"ann@x.test", "bob@x.test"},
    "y.x.test": {"ann@y.x.test"},
    "ann@x.test": set(),
    "bob@x.test": set(),
    "ann@y.x.test": set(),
}


@pytest.mark.parametrize("wide", COVERED)
def test_what_a_pattern_covers(wide: str) -> None:
    """Itself and what lies within it; an address takes in no domain, and nothing but ``*`` takes in everybody."""
    assert {narrow for narrow in COVERED if covers(wide, narrow)} == {wide, *COVERED[wide]}


def test_whom_a_pattern_takes_in() -> None:
    """An address whole, a domain without what is below it, what is below without the domain itself."""
    people = ("ann@x.test", "Ann@x.test", "ann@y.x.test", "ann@z.test")
    taken = {
        pattern: [person for person in people if matches(pattern, recipient_of(person))]
        for pattern in ("*", "ann@x.test", "x.test", "*.x.test")
    }
    assert taken == {
        "*": list(people),
        "ann@x.test": ["ann@x.test"],
        "x.test": ["ann@x.test", "Ann@x.test"],
        "*.x.test": ["ann@y.x.test"],
    }
    assert matches("x.test", Recipient("ann", "x.test"))


def test_what_two_lists_of_patterns_share() -> None:
    """The narrower of each two, once, and not what another of them says already."""
    assert meet_patterns(["*"], ["x.test", "ann@y.test"]) == ("x.test", "ann@y.test")
    assert meet_patterns(["x.test", "ann@y.test"], ["*"]) == ("x.test", "ann@y.test")
    assert meet_patterns(["x.test", "ann@x.test"], ["x.test"]) == ("x.test",)
    assert meet_patterns(["ann@x.test", "bob@x.test"], ["x.test", "ann@x.test"]) == ("ann@x.test", "bob@x.test")
    assert meet_patterns(["x.test"], ["y.test", "*.x.test"]) == ()
    assert meet_patterns([], ["*"]) == meet_patterns(["*"], []) == ()

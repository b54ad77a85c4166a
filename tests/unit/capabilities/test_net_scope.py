"""Scopes of ``net``: how much one may name, what two share, and the words in which an owner is told of them."""

from __future__ import annotations

from typing import Any

import pytest

from fastness.capabilities._net_scope import NetScope, exceeds, meet, risk

NAMES = tuple(f"a{number}.test" for number in range(256))


@pytest.mark.parametrize(
    ("field", "most"),
    [("hosts", NAMES), ("schemes", ("https",) * 256), ("ports", tuple(range(1, 257))), ("secrets", NAMES)],
)
def test_how_much_a_scope_may_name(field: str, most: tuple[Any, ...]) -> None:
    """256 of each, and an error that says which are too many."""
    NetScope(**{field: most})
    with pytest.raises(ValueError, match=f"^{field}: at most 256$"):
        NetScope(**{field: (*most, most[0])})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hosts": ("a b",)}, "hosts: .*; a name"), ({"schemes": ("ftp",)}, "schemes: http and https"),
        ({"schemes": ("https", "ws")}, "schemes"), ({"ports": (0,)}, "ports: 1 to 65535"), ({"ports": (65_536,)}, "ports"),
        ({"ports": (443, True)}, "ports"), ({"secrets": ("a", "*")}, "secrets: names"), ({"secrets": ("a" * 65,)}, "secrets"),
    ],
)  # fmt: skip
def test_what_a_scope_may_not_name(fields: dict[str, Any], words: str) -> None:
    """One thing that is wrong is enough, and it is said which."""
    with pytest.raises(ValueError, match=words):
        NetScope(**fields)


def test_what_a_scope_says_by_itself() -> None:
    """Nothing is reached; what is named is reached by https on its own port, under one spelling, once."""
    assert NetScope() == NetScope(hosts=(), schemes=("https",), ports=(443,), secrets=())
    assert NetScope(hosts=("A.test", "a.test.", "b.test")).hosts == ("a.test", "b.test")
    assert NetScope(ports=(1, 65_535)).ports == (1, 65_535)


WIDE = NetScope(hosts=("*",), schemes=("http", "https"), ports=(80, 443), secrets=("key", "pin"))


def test_what_two_scopes_share() -> None:
    """Of each list what is in both; where one of hosts, schemes and ports is empty, nothing."""
    asked = NetScope(hosts=("a.test",), ports=(443, 8443, 443), secrets=("pin", "other"))
    assert meet(asked, WIDE) == NetScope(hosts=("a.test",), secrets=("pin",))
    assert meet(WIDE, asked) == NetScope(hosts=("a.test",), secrets=("pin",))
    # No credential is no reason to reach nothing.
    assert meet(NetScope(hosts=("a.test",)), WIDE) == NetScope(hosts=("a.test",))
    for none in ({"hosts": ("b.test",)}, {"schemes": ("http",)}, {"ports": (80,)}):
        narrow = NetScope(**{"hosts": ("a.test",), **none})  # type: ignore[arg-type]  # each field with its own type
        assert meet(asked, narrow) is None


def test_what_one_scope_has_beyond_another() -> None:
    """Each thing by itself; what reaches nothing has nothing, whatever stands in it."""
    small = NetScope(hosts=("a.test", "*.b.test"))
    assert exceeds(small, WIDE) == exceeds(small, small) == []
    assert exceeds(NetScope(hosts=("x.b.test",)), small) == []
    assert exceeds(WIDE, small) == [
        "the host *", "the scheme http", "the port 80", "the credential 'key'", "the credential 'pin'",
    ]  # fmt: skip
    for none in ({"hosts": ()}, {"schemes": ()}, {"ports": ()}):
        fields = {"hosts": ("c.test",), "secrets": ("key",), **none}
        assert exceeds(NetScope(**fields), small) == []  # type: ignore[arg-type]  # as above


def test_the_worst_of_a_scope_in_words() -> None:
    """To whom, over what, as whom; of wildcards, whether anybody may come under them."""

    def told(**fields: Any) -> str:
        return risk(NetScope(**fields))

    plain = "It can send everything that it sees to {}, and fetch anything from there."
    assert told() == told(hosts=("a.test",), ports=()) == told(hosts=("a.test",), schemes=()) == "It reaches nothing."
    assert told(hosts=("a.test", "b.test")) == plain.format("a.test, b.test")
    assert told(hosts=("*", "a.test")) == plain.format("any server on the internet")
    registered = " One of these takes in names that anybody may register."
    assert told(hosts=("*.a.test",)) == plain.format("*.a.test")
    assert told(hosts=("*.test", "*.a.test")) == plain.format("*.test, *.a.test") + registered
    # A name with one dot is nobody's to register under.
    assert told(hosts=("a.test", "*.b.test")) == plain.format("a.test, *.b.test")
    assert told(hosts=("a.test",), schemes=("http",)) == (
        plain.format("a.test") + " Over http everybody in between can read and change it."
    )
    assert told(hosts=("a.test",), secrets=("key", "pin")) == (
        plain.format("a.test") + " It acts there with your credentials: key, pin."
    )

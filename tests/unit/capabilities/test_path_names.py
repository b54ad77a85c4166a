"""Paths of guests, as text: which names they are made of, where each bound lies, and why one is refused."""

from __future__ import annotations

import pytest

from fastness.capabilities._paths import LONGEST, RESERVED, addressable, parts_of, shown
from fastness.errors import Denied


def refused(path: str) -> str:
    """Why; "" where it is not."""
    try:
        parts_of(path)
    except Denied as error:
        assert error.target == shown(path)
        return str(getattr(error.code, "value", error.code))
    return ""


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("", ()), (".", ()), ("./", ()), (".//.", ()), ("a", ("a",)), ("a/", ("a",)), ("./a//b/./c/", ("a", "b", "c")), ("..a/b..", ("..a", "b..")),
        ("a b/ c", ("a b", " c")), ("ünï/漢", ("ünï", "漢")), ("100%/%zz", ("100%", "%zz")), ("a:b", ("a:b",)), ("ab:/x", ("ab:", "x")), ("C:x", ("C:x",)),
        ("a\u00a0b/👩\u200d💻", ("a\u00a0b", "👩\u200d💻")), (".fastness", (".fastness",)), ("x.fastness-y", ("x.fastness-y",)),
    ],
)  # fmt: skip
def test_names_of_a_path(path: str, parts: tuple[str, ...]) -> None:
    """From the root on, without what says nothing; names that only look odd are names."""
    assert parts_of(path) == parts
    assert all(addressable(part) for part in parts)


@pytest.mark.parametrize(
    "path",
    [
        "/", "/a", "C:", "C:/", "c:/a", "./C:/a", "a/C:/b", "a/c:", "a\\b", "a\0b", "%2e", "a%2Fb", "%252e", "%5c", "%00", "%c0%ae", "..", "a/..", "../a", "...", ".. ", " ..",
        "..\u00a0", "\uff0e\uff0e", "a\uff0fb", "\u2025", "a\uff3cb",
    ],
    ids=ascii,
)  # fmt: skip
def test_what_may_lead_elsewhere(path: str) -> None:
    """Each of these means another place to somebody."""
    assert refused(path) == "escape"


@pytest.mark.parametrize(
    "name", ["a\\b", "C:", "%2e", "a%2Fb", "..", "...", ".. ", "\uff0e\uff0e", "a\uff0fb", "a\uff3cb"], ids=ascii
)
def test_what_no_guest_is_shown(name: str) -> None:
    """A file may be called so, and none could be asked for."""
    assert not addressable(name)
    assert refused(f"a/{name}") == "escape"


@pytest.mark.parametrize(
    "name", ["a\nb", "\x1b", "\x7f", "a\x85b", "\ud800", "ä\udcff", ".fastness-", ".fastness-1"], ids=ascii
)
def test_what_is_no_name(name: str) -> None:
    """Control characters, what UTF-8 does not have, and names that are ours."""
    assert refused(name) == refused(f"a/{name}/b") == "unsupported"
    assert not addressable(name)
    assert RESERVED == ".fastness-"


def test_each_bound_is_where_it_is_said_to_be() -> None:
    """1024 characters in all, 255 bytes in a name, 64 names: those are taken, and one more is not."""
    assert LONGEST == 1024
    whole = ("x" * 255 + "/") * 4
    assert len(whole) == 1024
    assert (refused(whole), refused(whole + "/")) == ("", "too_large")
    assert (refused("x" * 255), refused("x" * 256)) == ("", "too_large")
    # Bytes, and not characters.
    assert (refused("ä" * 127), refused("ä" * 128)) == ("", "too_large")
    assert (refused("x/" * 64), refused("x/" * 65)) == ("", "too_large")


def test_a_path_on_record() -> None:
    """Up to 200 characters it stands there whole; a longer one is cut to 200, and one sees that it was."""
    assert shown("x" * 200) == "x" * 200
    assert shown("x" * 201) == "x" * 197 + "..."

"""Names in which a reader does not see all that there is are no names: owners, files, titles."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from fastness import unseen
from fastness.errors import ConfigurationError, ManifestError
from fastness.grant import check_owner
from fastness.manifest import parse
from fastness.plugins import package
from fastness.plugins.words import visible

HIDDEN = [
    "\u3164", "\ufe0f", "\u2800", "\u200b", "\ufeff", "\u00ad", "\u034f", "\u115f", "\uffa0", "\u180b", "\u2060", "\u202e", "\u2066",
    "\U000e0041", "\U000e0100", "\u00a0", "\x1b", "\n",
]  # fmt: skip


@pytest.mark.parametrize("letter", HIDDEN)
def test_nothing_unseen_is_part_of_a_name(letter: str, tmp_path: Path) -> None:
    """Each of them makes a second name that looks like the first."""
    assert unseen.first(f"a{letter}b") == letter
    with pytest.raises(ConfigurationError):
        check_owner(f"alice{letter}")
    with pytest.raises(ManifestError):
        parse({"id": "mine", "version": "1.0.0", "api": 1, "runtime": "data", "name": f"My{letter} plugin"}, {})
    (tmp_path / "plugin.toml").write_text('id="mine"\nversion="1.0.0"\napi=1\nruntime="data"\n')
    package.read(tmp_path)
    (tmp_path / f"a{letter}b.txt").write_text("x")
    with pytest.raises(ManifestError):
        package.read(tmp_path)
    shown = visible(f"a{letter}b")
    assert shown.isascii() and shown.isprintable() and shown != "ab"


@pytest.mark.parametrize(
    "owner",
    [
        "\u0430lice",
        "al\u0456ce",
        "ali\u03bfce",
        " alice",
        "alice ",
        "a" * 201,
        "",
        "e\u0301mile",
        "\uff41lice",
        "al\ufb01",
    ],
)
def test_owners_that_look_like_others(owner: str) -> None:
    """A letter of another script, a space that nobody sees, another way to write the same: one of two is refused."""
    with pytest.raises(ConfigurationError) as caught:
        check_owner(owner)
    # The message is to be read as well.
    assert str(caught.value).isascii()


@pytest.mark.parametrize(
    "owner", ["alice", "Ann Lee", "ann@a.example", "émile", "анна", "山田 太郎", "مريم", "a:b/c", "O'Hara"]
)
def test_owners_in_any_script(owner: str) -> None:
    """The control: names of people are names."""
    assert check_owner(owner) == owner


def test_the_list_has_what_unicode_ignores() -> None:
    """No format character that turns or joins text is left out, and no letter, digit or sign is in it."""
    drawn = set(range(0x600, 0x606)) | {0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    for code in range(0x20000):
        letter = chr(code)
        kind = unicodedata.category(letter)
        if kind == "Cf" and code not in drawn and not 0x13430 <= code < 0x13460:
            assert unseen.first(f"a{letter}") == letter, hex(code)
        if kind in ("Nd", "Lu", "Sc", "Po") and code != 0x2800:
            assert not unseen.is_unseen(letter), hex(code)

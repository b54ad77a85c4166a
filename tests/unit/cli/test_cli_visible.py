"""Guest text is made safe to show, whatever it is and however it is cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness.cli.visible import VisibleStream, one_line, visible
from fastness.unseen import is_unseen

_REORDER = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
_ACTING = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - {"\n", "\t"} | set(_REORDER)


def _through(*pieces: bytes) -> str:
    stream = VisibleStream()
    return "".join(stream.feed(piece) for piece in pieces) + stream.close()


@given(st.text())
def test_nothing_that_a_terminal_acts_on_is_left(text: str) -> None:
    """After `visible`, no control character but line feed and tab is in the text, and it is valid UTF-8."""
    shown = visible(text)
    assert not _ACTING & set(shown)
    shown.encode("utf-8")


#: Drawn as nothing, each in its own way.
HIDDEN = "\u3164\ufe0f\u2800\u200b\ufeff\u00ad\u034f\u115f\u17b4\u2060\u180e\U000e0041\U000e0100"


@pytest.mark.parametrize("letter", HIDDEN)
def test_what_is_drawn_as_nothing_is_written_out(letter: str) -> None:
    """In a name, a record or a log: two texts that differ look different."""
    for show in (visible, one_line, lambda text: _through(text.encode())):
        shown = show(f"alice{letter}")
        assert shown.isascii()
        assert shown.startswith("alice\\")
    assert one_line("天" + letter).isprintable()


@pytest.mark.parametrize("text", ["❤\ufe0f\u200d🔥", "می\u200cخواهم", "\u0915\u094d\u200d\u0937", "葛\U000e0100"])
def test_what_joins_letters_stays_in_a_text(text: str) -> None:
    """What a program prints in any script reads as it was meant; in one line, where it may be a name, it is written out."""
    assert visible(text) == text
    assert _through(text.encode()) == text
    assert not any(map(is_unseen, one_line(text)))


def test_no_more_than_two_joiners_stay() -> None:
    """A row of them hides nothing."""
    assert visible("❤" + "\ufe0f" * 5) == "❤" + "\ufe0f" * 2 + "\\ufe0f" * 3


@given(st.text(st.sampled_from("a1é天❤\u200d\ufe0f\u3164\x9b\r\n\U000e0100")), st.lists(st.integers(0, 60), max_size=6))
def test_cutting_between_joiners_changes_nothing(text: str, cuts: list[int]) -> None:
    """Whatever a piece ends in; and a stream shows what the whole text does."""
    data = text.encode()
    places = sorted({0, len(data), *(cut for cut in cuts if cut <= len(data))})
    assert _through(*(data[a:b] for a, b in itertools.pairwise(places))) == visible(text.replace("\r\n", "\n"))


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_cutting_a_stream_changes_nothing(data: bytes, cuts: list[int]) -> None:
    """A stream shows the same text however its bytes are cut into pieces."""
    places = sorted({0, len(data), *(cut for cut in cuts if cut <= len(data))})
    pieces = [data[start:end] for start, end in itertools.pairwise(places)]
    assert _through(*pieces) == _through(data)
    assert not _ACTING & set(_through(*pieces))


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain \xc3\xa9\n", "plain é\n"),
        (b"\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        (b"one\r\ntwo\r", "one\ntwo\\x0d"),
        (b"\xff\xfe", "\\xff\\xfe"),
        (b"half \xc3", "half \\xc3"),
        ("\u202e".encode(), "\\u202e"),
        (b"\xc2\x9b31m", "\\x9b31m"),
        (b"nul \x00", "nul \\x00"),
    ],
)
def test_examples(data: bytes, shown: str) -> None:
    """Ordinary text passes; the rest is written out."""
    assert _through(data) == shown


@given(st.text(max_size=2000), st.integers(3, 300))
def test_one_line_is_one_line_and_bounded(text: str, width: int) -> None:
    """A cell of a table can neither break the table nor grow past its width."""
    shown = one_line(text, width)
    assert len(shown) <= width
    assert "\n" not in shown
    assert "\t" not in shown

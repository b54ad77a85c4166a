"""What is kept of an output stream, whatever its pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fastness.runner.capture import HeadTail

_PIECES = st.lists(st.binary(max_size=40), max_size=30)


def kept(cap: int, pieces: list[bytes]) -> HeadTail:
    """A capture that has taken all pieces."""
    capture = HeadTail(cap)
    for piece in pieces:
        capture.add(piece)
    return capture


@given(_PIECES, st.integers(0, 100))
def test_head_and_tail(pieces: list[bytes], cap: int) -> None:
    """The first half and the last half of the cap are kept, all else is counted, and nothing is counted twice."""
    whole = b"".join(pieces)
    capture = kept(cap, pieces)
    if len(whole) <= cap:
        assert (capture.bytes(), capture.dropped) == (whole, 0)
        return
    head, tail = cap - cap // 2, cap // 2
    assert capture.dropped == len(whole) - cap
    note = b"\n[... %d bytes dropped ...]\n" % capture.dropped
    assert capture.bytes() == whole[:head] + note + whole[len(whole) - tail :]


@given(_PIECES, st.integers(0, 100))
def test_pieces_do_not_matter(pieces: list[bytes], cap: int) -> None:
    """However a stream is cut, the same is kept of it."""
    whole = b"".join(pieces)
    one = kept(cap, [whole])
    single = kept(cap, [whole[i : i + 1] for i in range(len(whole))])
    assert one.bytes() == kept(cap, pieces).bytes() == single.bytes()
    assert one.dropped == kept(cap, pieces).dropped == single.dropped


@given(st.integers(0, 64), st.lists(st.integers(0, 500), max_size=60))
def test_memory_is_bounded(cap: int, sizes: list[int]) -> None:
    """At no moment does a capture hold more than its cap, in bytes or in pieces of no bytes."""
    capture = HeadTail(cap)
    for size in sizes:
        capture.add(bytes(size))
        held = sum(map(len, capture._head)) + sum(map(len, capture._tail))
        assert held <= cap
        assert len(capture._tail) <= cap + 1


def test_asking_changes_nothing() -> None:
    """The bytes may be asked for while the stream goes on."""
    capture = kept(4, [b"abc", b"defg"])
    assert capture.bytes() == capture.bytes()
    capture.add(b"h")
    assert capture.bytes() == b"ab\n[... 4 bytes dropped ...]\ngh"

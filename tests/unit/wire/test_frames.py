"""Frames: what goes in comes out whatever the split, and caps hold before anything is stored."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastness
from fastness.wire import frames

FRAMES = st.builds(
    frames.Frame,
    st.sampled_from(sorted(frames.GUEST_TYPES)),
    st.binary(max_size=200),
    st.one_of(st.just(b""), st.binary(max_size=2000)),
)


def encode(frame: frames.Frame) -> bytes:
    return frames.encode(frame.type, frame.head, frame.blob)


def drain(parser: frames.FrameParser) -> list[frames.Frame]:
    out = []
    while (frame := parser.next()) is not None:
        out.append(frame)
    return out


@settings(deadline=None)
@given(st.lists(FRAMES, max_size=8), st.data())
def test_any_split_gives_the_same_frames(sent: list[frames.Frame], data: st.DataObject) -> None:
    """How the stream was cut into chunks makes no difference."""
    stream = b"".join(encode(frame) for frame in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    kind = data.draw(st.sampled_from([bytes, bytearray, memoryview]))
    parser = frames.FrameParser()
    got = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        parser.feed(kind(stream[start:end]))
        if data.draw(st.booleans()):
            got += drain(parser)
    got += drain(parser)
    assert got == sent
    assert parser.pending() == 0
    assert all(type(frame.head) is bytes and type(frame.blob) is bytes for frame in got)


@settings(deadline=None)
@given(st.lists(FRAMES, min_size=1, max_size=5))
def test_a_reader_that_takes_what_is_needed_never_holds_a_byte_of_the_next_frame(sent: list[frames.Frame]) -> None:
    """``needed`` is exact: the header first, then the body, then 0 with the frame complete."""
    stream = b"".join(encode(frame) for frame in sent)
    parser = frames.FrameParser()
    offset = 0
    got = []
    while offset < len(stream):
        assert parser.next() is None
        size = parser.needed()
        assert size > 0
        parser.feed(stream[offset : offset + size])
        offset += size
        if parser.pending() > frames.HEADER_SIZE or not parser.needed():
            frame = parser.next()
            if frame is not None:
                assert parser.pending() == 0
                got.append(frame)
    assert got == sent


def test_one_byte_at_a_time() -> None:
    """The slowest sender is understood too."""
    stream = encode(frames.Frame(frames.EVENT, b"{}", b"x" * 300)) * 3
    parser = frames.FrameParser()
    got = []
    for value in stream:
        parser.feed(bytes([value]))
        got += drain(parser)
    assert len(got) == 3


def test_buffers_are_the_frame() -> None:
    """The parts for ``sendmsg`` join to what ``encode`` gives."""
    parts = frames.encode_buffers(frames.RESULT, b"{}", [b"out", b"", b"err"])
    assert b"".join(parts) == frames.encode(frames.RESULT, b"{}", b"outerr")
    assert len(parts) == 3


def header(version: int = 1, kind: int = frames.EVENT, flags: int = 0, head: int = 2, blob: int = 0) -> bytes:
    return bytes([version, kind]) + flags.to_bytes(2) + head.to_bytes(4) + blob.to_bytes(4)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (header(version=0), "version"),
        (header(version=2), "version"),
        (header(kind=0), "type"),
        (header(kind=frames.INVOKE), "type"),
        (header(kind=0xFF), "type"),
        (header(flags=1), "flags"),
        (header(flags=0x8000), "flags"),
        (header(head=frames.GUEST_MAX_HEAD + 1), "head_size"),
        (header(head=2**32 - 1), "head_size"),
        (header(blob=frames.GUEST_MAX_BLOB + 1), "blob_size"),
        (header(head=2**32 - 1, blob=2**32 - 1), "head_size"),
    ],
)
def test_a_bad_header_breaks_the_stream_for_good(data: bytes, reason: str) -> None:
    """The reason is named at the header, and a later good frame does not mend it."""
    parser = frames.from_guest()
    parser.feed(data)
    with pytest.raises(frames.FrameError) as first:
        parser.next()
    assert first.value.reason == reason
    with pytest.raises(frames.FrameError):
        parser.feed(encode(frames.Frame(frames.EVENT, b"{}")))
    with pytest.raises(frames.FrameError):
        parser.next()
    assert parser.pending() == 0


def test_a_guest_cannot_speak_for_the_host() -> None:
    """Each direction has its own types, and together they are all."""
    assert not frames.HOST_TYPES & frames.GUEST_TYPES
    assert set(frames.NAMES) == frames.HOST_TYPES | frames.GUEST_TYPES
    parser = frames.from_host()
    parser.feed(encode(frames.Frame(frames.HELLO, b"{}")))
    with pytest.raises(frames.FrameError):
        parser.next()


@pytest.mark.parametrize("size", [0, 1, frames.GUEST_MAX_BLOB])
def test_caps_are_inclusive(size: int) -> None:
    """A blob of exactly the cap passes."""
    parser = frames.from_guest()
    parser.feed(frames.encode(frames.EVENT, b"{}", bytes(size)))
    frame = parser.next()
    assert frame is not None and len(frame.blob) == size


def test_an_announced_size_allocates_nothing() -> None:
    """Memory grows with the bytes that came, not with what a header promises."""
    tracemalloc.start()
    try:
        parser = frames.FrameParser(1 << 30, 1 << 30)
        parser.feed(header(head=1 << 30, blob=1 << 30))
        assert parser.next() is None
        parser.feed(b"x" * 100)
        assert parser.next() is None
        refused = frames.FrameParser()
        refused.feed(header(head=2**32 - 1, blob=2**32 - 1))
        with pytest.raises(frames.FrameError):
            refused.next()
        assert tracemalloc.get_traced_memory()[1] < 64 << 10
    finally:
        tracemalloc.stop()
    assert parser.needed() == (2 << 30) - 100


def test_the_engine_can_afford_the_import() -> None:
    """In an interpreter without site-packages, the module brings in ``struct`` and nothing else."""
    source = str(Path(fastness.__file__).parent.parent)
    program = (
        f"import sys; sys.path.insert(0, {source!r}); import fastness; before = set(sys.modules)\n"
        "import fastness.wire.frames; print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"fastness.wire", "fastness.wire.frames", "struct", "_struct", "__future__"}

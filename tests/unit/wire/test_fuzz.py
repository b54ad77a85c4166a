"""Whatever bytes a guest sends, the host's side ends in a message or in one kind of error."""

from __future__ import annotations

import contextlib
import tracemalloc
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import house
from fastness.errors import GuestProtocolError, HostProtocolError
from fastness.wire import frames, values
from fastness.wire import messages as m
from fastness.wire.payload import decode_payload
from fastness.wire.session import GuestSession, HostSession, State

FOLDER = Path(__file__).parents[2] / "wire" / "golden"
GOLDEN = [
    (line[0], bytes.fromhex(line[2:]))
    for path in sorted(FOLDER.glob("*.hex"))
    for line in path.read_text("utf-8").splitlines()
]
FROM_GUEST = [data for mark, data in GOLDEN if mark == "<"]
FROM_HOST = [data for mark, data in GOLDEN if mark == ">"]


@st.composite
def mutated(draw: st.DrawFn, pool: list[bytes]) -> bytes:
    """A few golden frames, with bytes changed, cut out, doubled or put in."""
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 3)):
            case 0 if at < len(data):
                data[at] = draw(st.integers(0, 255))
            case 1:
                del data[at : at + draw(st.integers(1, 20))]
            case 2:
                data[at:at] = data[at : at + draw(st.integers(1, 40))]
            case _:
                data[at:at] = draw(st.binary(max_size=8) | st.sampled_from([b"[" * 2000, b"9" * 400, b"\\ud800"]))
    return bytes(data)


def invoked() -> HostSession:
    host = HostSession()
    host.receive(m.encode(m.Hello(1, "fake")))
    host.next_message()
    host.send(m.Start("python"))
    host.receive(m.encode(m.Ready()))
    host.next_message()
    host.send(m.Invoke(id=1, op="run"))
    return host


@settings(deadline=None, max_examples=house.examples(400))
@given(st.binary(max_size=300) | mutated(FROM_GUEST), st.integers(1, 64))
def test_a_host_in_any_state_survives_any_bytes(data: bytes, step: int) -> None:
    """Random and mutated frames come out as messages or as GuestProtocolError, split as they may be."""
    for host in (HostSession(), invoked()):
        try:
            for start in range(0, len(data), step):
                host.receive(data[start : start + step])
                while host.next_message() is not None:
                    pass
        except GuestProtocolError:
            assert host.state is State.BROKEN
        assert host.parser.pending() <= len(data)
        host.eof()


@settings(deadline=None, max_examples=house.examples(200))
@given(st.binary(max_size=300) | mutated(FROM_HOST))
def test_a_guest_survives_any_bytes(data: bytes) -> None:
    """The fake's side is held to the same rule."""
    guest = GuestSession()
    guest.send(m.Hello(1, "fake"))
    try:
        guest.receive(data)
        while guest.next_message() is not None:
            pass
    except HostProtocolError:
        assert guest.state is State.BROKEN


@settings(deadline=None, max_examples=house.examples(400))
@given(mutated(FROM_GUEST))
def test_parser_and_decoder_alone(data: bytes) -> None:
    """Below the session only FrameError and ProtocolError come out."""
    parser = frames.from_guest()
    try:
        parser.feed(data)
        while (frame := parser.next()) is not None:
            try:
                message = m.decode(frame)
            except GuestProtocolError:
                continue
            if isinstance(message, m.Result):
                try:
                    decode_payload(frame.blob[message.stdout_len + message.stderr_len :])
                except GuestProtocolError:
                    continue
    except frames.FrameError:
        pass


def test_hostile_heads_take_little_memory() -> None:
    """The largest head that is taken costs a small multiple of its size, whatever is in it."""
    size = frames.GUEST_MAX_HEAD - 100
    heads = [
        b'{"images":[' + b'"",' * (size // 3) + b'""]}',
        b'{"id":1,"ending":"returned","deleted":[' + b'"a",' * (size // 4) + b'"a"]}',
        b'{"id":1,"ending":"returned","x":' + b"[" * size,
        b'{"id":1,"ending":"returned","trap":"' + b"\\u0001" * (size // 6) + b'"}',
    ]
    tracemalloc.start()
    try:
        for head in heads:
            for kind in (frames.READY, frames.RESULT):
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                with contextlib.suppress(GuestProtocolError):
                    m.decode(frames.Frame(kind, head))
                assert tracemalloc.get_traced_memory()[1] - before < 40 * size
    finally:
        tracemalloc.stop()


def test_hostile_payloads_take_bounded_memory() -> None:
    """A full blob of the shapes that grow most when decoded stays below a fixed bound."""
    size = frames.GUEST_MAX_BLOB - 100
    most = values.MAX_CONTAINERS - 10
    # The first are refused unread, the others are the most that is taken of their kind.
    bodies = [
        (b'{"a":0}', size),
        (b"[0]", size),
        (b'{"a":0}', most),
        (b'{"$":["float","nan"]}', most // 2),
        (b"0.5", size),
    ]
    tracemalloc.start()
    try:
        for body, count in bodies:
            fits = size // (len(body) + 1) - 10
            data = b'{"kind":"ok","value":[' + (body + b",") * min(count, fits) + b"0]}"
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with contextlib.suppress(GuestProtocolError):
                decode_payload(data)
            assert tracemalloc.get_traced_memory()[1] - before < 100 << 20
    finally:
        tracemalloc.stop()

"""Frames, messages, sessions and values, from either side of the channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fuzzing

from fastness.errors import GuestProtocolError, HostProtocolError, ProtocolError
from fastness.wire import frames, payload, values
from fastness.wire import messages as m
from fastness.wire.session import GuestSession, HostSession, State

GOLDEN = Path(__file__).resolve().parents[1] / "wire" / "golden"
#: Bytes of memory for an input: what decoders cost once, and a multiple of the input.
FIXED, MULTIPLE = 1 << 20, 400


def _fresh() -> HostSession:
    return HostSession()


def _invoked() -> HostSession:
    host = HostSession(calls_in_flight=3)
    host.receive(m.encode(m.Hello(1, "fake")))
    host.next_message()
    host.send(m.Start("python"))
    host.receive(m.encode(m.Ready()))
    host.next_message()
    host.send(m.Invoke(id=1, op="run"))
    return host


def _guest() -> GuestSession:
    guest = GuestSession()
    guest.send(m.Hello(1, "fake"))
    return guest


SIDES: tuple[Any, ...] = (_fresh, _invoked, _guest)


def talk(make: Any, stream: bytes, step: int) -> tuple[list[tuple[m.Message, bytes]], str]:
    """What a session makes of a stream that comes in pieces: its messages, and the error that ended it."""
    side = make()
    wanted = HostProtocolError if isinstance(side, GuestSession) else GuestProtocolError
    found: list[tuple[m.Message, bytes]] = []
    try:
        for start in range(0, len(stream), step):
            side.receive(stream[start : start + step])
            while (message := side.next_message()) is not None:
                found.append(message)
            if isinstance(side, HostSession) and side.paused:
                break
            assert side.needed() > 0
            assert side.parser.pending() <= len(stream)
    except ProtocolError as error:
        assert type(error) is wanted
        assert side.state is State.BROKEN
        assert side.parser.pending() == 0 or side.parser.pending() <= len(stream)
        for again in (lambda: side.receive(b"x"), side.next_message):
            try:
                again()
            except ProtocolError as repeated:
                assert str(repeated) == str(error)
            else:
                raise AssertionError("a broken session went on") from None
        assert not side.eof()
        str(error).encode()
        return found, str(error)
    return found, ""


def session(make: Any, step: int, stream: bytes) -> None:
    """However a stream is cut, the same comes out; and each message, written again, is read as itself."""
    with fuzzing.memory(FIXED + MULTIPLE * len(stream)):
        whole = talk(make, stream, max(1, len(stream)))
        assert talk(make, stream, step) == whole
    for message, blob in whole[0]:
        assert m.decode(frames.Frame(m.TYPE_OF[type(message)], m.encode_head(message), blob)) == message


def parser(stream: bytes) -> None:
    """Frames, written again, are the bytes that were read."""
    reader = frames.FrameParser()
    taken = b""
    try:
        reader.feed(stream)
        while (frame := reader.next()) is not None:
            taken += frames.encode(frame.type, frame.head, frame.blob, frame.flags)
            try:
                m.decode(frame)
            except ProtocolError as error:
                expected = HostProtocolError if frame.type in frames.HOST_TYPES else GuestProtocolError
                assert type(error) is expected  # which of the two it is, is looked at here
    except frames.FrameError:
        assert stream.startswith(taken)
        return
    assert stream.startswith(taken)
    assert len(taken) + reader.pending() == len(stream)


def value(data: bytes) -> None:
    """A value is refused, or written again and read as itself; the same of a guest's own answer."""
    with fuzzing.memory(FIXED + MULTIPLE * len(data)):
        try:
            found = values.decode(data)
        except GuestProtocolError:
            pass
        else:
            written = values.encode(found)
            assert values.encode(values.decode(written)) == written
        try:
            payload.decode_payload(data)
        except GuestProtocolError:
            pass
        assert len(payload.decode_claims(data)) <= m.ROWS_MAX


def one(data: bytes) -> None:
    source = fuzzing.Source(data)
    kind, step = source.below(5), 1 + source.byte()
    if kind < len(SIDES):
        session(SIDES[kind], step, source.rest())
    elif kind == 3:
        parser(source.rest())
    else:
        value(source.rest())


def seeds() -> list[bytes]:
    """The golden frames, each alone and all of a file in a row, and values of every kind."""
    found = []
    for path in sorted(GOLDEN.glob("*.hex")):
        lines = [line for line in path.read_text("utf-8").splitlines() if line]
        for line in lines:
            frame = bytes.fromhex(line[2:])
            found += [bytes((1 if line[0] == "<" else 2, 6)) + frame, bytes((3, 0)) + frame]
        for side, mark in ((0, "<"), (1, "<"), (2, ">")):
            row = b"".join(bytes.fromhex(line[2:]) for line in lines if line[0] == mark)
            found.append(bytes((side, 10)) + row)
    plain = (None, -0.0, float("nan"), 1 << 70, "\ud800", b"\0\xff", {"$": [1, {"a": "b"}]}, [[[]]])
    found += [b"\4\0" + values.encode(one) for one in plain]
    found.append(b'\4\0{"kind":"ok","value":{"$":["dict","$",1]},"claims":[{"operation":"open","target":"/x"}]}')
    found.append(b'\4\0["open","/x"]\n["open","/x"]\nnone')
    return [one for one in found if len(one) <= TARGET.most]


TARGET = fuzzing.Target(
    name="wire",
    says="any bytes are messages or one kind of error, however they are cut; what is read is written as it was read",
    one=one,
    seeds=seeds,
    words=(
        *(bytes((1, kind, 0, 0, 0, 0, 0)) for kind in sorted(frames.ALL_TYPES)),
        *(
            b'{"$":["',
            b"[[[[[[[[",
            b'"id":1',
            b'"ending":"returned"',
            b"\\ud800",
            b"9007199254740993",
            b"1e999",
            b"-0.0",
        ),
    ),
    most=4096,
)

"""
The thread between an engine's stream and a guest's channels: whatever comes, it ends, and says what was wrong.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness._container import parcel
from fastness.backends.container_pump import CONTROL, ERR, FILES, OUT, TALK, Pump


class World:
    """A pump with both its sides in our hands."""

    def __init__(self) -> None:
        self.engine, theirs = socket.socketpair()
        theirs.setblocking(False)
        self.talk, talk_end = socket.socketpair()
        talk_end.setblocking(False)
        self.engine.settimeout(10)
        self.talk.settimeout(10)
        (self.out, out), (self.err, err), (self.life, life) = (os.pipe2(os.O_CLOEXEC) for _ in range(3))
        for fd in (out, err, life):
            os.set_blocking(fd, False)
        self.pump = Pump(theirs, b"", talk_end, out, err, life)

    def close(self) -> None:
        self.pump.stop()
        self.engine.close()
        self.talk.close()
        for fd in (self.out, self.err, self.life):
            os.close(fd)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.pump.start(b"first")
    yield made
    made.close()


def piece(data: bytes, stream: int = 1) -> bytes:
    return struct.pack(">BxxxI", stream, len(data)) + data


def packet(channel: int, data: bytes) -> bytes:
    return piece(bytes((channel,)) + len(data).to_bytes(4, "big") + data)


def words(**said: object) -> bytes:
    return packet(CONTROL, json.dumps(said).encode())


def ended(world: World) -> bool:
    return world.pump.done.wait(10)


def test_each_channel_goes_where_it_belongs(world: World) -> None:
    assert world.engine.recv(5, socket.MSG_WAITALL) == b"first"
    world.engine.sendall(
        packet(OUT, b"out") + packet(ERR, b"err") + packet(TALK, b"talk") + words(ready=True, python="3")
    )
    assert world.pump.ready.wait(10)
    assert (os.read(world.out, 10), os.read(world.err, 10), world.talk.recv(10)) == (b"out", b"err", b"talk")
    world.talk.sendall(b"answer")
    assert world.engine.recv(11, socket.MSG_WAITALL) == bytes((TALK,)) + b"\0\0\0\x06answer"


def test_packets_that_come_in_bits(world: World) -> None:
    for byte in packet(OUT, b"abc") + words(ready=True):
        world.engine.sendall(bytes((byte,)))
    assert world.pump.ready.wait(10)
    assert os.read(world.out, 10) == b"abc"


def test_the_end_of_a_guest_closes_its_side_and_not_the_connection(world: World) -> None:
    world.engine.sendall(packet(OUT, b"last") + words(over=True, status=0, cpu=0.5, peak=7, oom=0))
    assert os.read(world.life, 1) == b""
    assert (os.read(world.out, 10), os.read(world.out, 10)) == (b"last", b"")
    assert world.talk.recv(10) == b""
    assert not world.pump.done.is_set()
    # What an ended guest still says is nobody's.
    world.engine.sendall(packet(TALK, b"more") + words(over=True, status=9))
    world.engine.sendall(words(done=True))
    assert world.pump.collected.wait(10)
    assert world.pump.over == {"over": True, "status": 0, "cpu": 0.5, "peak": 7, "oom": 0}


def test_files(world: World, tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    world.pump.collect(folder, 1 << 20, 10)
    data = b"".join(parcel.of_files([("a/b", b"content")]))
    world.engine.sendall(b"".join(packet(FILES, data[at : at + 3]) for at in range(0, len(data), 3)) + words(done=True))
    assert world.pump.collected.wait(10)
    assert world.pump.whole
    world.pump.uncollect()
    assert world.pump.whole
    os.close(folder)
    assert (tmp_path / "a" / "b").read_bytes() == b"content"


def test_files_that_are_none(world: World, tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    world.pump.collect(folder, 1 << 20, 10)
    world.engine.sendall(packet(FILES, b"\xff" * 100) + words(done=True))
    assert world.pump.collected.wait(10)
    assert not world.pump.whole
    assert world.pump.bad
    world.pump.uncollect()
    os.close(folder)
    assert list(tmp_path.iterdir()) == []


def test_files_that_nobody_asked_for(world: World) -> None:
    world.engine.sendall(packet(FILES, b"\0\0\0\0") + words(ready=True))
    assert world.pump.ready.wait(10)
    assert not world.pump.whole


@pytest.mark.parametrize(
    "data",
    [
        piece(b"\x07" + b"\0\0\0\x01x"),
        piece(b"\x01\xff\xff\xff\xff"),
        struct.pack(">BxxxI", 1, 0xFFFFFFFF),
        packet(CONTROL, b"not json"),
        packet(CONTROL, b"[1]"),
        packet(CONTROL, b"[" * 50_000),
        packet(CONTROL, json.dumps({"ready": "x" * 100_000}).encode()),
    ],
)
def test_what_is_no_packet_of_ours_ends_it(data: bytes, world: World) -> None:
    world.engine.sendall(data)
    assert ended(world)
    assert world.pump.bad
    assert os.read(world.life, 1) == b""


@given(st.lists(st.one_of(st.binary(max_size=50).map(piece), st.binary(max_size=40).map(lambda d: packet(CONTROL, d)),
    st.tuples(st.integers(0, 5), st.binary(max_size=40)).map(lambda t: packet(*t))), max_size=5))  # fmt: skip
def test_any_stream(pieces: list[bytes]) -> None:
    world = World()
    world.pump.start(b"")
    try:
        world.engine.sendall(b"".join(pieces))
    except OSError:
        pass
    world.engine.close()
    try:
        assert ended(world)
    finally:
        world.close()


def test_what_it_found_different_is_bounded(world: World) -> None:
    world.engine.sendall(words(refused=["x" * 1000] * 50))
    world.engine.shutdown(socket.SHUT_WR)
    assert ended(world)
    assert len(world.pump.refused) == 16
    assert all(len(one) <= 300 for one in world.pump.refused)
    assert not world.pump.facts


def test_nothing_is_said_to_be_different_after_it_was_ready(world: World) -> None:
    """By then it may be a guest's word."""
    world.engine.sendall(words(ready=True) + words(refused=["late"]))
    assert world.pump.ready.wait(10)
    world.engine.shutdown(socket.SHUT_WR)
    assert ended(world)
    assert world.pump.refused == []


def test_an_engine_that_does_not_answer_is_given_up(world: World) -> None:
    world.pump.say("kill")
    world.pump.give_up(0.2)
    assert ended(world)
    assert "did not answer" in world.pump.broken
    assert os.read(world.life, 1) == b""


def test_output_that_nobody_reads_is_not_taken_without_end(world: World) -> None:
    world.engine.settimeout(0.3)
    view = memoryview(packet(OUT, b"x" * 60_000) * 200)
    whole = len(view)
    try:
        while view:
            view = view[world.engine.send(view) :]
    except TimeoutError:
        pass
    assert whole - len(view) < 8 << 20
    assert not world.pump.bad

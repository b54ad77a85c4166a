"""Frames as a native guest takes them in, from a host that the test plays, in this interpreter."""

from __future__ import annotations

import json
import socket
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest

import house
from fastness.wire import frames

HERE = ("_fastness", "_fastness_native")


@pytest.fixture
def native() -> Iterator[Any]:
    """The module, with a conversation: ``native.host`` is the other end."""
    before = {name: sys.modules.get(name) for name in HERE}
    sys.modules["_fastness"] = types.SimpleNamespace(_finish=None)  # type: ignore[assignment]  # all that is asked of it
    made: Any = types.ModuleType("_fastness_native")
    text = (house.SOURCE / "fastness" / "guest" / "native.py").read_text()
    exec(compile(text, "<_fastness_native>", "exec"), made.__dict__)
    made.host, mine = socket.socketpair()
    made._talk.append(mine)
    yield made
    made.host.close()
    mine.close()
    for name, module in before.items():
        sys.modules.pop(name, None)
        if module is not None:
            sys.modules[name] = module


def reply(id: int, blob: bytes = b"1") -> bytes:
    return frames.encode(frames.REPLY, json.dumps({"id": id}).encode(), blob)


def ids(found: list[tuple[int, dict[str, Any], bytes]]) -> list[Any]:
    return [head.get("id") for _, head, _ in found]


def test_all_that_has_come_is_taken_in_together(native: Any) -> None:
    """What is left on the descriptor, or kept, is less than a frame."""
    native.host.sendall(reply(1) + reply(2, b"x" * 5000) + reply(3)[:-1])
    found = native._arrived()
    found += native._arrived() if len(found) == 1 else []
    assert ids(found) == [1, 2]
    assert found[1][2] == b"x" * 5000
    assert native._left[0] == reply(3)[:-1]
    native.host.sendall(reply(3)[-1:])
    assert ids(native._arrived()) == [3]
    assert native._left[0] == b""


@pytest.mark.parametrize("size", [13, 1000, 4096, 70_000])
def test_any_split_of_the_stream_will_do(size: int, native: Any) -> None:
    """Frames of all sizes, some larger than is read at a time."""
    blobs = [b"", b"a", b"b" * 4096, b"c" * 300_000, b"d" * 12]
    stream = b"".join(reply(number, blob) for number, blob in enumerate(blobs, 1))

    def send() -> None:
        for at in range(0, len(stream), size):
            native.host.sendall(stream[at : at + size])

    thread = threading.Thread(target=send)
    thread.start()
    found: list[Any] = []
    while len(found) < len(blobs):
        found += native._arrived()
    thread.join()
    assert [(kind, head["id"], blob) for kind, head, blob in found] == [
        (frames.REPLY, number, blob) for number, blob in enumerate(blobs, 1)
    ]


def test_frames_go_to_whom_they_are_for(native: Any) -> None:
    """A thread that waits for answers reads what the guest itself is told, and leaves it to it; and the other way."""
    invoke = frames.encode(frames.INVOKE, b'{"id": 9}')
    native.host.sendall(invoke + reply(1) + invoke)
    assert ids(native._heard(native._answered)) == [1]
    assert ids(native._heard(native._told)) == [9, 9]
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.extend(native._heard(native._told)))
    waiting.start()
    while not native._reading:
        pass
    other: list[Any] = []
    caller = threading.Thread(target=lambda: other.extend(native._heard(native._answered)))
    caller.start()
    while not native._others:
        pass
    native.host.sendall(reply(2))
    caller.join(10)
    assert ids(other) == [2]
    native.host.sendall(invoke)
    waiting.join(10)
    assert ids(found) == [9]

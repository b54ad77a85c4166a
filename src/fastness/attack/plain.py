"""
Containers that the engine itself is asked for, without this package's first process in them.

They are of the same image and have the limits of a guest's; whoever asks for one says what else is to be different.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from fastness._container import containers, image, spec
from fastness._container.deadline import Deadline
from fastness._container.faults import EngineFault
from fastness._container.probe import Engine, reach
from fastness.attack.model import Skip

ASK = spec.Ask(memory=128 << 20, work=1 << 20, files=100, pids=24, fds=128)
_ASKED_S = 30.0
_RUN_S = 20.0


def engine() -> Engine:
    """The engine of this machine.  Raises EngineFault."""
    return reach(os.environ)


def body(engine: Engine, code: str, *, name: str = image.DEFAULT, labels: Mapping[str, str] | None = None) -> Any:
    """What is sent for a container that runs this Python code.  Raises EngineFault, Skip where there is no image."""
    try:
        found = image.find(engine.client(), name, Deadline(_ASKED_S))
    except EngineFault as fault:
        if fault.kind != "absent":
            raise
        raise Skip(fault.cause) from None
    made = spec.body(engine, found, ASK, dict(labels or {}))
    return {**made, "Cmd": ["-I", "-S", "-c", code]}


@contextlib.contextmanager
def made(engine: Engine, *bodies: Any) -> Iterator[list[str]]:
    """Containers that were not started, by their ids, one for each of ``bodies``; none is left after the block."""
    names: list[str] = []
    try:
        for one in bodies:
            answer = engine.client().call("POST", "/containers/create", Deadline(_ASKED_S), body=one)
            names.append(answer.json()["Id"])
        yield names
    finally:
        for name in names:
            containers.remove(engine, name)


def start(engine: Engine, name: str) -> None:
    """Start one, and do not wait for what it does."""
    engine.client().call("POST", f"/containers/{name}/start", Deadline(_ASKED_S))


def is_there(engine: Engine, name: str) -> bool:
    """Whether the engine has such a container."""
    answer = engine.client().call("GET", f"/containers/{name}/json", Deadline(_ASKED_S), good=(404,))
    return answer.status != 404


@contextlib.contextmanager
def started(engine: Engine, body: Any) -> Iterator[tuple[str, Iterator[bytes]]]:
    """A container that runs: its id, and what it prints, in pieces, until it ends or was given up."""
    with made(engine, body) as (name,):
        sock, rest = engine.client().attach(f"/containers/{name}/attach", containers._ATTACH, Deadline(_ASKED_S))
        with sock:
            start(engine, name)
            sock.settimeout(_RUN_S)
            yield name, _printed(sock, rest)


def _printed(sock: Any, data: bytes) -> Iterator[bytes]:
    # A byte for the stream, three of nothing and a length stand before each piece.
    while True:
        while len(data) >= 8 and len(data) >= 8 + (size := struct.unpack(">I", data[4:8])[0]):
            yield data[8 : 8 + size]
            data = data[8 + size :]
        part = sock.recv(1 << 16)
        if not part:
            return
        data += part


def run(engine: Engine, body: Any) -> bytes:
    """All that a container prints until it ends.  Raises TimeoutError."""
    with started(engine, body) as (_, printed):
        return b"".join(printed)

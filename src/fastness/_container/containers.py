"""
The life of one container: made, looked at, joined, started, ended by force, and found again by whoever comes later.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import time
from typing import Any

from fastness._container import spec
from fastness._container.deadline import Deadline
from fastness._container.faults import EngineFault
from fastness._container.image import Image
from fastness._container.probe import Engine
from fastness._container.typed import as_list, as_table
from fastness._linux import procs

#: Seconds for making a container, and for ending one.
MAKE_S = 30.0
END_S = 10.0
_AGAIN_S = 0.1
#: Seconds after which a container that does not run is nobody's who is just making it or looking how it ended.
_REST_S = 600.0
_ATTACH = {"stream": "1", "stdin": "1", "stdout": "1", "stderr": "1"}
_BUSY = "give the engine less to do at once, or restart it"


class NotAsAsked(Exception):
    """The engine made something else than it was asked for; ``differences`` says what."""

    def __init__(self, differences: list[str]) -> None:
        self.differences = differences
        super().__init__("; ".join(differences))


@functools.cache
def _here() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read(64).strip()
    return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"


def owner() -> str:
    """This process by a name that no other has, before or after it: boot, process namespace, number, start."""
    return f"{_here()}.{os.getpid()}.{procs.start_time(os.getpid())}"


def is_dead(name: str) -> bool:
    """
    Whether the process of this name is known to have ended.

    Of another process namespace nothing is known.  That another boot's are gone is true of this machine's alone, so it
    is for who asks to know whose names they are.
    """
    parts = name.split(".")
    if len(parts) != 4 or not parts[2].isdecimal() or not parts[3].isdecimal():
        return False
    boot, namespace = _here().split(".")
    if parts[0] != boot:
        return True
    return parts[1] == namespace and procs.start_time(int(parts[2])) != int(parts[3])


def make(engine: Engine, image: Image, ask: spec.Ask, *, check: bool = True) -> tuple[str, socket.socket, bytes]:
    """
    A running container: its id, the connection to its first process, and what has come on that already.

    Raises EngineFault; NotAsAsked where ``check`` found a difference.  What was made by then is removed.
    """
    client = engine.client()
    deadline = Deadline(MAKE_S, "making a container")
    labels = {spec.OWNER_LABEL: owner()}
    body = spec.body(engine, image, ask, labels)
    answer = client.call("POST", "/containers/create", deadline, body=body).json()
    name = answer.get("Id") if isinstance(answer, dict) else None
    if not isinstance(name, str) or not (name.isalnum() and name.isascii()):
        raise EngineFault("broken", "the engine made a container and did not name it")
    sock = None
    try:
        if check:
            found = inspect(engine, name, deadline)
            if wrong := spec.differences(found, engine, image, ask):
                raise NotAsAsked(wrong)
        sock, rest = client.attach(f"/containers/{name}/attach", _ATTACH, deadline)
        client.call("POST", f"/containers/{name}/start", deadline)
    except BaseException as error:
        if sock is not None:
            sock.close()
        try:
            remove(engine, name)
        except EngineFault as fault:
            error.add_note(f"the container {name[:12]} could not be removed: {fault.cause}")
        raise
    return name, sock, rest


def inspect(engine: Engine, name: str, deadline: Deadline) -> dict[str, Any]:
    """What the engine says of a container.  Raises EngineFault."""
    found = engine.client().call("GET", f"/containers/{name}/json", deadline).json()
    if not isinstance(found, dict):
        raise EngineFault("broken", "the engine told nothing of the container")
    return found


def remove(engine: Engine, name: str, seconds: float = END_S) -> None:
    """End a container by force and remove it; one that is gone is fine.  Raises EngineFault."""
    deadline = Deadline(seconds, f"removing the container {name[:12]}")
    while True:
        try:
            # 409: somebody else is removing it just now.
            engine.client().call(
                "DELETE", f"/containers/{name}", deadline, query={"force": "1", "v": "1"}, good=(404, 409)
            )
        except EngineFault as fault:
            # An engine may trip over a container that is just ending by itself.
            if fault.status < 500 or deadline.ends - time.monotonic() < _AGAIN_S:
                raise
            time.sleep(_AGAIN_S)
        else:
            return


def ours(engine: Engine, seconds: float = END_S) -> dict[str, str]:
    """Every container that has our label: its id, and its owner's name.  Raises EngineFault."""
    return {name: who for name, who, _ in _labelled(engine, seconds)}


def _labelled(engine: Engine, seconds: float) -> list[tuple[str, str, bool]]:
    """Id, owner's name, and whether it has been at rest for long, of every container with our label."""
    query = {"all": "1", "filters": json.dumps({"label": [spec.OWNER_LABEL]})}
    rows = engine.client().call("GET", "/containers/json", Deadline(seconds), query=query).json()
    found = []
    for row in map(as_table, as_list(rows)):
        who = as_table(row.get("Labels")).get(spec.OWNER_LABEL)
        if isinstance(who, str) and isinstance(name := row.get("Id"), str) and name.isalnum() and name.isascii():
            made = row.get("Created")
            old = type(made) is int and time.time() - made > _REST_S
            found.append((name, who, old and row.get("State") in ("created", "exited", "dead")))
    return found


def sweep(engine: Engine, seconds: float = END_S) -> list[str]:
    """
    Remove what dead processes of this machine left; returns the ids.  Raises EngineFault.

    A label proves nothing: it may be an image's.  So what is removed must also be made as we make them.  Another boot
    may be another machine's, whose socket is forwarded here, so what it made is removed where it has long been at rest.
    Any number of processes may do this at once.
    """
    if not engine.endpoint.local:
        # Who made a container there may be of another machine, of which nothing is known here.
        return []
    gone = []
    for name, who, rests in _labelled(engine, seconds):
        if is_dead(who) and (rests or who.startswith(f"{_here().split('.')[0]}.")) and _is_ours(engine, name, seconds):
            remove(engine, name, seconds)
            gone.append(name)
    return gone


def _is_ours(engine: Engine, name: str, seconds: float) -> bool:
    try:
        return spec.is_ours(inspect(engine, name, Deadline(seconds)))
    except EngineFault as fault:
        if fault.kind == "status":
            # Gone, or going: somebody else removes it just now.
            return False
        raise

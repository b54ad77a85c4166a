"""
One container with a program instead of the supervisor: what each flag does, with it and without it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from fastness._container import containers, image, spec
from fastness._container.deadline import Deadline
from fastness._container.probe import Engine

Change = Callable[[dict[str, Any]], object]
ASK = spec.Ask(memory=160 << 20, work=8 << 20, files=100, pids=24, fds=128, cpus=0.5)


def run(
    engine: Engine, code: str, *changes: Change, name: str = image.DEFAULT, keep: Callable[[str], object] | None = None
) -> tuple[int, str]:
    """
    Exit code and output of Python code in a container with all flags but for ``changes`` to what the engine is asked.

    ``keep`` is called with the container's id before it is removed.
    """
    client = engine.client()
    found = image.find(client, name, Deadline(10))
    body = spec.body(engine, found, ASK, {})
    body["Cmd"] = ["-I", "-S", "-c", code]
    for change in changes:
        change(body)
    made = client.call("POST", "/containers/create", Deadline(30), body=body).json()["Id"]
    try:
        sock, data = client.attach(f"/containers/{made}/attach", containers._ATTACH, Deadline(30))
        with sock:
            client.call("POST", f"/containers/{made}/start", Deadline(30))
            sock.settimeout(60)
            while part := sock.recv(1 << 16):
                data += part
        state = {"Running": True}
        while state["Running"]:
            state = containers.inspect(engine, made, Deadline(30))["State"]
        if keep is not None:
            keep(made)
    finally:
        containers.remove(engine, made)
    output = b""
    while len(data) >= 8:
        size = struct.unpack(">I", data[4:8])[0]
        output += data[8 : 8 + size]
        data = data[8 + size :]
    return state["ExitCode"], output.decode("utf-8", "replace")


def host(**values: Any) -> Change:
    """Set, or with None leave out, what is in the host's part."""

    def change(body: dict[str, Any]) -> None:
        for key, value in values.items():
            if value is None:
                body["HostConfig"].pop(key, None)
            else:
                body["HostConfig"][key] = value

    return change


def as_root(body: dict[str, Any]) -> None:
    body["User"] = "0:0"


def without_security(prefix: str) -> Change:
    def change(body: dict[str, Any]) -> None:
        options = body["HostConfig"]["SecurityOpt"]
        body["HostConfig"]["SecurityOpt"] = [one for one in options if not one.startswith(prefix)]

    return change

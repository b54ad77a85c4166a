"""
An engine that is none: it answers like one, but for one part of one answer, and notes what it was asked to start.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import select
import socket
import threading
from collections.abc import Iterator
from typing import Any

from fastness._container import image, spec
from fastness.attack.doors import Door

#: One part of one answer, by its path, and what it is instead.
Twist = tuple[str, tuple[str, ...], Any]

_ID = "c0ffee" * 10 + "c0de"
_DIGEST = "5" * 64
#: By the end of a path.
_ANSWERS: dict[str, Any] = {
    "version": {"ApiVersion": "1.41", "MinAPIVersion": "1.12", "Version": "20.10", "Components": [{"Name": "Engine"}]},
    "info": {
        "Architecture": "x86_64", "OSType": "linux", "ID": "pretended", "CgroupVersion": "2", "CgroupDriver": "systemd",
        "SecurityOptions": ["name=seccomp,profile=default"], "MemoryLimit": True, "PidsLimit": True,
        "CpuCfsQuota": True, "Driver": "overlay2", "DefaultRuntime": "runc", "Runtimes": {"runc": {"path": "runc"}},
    },
    "image": {
        "Id": f"sha256:{_DIGEST}", "Size": 1 << 20, "RootFS": {"Layers": [f"sha256:{_DIGEST}"]},
        "Config": {"Env": ["A=b"], "Volumes": None, "Labels": {"fastness.image": "host", "fastness.guest": "x"}},
    },
    "images": [{"Id": f"sha256:{_DIGEST}", "Size": 1, "RepoTags": [image.DEFAULT], "Labels": {"fastness.image": "x"}}],
    "list": [{"Id": _ID, "Labels": {spec.OWNER_LABEL: "a.1.1.1"}, "Created": 1, "State": "exited"}],
    "create": {"Id": _ID, "Warnings": []},
}  # fmt: skip
_TOOK_S = 5.0


class Pretended(Door):
    """
    A Unix socket at ``path``.  ``twist`` is what is wrong with its answers now; ``started`` counts what it was asked to
    start, by the number of a twist in ``twists``.
    """

    def __init__(self, path: str, twists: list[Twist]) -> None:
        self.path = path
        self.twists = twists
        #: Which of them it answers with; none at first.
        self.now: int | None = None
        self.started: list[int | None] = []
        self._asked: dict[str, Any] = {}
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(path)
        self._socket.listen(64)
        self._over = threading.Event()
        self._attached: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, name="attack-engine", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._over.is_set():
            if select.select([self._socket], [], [], 0.02)[0]:
                connection, _ = self._socket.accept()
                with contextlib.suppress(OSError):
                    connection.settimeout(_TOOK_S)
                    self._talk(connection)
                connection.close()

    def _talk(self, connection: socket.socket) -> None:
        head, _, body = _until(connection, b"\r\n\r\n")
        method, path, _ = head.decode("latin-1").split(" ", 2)
        path = path.partition("?")[0]
        fields = dict(line.lower().split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:])
        while len(body) < int(fields.get("content-length", 0)):
            body += connection.recv(1 << 16)
        if path.endswith("/attach"):
            connection.sendall(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
            return
        connection.sendall(self._answer(method, path, body))

    def _answer(self, method: str, path: str, body: bytes) -> bytes:
        last = path.rsplit("/", 1)[-1]
        if path.startswith("/twist/"):
            # For a client that is a program of its own.
            self.now = int(last)
            return _http(b"")
        if last == "_ping":
            return _http(b"OK")
        if last == "start":
            self.started.append(self.now)
            return _http(b"", "204 No Content")
        if method == "DELETE":
            return _http(b"", "204 No Content")
        if last == "create":
            self._asked = json.loads(body)
        name = _name_of(path)
        answer = self._inspected() if name == "inspect" else copy.deepcopy(_ANSWERS.get(name, {}))
        return _http(json.dumps(self._twisted(name, answer)).encode())

    def _inspected(self) -> Any:
        """A container that is what was asked for."""
        config = {key: value for key, value in self._asked.items() if key != "HostConfig"}
        state = {"Running": True, "ExitCode": 0}
        return {
            "Id": _ID, "Image": f"sha256:{_DIGEST}", "Config": config, "HostConfig": self._asked.get("HostConfig"),
            "Mounts": [], "State": state,
        }  # fmt: skip

    def _twisted(self, name: str, answer: Any) -> Any:
        if self.now is None or self.twists[self.now][0] != name:
            return answer
        _, path, value = self.twists[self.now]
        if not path:
            return value
        place = answer[0] if isinstance(answer, list) else answer
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return answer

    def reached(self) -> bool:
        """Whether it was asked to start anything."""
        return bool(self.started)

    def close(self) -> None:
        """End it."""
        self._over.set()
        self._thread.join()
        self._socket.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


def _name_of(path: str) -> str:
    parts = [part for part in path.split("/") if part]
    if parts[-1] in ("version", "info", "create"):
        return parts[-1]
    if "images" in parts:
        return "images" if parts[-2:] == ["images", "json"] else "image"
    return "list" if parts[-2:] == ["containers", "json"] else "inspect"


def parts_of(name: str) -> Iterator[tuple[str, ...]]:
    """The paths of all parts of an answer, that of the whole first; of a list, those of its first entry."""
    yield ()
    answer = _ANSWERS[name]
    yield from _below(answer[0] if isinstance(answer, list) else answer, ())


def _below(found: Any, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, value in found.items() if isinstance(found, dict) else ():
        yield (*above, key)
        yield from _below(value, (*above, key))


def _until(connection: socket.socket, mark: bytes) -> tuple[bytes, bytes, bytes]:
    data = b""
    while mark not in data:
        part = connection.recv(1 << 16)
        if not part:
            raise OSError("it hung up")
        data += part
    return data.partition(mark)


def _http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body

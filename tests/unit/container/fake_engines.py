"""
Engines that are none: each listens on a socket of its own and is wrong in one way.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

VERSION = {"ApiVersion": "1.41", "MinAPIVersion": "1.12", "Version": "20.10", "Components": [{"Name": "Engine"}]}
INFO = {
    "Architecture": "x86_64", "OSType": "linux", "ID": "fake", "SecurityOptions": ["name=seccomp,profile=default"],
    "CgroupVersion": "1", "CgroupDriver": "cgroupfs", "MemoryLimit": True, "PidsLimit": True, "CpuCfsQuota": True,
    "Driver": "overlay2", "DefaultRuntime": "runc", "Runtimes": {"runc": {}},
}  # fmt: skip

Behave = Callable[[socket.socket, threading.Event], None]


def http(body: object, status: str = "200 OK", more: str = "") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\n{more}Content-Length: {len(data)}\r\n\r\n".encode() + data


def read_request(conn: socket.socket) -> tuple[str, str]:
    """Method and path of a request without a body."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = conn.recv(65536)
        if not part:
            raise OSError("hung up")
        data += part
    method, path, _ = data.split(b" ", 2)
    return method.decode(), path.decode()


def answering(answers: dict[str, bytes] | None = None, version: object = VERSION, info: object = INFO) -> Behave:
    """An engine that answers; ``answers`` replaces what it says to paths by their end."""

    def behave(conn: socket.socket, over: threading.Event) -> None:
        _, path = read_request(conn)
        for end, answer in (answers or {}).items():
            if path.partition("?")[0].endswith(end):
                conn.sendall(answer)
                return
        if path.endswith("/_ping"):
            conn.sendall(http(b"OK"))
        elif path.endswith("/version"):
            conn.sendall(http(version))
        elif path.endswith("/info"):
            conn.sendall(http(info))
        else:
            conn.sendall(http({"message": f"no such thing: {path}"}, "404 Not Found"))

    return behave


def mute(conn: socket.socket, over: threading.Event) -> None:
    over.wait()


def drip(conn: socket.socket, over: threading.Event) -> None:
    """A line of its head now and then, for ever."""
    read_request(conn)
    conn.sendall(b"HTTP/1.1 200 OK\r\n")
    while not over.wait(0.05):
        conn.sendall(b"X-A: b\r\n")


def drip_body(conn: socket.socket, over: threading.Event) -> None:
    read_request(conn)
    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while not over.wait(0.05):
        conn.sendall(b"x")


def half(conn: socket.socket, over: threading.Event) -> None:
    read_request(conn)
    conn.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"a":')
    over.wait()


def cut(conn: socket.socket, over: threading.Event) -> None:
    read_request(conn)
    conn.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"a":')


def ping_only(conn: socket.socket, over: threading.Event) -> None:
    """Answers what is cheap, and never what matters."""
    _, path = read_request(conn)
    if path.endswith("/info"):
        over.wait()
    conn.sendall(http(VERSION if path.endswith("/version") else b"OK"))


def saying(data: bytes) -> Behave:
    def behave(conn: socket.socket, over: threading.Event) -> None:
        read_request(conn)
        conn.sendall(data)

    return behave


@contextlib.contextmanager
def engine(behave: Behave, where: Path | tuple[str, int]) -> Iterator[socket.socket]:
    """Listen at a path, or at an address of loopback, and behave so to whoever connects."""
    listener = socket.socket(socket.AF_UNIX if isinstance(where, Path) else socket.AF_INET)
    listener.bind(str(where) if isinstance(where, Path) else where)
    listener.listen(64)
    over = threading.Event()
    threads: list[threading.Thread] = []
    open_ones: list[socket.socket] = []

    def serve(conn: socket.socket) -> None:
        with conn, contextlib.suppress(OSError):
            behave(conn, over)

    def accept() -> None:
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            open_ones.append(conn)
            thread = threading.Thread(target=serve, args=(conn,))
            thread.start()
            threads.append(thread)

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield listener
    finally:
        over.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for conn in open_ones:
            with contextlib.suppress(OSError):
                conn.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


@contextlib.contextmanager
def full(where: Path) -> Iterator[None]:
    """A listener whose queue is full and that never takes anybody."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(where))
    listener.listen(0)
    fill = []
    try:
        while True:
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            fill.append(one)
            try:
                one.connect(str(where))
            except BlockingIOError:
                break
        yield
    finally:
        for one in (*fill, listener):
            one.close()

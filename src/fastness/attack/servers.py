"""
Servers of HTTP on loopback, for attempts that go by the broker: what they answer is the attack's, what came is kept.
"""

from __future__ import annotations

import contextlib
import functools
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from fastness.attack.doors import Door

if TYPE_CHECKING:
    from fastness.attack.arena import Arena

Answer = Callable[[bytes], Iterable[bytes]]

#: Where what nobody outside may reach is served: an address of loopback that no guard of an attempt allows.
INSIDE = "127.0.0.2"


def answer(body: bytes, *fields: str, status: str = "200 OK") -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


def moved(where: str) -> bytes:
    """A redirect."""
    return answer(b"", f"Location: {where}", status="302 Found")


class Server(Door):
    """
    One server.  ``say`` is what it answers to a head of a request, in pieces; ``heads`` are those that came.

    ``sent`` is how many bytes of answers went; ``left_s`` how long the first client stayed, where it has gone.
    """

    def __init__(self, say: Answer, address: str, port: int) -> None:
        self.say = say
        self.heads: list[bytes] = []
        self.sent = 0
        self.left_s: float | None = None
        self._socket = socket.create_server((address, port), backlog=64)
        self.address = address
        self.port: int = self._socket.getsockname()[1]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="attack-server", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is, by its address."""
        return f"http://{self.address}:{self.port}"

    def text(self) -> str:
        """All heads."""
        return b"\n".join(self.heads).decode("latin-1")

    def _serve(self) -> None:
        while not self._over.is_set():
            if select.select([self._socket], [], [], 0.02)[0]:
                connection, _ = self._socket.accept()
                with connection, contextlib.suppress(OSError):
                    self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        connection.settimeout(2)
        began, data = time.monotonic(), b""
        while b"\r\n\r\n" not in data and len(data) < 1 << 20:
            part = connection.recv(1 << 16)
            if not part:
                return
            data += part
        self.heads.append(data)
        try:
            for piece in self.say(data):
                if self._over.is_set():
                    return
                connection.sendall(piece)
                self.sent += len(piece)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
        finally:
            if self.left_s is None:
                self.left_s = time.monotonic() - began

    def reached(self) -> bool:
        """Whether anybody came."""
        return bool(self.heads)

    def close(self) -> None:
        """End it."""
        self._over.set()
        self._thread.join()
        self._socket.close()


def serve(arena: Arena, say: bytes | Answer, *, address: str = "127.0.0.1", port: int = 0) -> Server:
    """A server for the time of this attempt; ``say`` is its answer, or makes one of each request."""
    made = Server((lambda _: [say]) if isinstance(say, bytes) else say, address, port)
    arena.keep(made)
    return made


def _none(_: bytes) -> list[bytes]:
    return []


def _says(say: Callable[[bytes, int], bytes], port: int, head: bytes) -> list[bytes]:
    return [say(head, port)]


def pair(arena: Arena, say: Callable[[bytes, int], bytes], inside: bytes) -> tuple[Server, Server]:
    """A server for everybody and one that only the inside may reach, at one port of two addresses."""
    for _ in range(20):
        public = Server(_none, "127.0.0.1", 0)
        try:
            hidden = Server(lambda _: [inside], INSIDE, public.port)
        except OSError:
            # Somebody else has that port.
            public.close()
            continue
        public.say = functools.partial(_says, say, public.port)
        arena.keep(public)
        arena.keep(hidden)
        return public, hidden
    raise OSError("no port is free at two addresses of loopback")

"""
Sockets of this machine that note whoever comes.
"""

from __future__ import annotations

import abc
import os
import select
import socket
import threading
import time

from fastness.attack.model import Effect
from fastness.attack.outside import Bare
from fastness.runs import RunResult

#: Seconds that a packet may take from one process of this machine to another.
_ARRIVAL_S = 0.3


class Door(abc.ABC):
    """What an attack knocks at."""

    @abc.abstractmethod
    def reached(self) -> bool:
        """Whether anybody came; waits a moment for what is still under way."""

    @abc.abstractmethod
    def close(self) -> None:
        """End it.  Idempotent."""

    def knocked(self, ran: RunResult | Bare) -> Effect:
        """Whether anybody came by the end of this program."""
        came = self.reached()
        result = ran if isinstance(ran, RunResult) else None
        return Effect(came, "somebody knocked" if came else "nobody knocked", result)


class LocalDoor(Door):
    """A Unix socket; ``kind`` is ``path`` or ``name``, which is that path without a file."""

    def __init__(self, path: str, kind: str) -> None:
        self.address = path if kind == "path" else "\0" + path
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.address)
        if kind == "path":
            os.chmod(path, 0o777)  # noqa: S103  # everybody may knock: what is under test is no mode of a file
        self._socket.listen(4)
        self._socket.settimeout(0.2)
        self._came: bool | None = None

    def reached(self) -> bool:
        """Whether anybody came."""
        if self._came is None:
            try:
                self._socket.accept()[0].close()
                self._came = True
            except TimeoutError:
                self._came = False
        return self._came

    def close(self) -> None:
        """End it."""
        self._socket.close()


class Listener(Door):
    """
    A TCP and a UDP socket on the loopback interface.

    ``port`` is the same for both; both answer, so that a client that waits for an answer goes on.
    """

    def __init__(self) -> None:
        for _ in range(20):
            self._tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._tcp.bind(("127.0.0.1", 0))
            self.port: int = self._tcp.getsockname()[1]
            self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                self._udp.bind(("127.0.0.1", self.port))
            except OSError:
                # Somebody else has the UDP port of this number.
                self._tcp.close()
                self._udp.close()
            else:
                break
        self._tcp.listen(16)
        self._came = threading.Event()
        self._stop_read, self._stop_write = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="attack-listener", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            ready, _, _ = select.select([self._tcp, self._udp, self._stop_read], [], [])
            if self._stop_read in ready:
                return
            self._came.set()
            if self._udp in ready:
                data, peer = self._udp.recvfrom(64)
                self._udp.sendto(data, peer)
            if self._tcp in ready:
                connection, _ = self._tcp.accept()
                with connection:
                    connection.settimeout(1)
                    try:
                        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")
                        connection.shutdown(socket.SHUT_WR)
                        while connection.recv(1024):
                            pass
                    except OSError:
                        pass

    def reached(self) -> bool:
        """Whether anybody came, to either."""
        end = time.monotonic() + _ARRIVAL_S
        return self._came.wait(max(0.0, end - time.monotonic()))

    def close(self) -> None:
        """End both."""
        if self._stop_write.fileno() >= 0:
            self._stop_write.close()
            self._thread.join()
            for each in (self._tcp, self._udp, self._stop_read):
                each.close()

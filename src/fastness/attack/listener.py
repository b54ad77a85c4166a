"""
A TCP and a UDP socket on the loopback interface that note whoever comes.
"""

from __future__ import annotations

import select
import socket
import threading
import time

#: Seconds that a packet may take from one process of this machine to another.
_ARRIVAL_S = 0.3


class Listener:
    """``port`` is the same for TCP and UDP; both answer, so that a client that waits for an answer goes on."""

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
        """Whether anybody came; waits a moment for what is still under way."""
        end = time.monotonic() + _ARRIVAL_S
        return self._came.wait(max(0.0, end - time.monotonic()))

    def close(self) -> None:
        """End it.  Idempotent."""
        if self._stop_write.fileno() >= 0:
            self._stop_write.close()
            self._thread.join()
            for each in (self._tcp, self._udp, self._stop_read):
                each.close()

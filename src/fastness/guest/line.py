"""
The connection of a container's first process with the host: packets in both directions, and nothing but these.

Its text is executed by the image's Python beside the supervisor's.
"""

from __future__ import annotations

import json
import os
import select
import time

#: What a packet is: words of this process and the host, the guest's conversation, its output, its files, its input.
CONTROL, TALK, OUT, ERR, FILES, STDIN = range(6)
PIECE = 1 << 16


class Ended(Exception):
    """There is nothing more to do."""


class Line:
    """Standard input and output as packets; what comes in is handed to :meth:`take`."""

    def __init__(self) -> None:
        self._out: list[bytes] = []
        self._held = bytearray()
        #: Bytes that wait to be taken by the host.
        self.queued = 0

    def tell(self, **fields: object) -> None:
        self.push(CONTROL, json.dumps(fields).encode())

    def push(self, channel: int, data: bytes) -> None:
        self._out.append(bytes((channel,)) + len(data).to_bytes(4, "big") + data)
        self.queued += len(data) + 5

    def flush(self, wait: float = 0.0) -> None:
        """Send what is queued; with ``wait`` all of it, for at most so many seconds.  Raises Ended."""
        end = time.monotonic() + wait
        while self._out:
            try:
                sent = os.write(1, self._out[0][:PIECE])
            except BlockingIOError:
                left = end - time.monotonic()
                if left <= 0:
                    if wait:
                        raise Ended from None
                    return
                poller = select.poll()
                poller.register(1, select.POLLOUT)
                poller.register(0, 0)
                for fd, what in poller.poll(left * 1000 + 1):
                    if fd == 0 and what & (select.POLLHUP | select.POLLERR):
                        raise Ended from None
                continue
            except OSError:
                raise Ended from None
            self.queued -= sent
            if sent == len(self._out[0]):
                self._out.pop(0)
            else:
                self._out[0] = self._out[0][sent:]

    def hear(self) -> None:
        """Take in what the host says.  Raises Ended at the end of it."""
        try:
            data = os.read(0, PIECE)
        except BlockingIOError:
            return
        if not data:
            raise Ended
        self._held += data
        while len(self._held) >= 5:
            size = int.from_bytes(self._held[1:5], "big")
            if len(self._held) < 5 + size:
                return
            channel, content = self._held[0], bytes(self._held[5 : 5 + size])
            del self._held[: 5 + size]
            self.take(channel, content)

    def take(self, channel: int, content: bytes) -> None:
        """One packet has come."""
        raise NotImplementedError


def say_broken(error: BaseException) -> None:
    """Tell the host what has gone wrong here, as the last word."""
    text = f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace").decode()[:500]
    data = json.dumps({"broken": text}).encode()
    try:
        os.set_blocking(1, True)
        os.write(1, bytes((CONTROL,)) + len(data).to_bytes(4, "big") + data)
    except OSError:
        pass

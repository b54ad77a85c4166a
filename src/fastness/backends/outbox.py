"""
Frames that wait for a guest to take them: nobody waits for one that does not read.
"""

from __future__ import annotations

import socket
from collections import deque

__all__ = ["Outbox"]


class Outbox:
    """The frames for the guest at the other end of ``talk``, which does not block."""

    def __init__(self, talk: socket.socket) -> None:
        self._talk = talk
        self._frames: deque[bytes] = deque()
        #: Bytes that the guest has not taken yet.
        self.size = 0
        #: Whether the guest has a part of the first frame.
        self._cut = False

    def post(self, frame: bytes) -> None:
        """Have a frame sent when the guest takes it; see :meth:`deliver`."""
        self._frames.append(frame)
        self.size += len(frame)

    def deliver(self) -> None:
        """Send what the guest takes now.  Raises ``OSError`` where it is gone."""
        while self._frames:
            first = self._frames[0]
            try:
                sent = self._talk.send(first)
            except BlockingIOError:
                return
            self.size -= sent
            self._cut = sent < len(first)
            if self._cut:
                self._frames[0] = first[sent:]
                return
            self._frames.popleft()

    def recall(self) -> None:
        """Take back what was posted, but for the rest of a frame of which the guest has a part."""
        first = [self._frames[0]] if self._cut else []
        self._frames = deque(first)
        self.size = sum(map(len, first))

    def take(self) -> bytes:
        """All that is left, for who sends it before anything else."""
        left = b"".join(self._frames)
        self._frames.clear()
        self.size, self._cut = 0, False
        return left

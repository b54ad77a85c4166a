"""
What is read of a guest's socket at a time.
"""

from __future__ import annotations

import socket

__all__ = ["Inbox"]

#: Bytes that are asked for at first, and where there were as many.
_SMALL, _LARGE = 1 << 13, 1 << 18


class Inbox:
    """Reads what has come at ``talk``, which does not block."""

    def __init__(self, talk: socket.socket) -> None:
        self._talk = talk
        self._size = _SMALL
        #: Whether there was less than was asked for, so that a further look would find nothing.
        self.dry = False

    def read(self) -> bytes:
        """Some of it; nothing at the end of the stream.  Raises BlockingIOError where nothing has come, and OSError."""
        # Plain recv: whatever descriptors a guest attaches are closed by the kernel.
        data = self._talk.recv(self._size)
        self.dry = len(data) < self._size
        # Memory for a large piece comes from the kernel each time, and its pages are dear.
        self._size = _SMALL if self.dry else _LARGE
        return data

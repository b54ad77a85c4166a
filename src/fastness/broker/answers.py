"""
Answers that wait for whoever holds a guest's channel, and the descriptor that tells of them.
"""

from __future__ import annotations

import os
import threading
from collections import deque

from fastness.brokered import Answer

__all__ = ["Answers"]


class Answers:
    """Any thread puts some in; one takes them out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: deque[Answer] = deque()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        #: Whether the descriptor is readable; where there are answers it is.
        self._rung = False
        self._closed = False

    def fileno(self) -> int:
        """Readable while there are answers to take."""
        return self._bell

    def put(self, answer: Answer) -> bool:
        """One more; False where nobody takes any more."""
        with self._lock:
            if self._closed:
                return False
            self._found.append(answer)
            if not self._rung:
                # In this order: who is told asks without the lock at first.
                self._rung = True
                os.eventfd_write(self._bell, 1)
        return True

    def take(self, *, again: bool) -> list[Answer]:
        """All that there are.  With ``again`` the descriptor stays readable after some, so that more is asked for."""
        if not self._rung:
            return []
        with self._lock:
            if self._closed:
                return []
            found = list(self._found)
            self._found.clear()
            if not (found and again):
                os.eventfd_read(self._bell)
                self._rung = False
        return found

    def close(self) -> None:
        """Nobody takes any more.  Idempotent."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._bell)

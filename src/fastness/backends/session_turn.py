"""
Who may use a session's guest: one execute at a time, and its closing, which may come while an execute is under way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from fastness.errors import BackendError, ConfigurationError

#: What an execute is told that was under way when its session was closed.
CLOSED = "the session was closed"


class Turn:
    """
    Gives out the guest of one session.  Any thread may ask.

    A guest goes back once: by who closes the session, or by the execute that was under way then.  What belongs to it is
    closed after that, so nobody waits on a descriptor whose number has become another's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy = False
        self.closed = False

    def take(self) -> None:
        """Begin an execute.  Raises BackendError, ConfigurationError."""
        with self._lock:
            if self.closed:
                raise BackendError("executing in a session", "the session is closed", "open a new one")
            if self._busy:
                raise ConfigurationError("session", "busy with another execute", "one execute at a time")
            self._busy = True

    def idly(self, look: Callable[[], None]) -> None:
        """Call ``look``, which is quick, where nobody uses the guest; who wants to waits for that."""
        with self._lock:
            if not self._busy and not self.closed:
                look()

    def leave(self) -> bool:
        """End an execute; True where the session was closed meanwhile, and the guest is this one's to give back."""
        with self._lock:
            self._busy = False
            return self.closed

    def close(self) -> bool:
        """True where the guest is the caller's to give back; False where that was done, or an execute will do it."""
        with self._lock:
            first, self.closed = not self.closed, True
            return first and not self._busy

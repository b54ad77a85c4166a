"""
The audit trail of this home: one writer for each process, whoever records.
"""

from __future__ import annotations

import atexit
import os
import threading

from fastness._wasi import home
from fastness.audit.log import AuditLog

__all__ = ["open_trail", "places"]

_lock = threading.Lock()
_logs: dict[tuple[str, str], AuditLog] = {}


def places() -> tuple[str, str]:
    """Paths of the database and of its key; neither need exist.  Raises ConfigurationError."""
    return home.place("data", "audit.db"), home.place("config", "audit.key")


def open_trail() -> AuditLog:
    """
    The trail of this home.  Nothing is written before the first record, and nobody need close it.

    Raises ConfigurationError or BackendError where its folders are not private to this user, or cannot be made.
    """
    found = (os.path.join(home.folder("data"), "audit.db"), os.path.join(home.folder("config"), "audit.key"))
    with _lock:
        log = _logs.get(found)
        if log is None:
            if not _logs:
                atexit.register(_close)
            log = _logs[found] = AuditLog(*found)
        return log


def _close() -> None:
    for log in _logs.values():
        log.close()
    _logs.clear()


def _in_child() -> None:
    # Another thread of the parent may have held it.
    global _lock  # noqa: PLW0603  # one place for the trails of a process
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_in_child)

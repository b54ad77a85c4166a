"""
What this process has done and told, and has still to write down: the ends of what went well.

That something begins is committed before it does.  Whoever waits for what came of it need not wait for the record of
its end too: that is written while they go on, on another thread, and at once where anything here reads what it would
be missing from.  A process that dies in between leaves what it began without an end, as one that dies a moment earlier
does.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable

__all__ = ["owe", "settle"]

_owed: deque[tuple[int, Callable[[], object]]] = deque()
#: Not empty while something that is off the list is not done yet.
_busy: list[bool] = []
#: Held by whoever writes: others that must not miss it wait until it is there.
_lock = threading.RLock()


def owe(work: Callable[[], object]) -> None:
    """Have ``work`` called by the next that settles.  It raises nothing."""
    _owed.append((os.getpid(), work))


def settle() -> None:
    """Return once all that was owed by now is done.  Any thread that holds no lock of what is written to."""
    if not _owed and not _busy:
        return
    with _lock:
        while _owed:
            _busy.append(True)
            try:
                pid, work = _owed.popleft()
                # What a parent owes is the parent's to write.
                if pid == os.getpid():
                    work()
            finally:
                _busy.pop()


def _in_child() -> None:
    global _lock  # noqa: PLW0603  # another thread of the parent may have held it
    _lock = threading.RLock()
    _owed.clear()
    _busy.clear()


os.register_at_fork(after_in_child=_in_child)
atexit.register(settle)

"""
What this process has done and told, and has still to write down: the ends of what went well.

That something begins is committed before it does.  Whoever waits for what came of it need not wait for the record of
its end too: that is written some milliseconds later, on another thread, and at once where anything here reads what it
would be missing from.  A process that dies in between leaves what it began without an end, as one that dies a moment
earlier does.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable

__all__ = ["owe", "settle"]

#: Seconds between two looks of the thread that writes.  One that was woken for it would have the interpreter to itself
#: while whoever owes is about to return.
_LOOK_S = 0.002
#: Looks that find nothing, after which it waits until it is woken.
_LOOKS = 25

_owed: deque[tuple[int, Callable[[], object]]] = deque()
#: Not empty while something that is off the list is not done yet.
_busy: list[bool] = []
#: Held by whoever writes: others that must not miss it wait until it is there.
_lock = threading.RLock()


class _Writer:
    """The thread that writes what nobody has asked for."""

    def __init__(self) -> None:
        self.bell = threading.Event()
        #: Whether it waits to be woken.
        self.rests = False
        threading.Thread(target=self._serve, name="fastness-owed", daemon=True).start()

    def _serve(self) -> None:
        while True:
            idle = 0
            while idle < _LOOKS:
                time.sleep(_LOOK_S)
                idle = 0 if _owed else idle + 1
                settle()
            self.rests = True
            # Whoever owes looks at that after its own is on the list.
            if not _owed:
                self.bell.wait()
            self.rests = False
            self.bell.clear()


#: The one of this process, once there is one.
_writers: list[_Writer] = []


def owe(work: Callable[[], object]) -> None:
    """Have ``work`` called soon, or by the next that settles.  It raises nothing."""
    _owed.append((os.getpid(), work))
    try:
        writer = _writers[0] if _writers else _started()
    except RuntimeError:
        # No thread can be started: at the end of the interpreter, or at the user's limit.
        settle()
        return
    if writer.rests:
        writer.bell.set()


def _started() -> _Writer:
    with _lock:
        if not _writers:
            _writers.append(_Writer())
        return _writers[0]


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
    # Threads are not inherited.
    _writers.clear()
    _owed.clear()
    _busy.clear()


os.register_at_fork(after_in_child=_in_child)
atexit.register(settle)

"""
Interrupts (Ctrl-C) that wait until what must not be broken off is done.

Python raises them between any two instructions of the main thread (``signal(7)``, and the module ``signal``), in a
``finally`` too: what was begun would then be on record and its end would not.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # typeshed has none
import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Interrupts"]

# As the module signal's, without looking whether what is given and found is a member of its enumerations, which takes
# ten times as long.  A handler that is no function is a number here.
_INTERRUPT = int(signal.SIGINT)
_set, _get = _signal.signal, _signal.getsignal


class Interrupts:
    """
    A block in which an interrupt is noted, and raised when the block ends; in :meth:`let` it is raised as ever.

    It does nothing in other threads than the main one, and where interrupts are ignored or end the process.
    """

    def __init__(self) -> None:
        self._handler: Any = None
        self._came = 0

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            handler = _get(_INTERRUPT)
            if callable(handler):
                self._handler = handler
                _set(_INTERRUPT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._as_ever()

    @contextlib.contextmanager
    def let(self) -> Iterator[None]:
        """Those that came are raised here, and those that come while the block goes on."""
        if self._handler is None:
            yield
            return
        try:
            self._as_ever()
            yield
        finally:
            _set(_INTERRUPT, self._note)

    def _as_ever(self) -> None:
        if self._handler is None:
            return
        _set(_INTERRUPT, self._handler)
        came, self._came = self._came, 0
        if came:
            self._handler(_INTERRUPT, None)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came += 1

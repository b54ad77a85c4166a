"""
Folders of one run on this side: what is sent into a container, and what has come out of it.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from fastness.runtime import remove_tree

if TYPE_CHECKING:
    from fastness.backends.container_pump import Pump

#: Seconds between two looks at whether files still come.
_STEP_S = 0.5


def wait_for_files(pump: Pump, quiet: float, most: float) -> None:
    """Block until all files have come, or none came for ``quiet`` seconds, or ``most`` seconds are over."""
    now = since = time.monotonic()
    end, seen = now + most, pump.received
    while not pump.collected.wait(min(quiet, _STEP_S)):
        now = time.monotonic()
        if pump.received != seen:
            seen, since = pump.received, now
        if now >= end or now - since >= quiet:
            return


class Scratch:
    """Folders of one run on this side, made when they are needed and removed at its end."""

    def __init__(self, above: str, name: str) -> None:
        self._path = os.path.join(above, name)
        self._open: list[int] = []

    def make(self, name: str) -> int:
        """An empty folder, opened."""
        path = os.path.join(self._path, name)
        os.makedirs(path, 0o700)
        self._open.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        return self._open[-1]

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *exc: object) -> None:
        for fd in self._open:
            os.close(fd)
        if self._open:
            with contextlib.suppress(OSError):
                remove_tree(self._path)

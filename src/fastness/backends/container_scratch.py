"""
Folders of one run on this side: what is sent into a container, and what has come out of it.
"""

from __future__ import annotations

import contextlib
import os

from fastness.runtime import remove_tree


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

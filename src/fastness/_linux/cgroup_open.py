"""
Files of slots that stay open between runs, for to open one takes longer than what it is opened for.

Never one that lists processes: the kernel gives out lists that are a second old (version 1).
"""

from __future__ import annotations

import os

from fastness._linux.cgroup_files import counted, counter

#: Slots of this process whose files stay open: those of runs that follow one another, some of which are not over yet.
#: Each has five at most, and a process may not have many.
_MOST = 16
_PIECE = 1 << 12
_staying: set[OpenFiles] = set()


class OpenFiles:
    """Those of one slot, used by one thread at a time."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, str], int] = {}

    def writable(self, folder: str, name: str) -> int:
        """A descriptor to write to a file by, open until :meth:`spare` or :meth:`close`.  Raises ``OSError``."""
        return self._open(folder, name, os.O_WRONLY)

    def counter(self, folder: str, name: str, key: str = "") -> int | None:
        """As :func:`fastness._linux.cgroup_files.counter`."""
        if self not in _staying:
            return counter(folder, name, key)
        try:
            text = os.pread(self._open(folder, name, os.O_RDONLY), _PIECE, 0)
        except OSError:
            return None
        return counted(text.decode("ascii", "replace").strip(), key)

    def _open(self, folder: str, name: str, how: int) -> int:
        fd = self._files.get((folder, name))
        if fd is None:
            fd = self._files[folder, name] = os.open(f"{folder}/{name}", how | os.O_CLOEXEC)
        return fd

    def spare(self) -> None:
        """Close what is open, unless this is one of the few where it stays."""
        if self in _staying:
            return
        if len(_staying) < _MOST:
            # Two threads may make it one more, which does not matter.
            _staying.add(self)
        else:
            self.close()

    def close(self) -> None:
        """Close what is open."""
        _staying.discard(self)
        while self._files:
            os.close(self._files.popitem()[1])

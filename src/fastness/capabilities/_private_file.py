"""
Files of the operator's that nobody else may read, read again when they change.
"""

from __future__ import annotations

import os
import stat

from fastness.errors import ConfigurationError

__all__ = ["PrivateFile"]

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class PrivateFile:
    """The file ``path`` of at most ``longest`` bytes; ``field`` is what errors call it."""

    def __init__(self, path: str, field: str, longest: int = 1 << 20) -> None:
        self.path = path
        self._field = field
        self._longest = longest
        self._seen: tuple[int, ...] = ()
        #: What tells the file that was read last from what it is later.
        self.mark: tuple[int, ...] = ()

    def read(self) -> bytes | None:
        """
        Its bytes, or None where they are those that were :meth:`kept`.

        Raises ConfigurationError, in a text that quotes nothing of it, where it cannot be used.
        """
        try:
            handle = os.open(self.path, _READ)
        except OSError as error:
            raise self.wrong(f"a file that can be read ({error.strerror})") from None
        try:
            status = os.fstat(handle)
            self.mark = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if not stat.S_ISREG(status.st_mode) or status.st_uid not in (os.geteuid(), 0):
                raise self.wrong("a regular file of this user's or of root's")
            if status.st_mode & 0o077:
                raise self.wrong("a file that nobody else can read or write: chmod 600")
            if self.mark == self._seen:
                return None
            with os.fdopen(os.dup(handle), "rb") as file:
                data = file.read(self._longest + 1)
        finally:
            os.close(handle)
        if len(data) > self._longest:
            raise self.wrong(f"at most {self._longest} bytes")
        return data

    def kept(self, mark: tuple[int, ...]) -> None:
        """What was read when the file had this ``mark`` is known, and is not read again as long as it has that."""
        self._seen = mark

    def wrong(self, allowed: str) -> ConfigurationError:
        """That the file is not what it should be."""
        return ConfigurationError(self._field, self.path, allowed)

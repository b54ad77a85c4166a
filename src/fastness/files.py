"""
Files that a run left behind: untrusted content, in memory, written to disk only where the caller says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


class File:
    """
    One file that a run left behind, held in memory: ``size`` in bytes, ``sha256`` in hex.

    The content is the guest's: untrusted data.
    """

    __slots__ = ("_data", "_sha256", "size")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._sha256: str | None = None
        self.size = len(data)

    @property
    def sha256(self) -> str:
        """SHA-256 of the content in hex; computed once, when first asked for."""
        if self._sha256 is None:
            self._sha256 = hashlib.sha256(self._data).hexdigest()
        return self._sha256

    def read(self) -> bytes:
        """The content."""
        return self._data

    def save(self, to: str | os.PathLike[str]) -> Path:
        """
        Write the content to a path of the caller's choice and return it.

        An existing folder gets no file: name the file.  A symbolic link at the path itself is not followed.
        Raises ``OSError``.
        """
        from pathlib import Path

        path = Path(to)
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o644)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(self._data)
        return path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, File) and other._data == self._data

    def __hash__(self) -> int:
        return hash(self._data)

    def __repr__(self) -> str:
        return f"File(size={self.size}, sha256={self.sha256[:12]}...)"


class Files(Mapping[str, File]):
    """The files that a run added or changed, by path below the work folder."""

    __slots__ = ("_files",)

    def __init__(self, files: Mapping[str, File] | None = None) -> None:
        self._files = dict(sorted((files or {}).items()))

    def __getitem__(self, path: str) -> File:
        return self._files[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        return f"Files({self._files!r})"

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """
        Write every file below ``folder`` and return the paths.

        Paths were checked when they were collected: relative, no ``..``, no NUL.  A symbolic link below ``folder``
        is never followed, so no name can lead out of it.  Raises ``OSError``.
        """
        from pathlib import Path

        root = Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for path, file in self._files.items():
                _save_below(top, path, file.read())
        finally:
            os.close(top)
        return [root / path for path in self._files]


def _save_below(top: int, path: str, data: bytes) -> None:
    """Write one file below the folder ``top``, step by step through real folders only."""
    *parents, name = path.split("/")
    here = os.dup(top)
    try:
        for part in parents:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=here)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o644, dir_fd=here), "wb") as stream:
            stream.write(data)
    finally:
        os.close(here)

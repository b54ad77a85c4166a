"""
One layer of an image as a tar that is the same, byte for byte, whenever it is made of the same files.

Names are in order, owners are root, times stand still, and no entry has a set-id bit.  What stands above a file is made
here and open to all: the machine's own folders may be closed.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from typing import Any

#: Seconds since 1970 of everything in a layer.
EPOCH = 1_700_000_000
#: The guest's user and group, in every image of ours.
USER = 65532
#: Podman's runtime gives a tmpfs the mode of the folder that it covers, whatever it was asked for.
_FOLDERS = {
    "/tmp": 0o1777, "/var/tmp": 0o1777, "/work": 0o1777,  # noqa: S108  # of the image
    "/proc": 0o755, "/sys": 0o755, "/dev": 0o755, "/etc": 0o755,
    "/run": 0o755, "/root": 0o755, "/usr/bin": 0o755, "/usr/sbin": 0o755, "/usr/lib": 0o755, "/usr/lib64": 0o755,
}  # fmt: skip
_TEXTS = {
    "/etc/passwd": f"root:x:0:0:root:/root:/sbin/nologin\nguest:x:{USER}:{USER}:guest:/work:/sbin/nologin\n",
    "/etc/group": f"root:x:0:\nguest:x:{USER}:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_MERGED = ("bin", "sbin", "lib", "lib64")


class Layer:
    """The files of a layer, by their path in the image."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._links: dict[str, str] = {}
        self._texts: dict[str, bytes] = {name: text.encode() for name, text in _TEXTS.items()}
        self._folders = dict(_FOLDERS)
        for name in _MERGED:
            self._links[f"/{name}"] = f"usr/{name}"

    def __len__(self) -> int:
        return len(self._files) + len(self._links) + len(self._texts)

    def file(self, source: str, path: str | None = None) -> None:
        """A file of this machine, at ``path`` or at its own place."""
        self._files.setdefault(_merged(path or source), source)

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        path = _merged(path)
        if path not in self._files:
            self._links.setdefault(path, target)

    def text(self, path: str, text: str) -> None:
        """A file with this content."""
        self._texts[_merged(path)] = text.encode()

    def data(self, path: str, content: bytes) -> None:
        """A file with this content."""
        self._texts[_merged(path)] = content

    def tree(self, root: str) -> None:
        """Everything below a folder of this machine, as if it were the image's root."""
        for folder, folders, files in os.walk(root):
            inside = folder[len(root) :] or "/"
            for name in sorted((*folders, *files)):
                source, path = os.path.join(folder, name), os.path.join(inside, name)
                mode = os.lstat(source).st_mode
                if stat.S_ISLNK(mode):
                    if path.lstrip("/") not in _MERGED:
                        self.link(path, os.readlink(source))
                elif stat.S_ISREG(mode):
                    self.file(source, path)

    def write(self, into: str) -> str:
        """Write the tar; returns its SHA-256 in hex.  Raises ``OSError``."""
        entries = dict.fromkeys((*self._files, *self._links, *self._texts))
        folders = dict(self._folders)
        for path in entries:
            above = os.path.dirname(path)
            while above != "/" and above not in folders:
                folders[above] = 0o755
                above = os.path.dirname(above)
        digest = _Digest(into)
        stream: Any = digest
        with digest, tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as archive:
            for path in sorted({*folders, *entries}):
                if path in entries:
                    self._entry(archive, path)
                elif path not in self._links:
                    archive.addfile(_entry(path, tarfile.DIRTYPE, folders[path]))
        return digest.hex()

    def _entry(self, archive: tarfile.TarFile, path: str) -> None:
        if path in self._texts:
            one = _entry(path, tarfile.REGTYPE, 0o644)
            one.size = len(self._texts[path])
            archive.addfile(one, io.BytesIO(self._texts[path]))
        elif path in self._files:
            with open(self._files[path], "rb") as file:
                status = os.fstat(file.fileno())
                one = _entry(path, tarfile.REGTYPE, 0o755 if status.st_mode & 0o111 else 0o644)
                one.size = status.st_size
                archive.addfile(one, file)
        else:
            one = _entry(path, tarfile.SYMTYPE, 0o777)
            one.linkname = self._links[path]
            archive.addfile(one)


class _Digest:
    """A file that is written once, and its digest."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._hash = hashlib.sha256()

    def __enter__(self) -> _Digest:
        self._file = open(self._path, "wb")
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        return self._file.write(data)

    def hex(self) -> str:
        return self._hash.hexdigest()


def _merged(path: str) -> str:
    """Where a path leads in an image whose ``/bin``, ``/lib`` and so on are links below ``/usr``."""
    path = os.path.normpath(path)
    return f"/usr{path}" if path.split("/")[1] in _MERGED and path.count("/") > 1 else path


def _entry(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    one = tarfile.TarInfo(path.lstrip("/"))
    one.type, one.mode, one.mtime = kind, mode, EPOCH
    return one

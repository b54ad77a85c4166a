"""
Files into and out of a guest.

What the caller names is read before anything runs, capped before it is read, and only from regular files.  Paths for
the guest are relative, short and plain.  What comes back from a guest is untrusted and is checked the same way.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from typing import Any

from fastness.errors import StagingError

_NAME_MAX = 255
_PATH_MAX = 4096
_DEPTH_MAX = 64
#: What to do about too much.
TOO_MANY = 'Allow more with limits={"files": N}, or with --max-files N of fastness exec.'
TOO_LARGE = 'Allow more with limits={"file_bytes": N}, or with --disk SIZE of fastness exec.'
DOES_NOT_FIT = 'Allow more with limits={"file_bytes": N, "files": N}, or with --disk and --max-files of fastness exec.'
_BELOW = "Give a short path below /work, such as data/in.csv."
_LEADS_OUT = "Take it out of the folder, or name the file that it leads to."
_OTHER = "Name a regular file."


def _is_path(source: object) -> bool:
    # Whoever has one has imported the module; for the others it takes long.
    from pathlib import Path

    return isinstance(source, Path)


def check_path(path: object) -> str:
    """
    A path below the work folder, normalised.  Raises StagingError.

    Refused: not text, empty, absolute, NUL, ``..``, names over 255 bytes, not UTF-8 (lone surrogates).
    """
    if not isinstance(path, str):
        raise StagingError(path, "the destination must be text", _BELOW)
    if not path:
        raise StagingError(path, "the destination is empty", _BELOW)
    if "\0" in path:
        raise StagingError(path, "the destination holds a NUL character", _BELOW)
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        raise StagingError(path, "the destination is not valid UTF-8", _BELOW) from None
    if path.startswith("/"):
        raise StagingError(path, "the destination must be relative to /work", _BELOW)
    if size > _PATH_MAX:
        raise StagingError(path, f"the destination is longer than {_PATH_MAX} bytes", _BELOW)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise StagingError(path, "the destination holds '..'", _BELOW)
    if not parts or path.endswith("/"):
        raise StagingError(path, "the destination names a folder, not a file", "Add the name of a file.")
    if len(parts) > _DEPTH_MAX:
        raise StagingError(path, f"the destination is more than {_DEPTH_MAX} folders deep", _BELOW)
    if any(len(part.encode()) > _NAME_MAX for part in parts):
        raise StagingError(path, f"a name of the destination is longer than {_NAME_MAX} bytes", _BELOW)
    return "/".join(parts)


def read_file(
    path: str | os.PathLike[str], room: int, *, cap: str = "that file_bytes leaves", fix: str = TOO_LARGE
) -> bytes:
    """
    The content of a host file that the caller named, at most ``room`` bytes.  Raises StagingError.

    ``cap`` and ``fix`` say of a file that is larger what those bytes are, and what to do.

    A symbolic link is refused: where it leads may change between looking and reading.  So are devices, pipes and
    folders; the check is made on the open descriptor, and opening never blocks.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW | getattr(os, "O_NOCTTY", 0)
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) == errno.ELOOP:
            raise StagingError(str(path), "it is a symbolic link", "Name the file that it leads to.") from None
        raise StagingError(str(path), _reason(error)) from None
    try:
        return _read_regular(descriptor, str(path), room, cap, fix)
    finally:
        os.close(descriptor)


def _read_regular(descriptor: int, shown: str, room: int, cap: str, fix: str) -> bytes:
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise StagingError(shown, "it is a folder", "Name a file; fastness run copies a folder with --dir HOST:GUEST.")
    if not stat.S_ISREG(status.st_mode):
        raise StagingError(shown, "it is not a regular file", _OTHER)
    if status.st_size > room:
        raise StagingError(shown, f"its {status.st_size} bytes pass the {room} bytes {cap}", fix)
    # One byte more than announced: a file that grows meanwhile is noticed, not read without end.
    parts: list[bytes] = []
    left = status.st_size + 1
    try:
        while left > 0 and (part := os.read(descriptor, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
    except OSError as error:
        raise StagingError(shown, _reason(error)) from None
    if left <= 0:
        raise StagingError(shown, "it grew while it was read", "Try again once nobody writes to it.")
    return b"".join(parts)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def stage(files: Mapping[str, Any], *, max_bytes: int, max_files: int) -> dict[str, bytes]:
    """
    Read everything that ``files`` names: destination to ``bytes``, ``str`` (content) or ``Path`` (a host file).

    Raises StagingError for the first that cannot be staged; then nothing ran.
    """
    staged: dict[str, bytes] = {}
    room = max_bytes
    for destination, source in files.items():
        path = check_path(destination)
        if path in staged:
            raise StagingError(path, "it is named twice", "Name each destination once.")
        if len(staged) >= max_files:
            raise StagingError(path, f"more than {max_files} files", TOO_MANY)
        data: bytes
        if isinstance(source, (bytes, bytearray, memoryview)):
            data = bytes(source)
        elif isinstance(source, str):
            try:
                data = source.encode("utf-8")
            except UnicodeEncodeError:
                raise StagingError(path, "its content is not valid UTF-8", "Give it as bytes.") from None
        elif isinstance(source, os.PathLike) and _is_path(source):
            data = read_file(source, room)
        else:
            why = f"a {type(source).__name__} is neither bytes, str nor pathlib.Path"
            raise StagingError(path, why, "Give the content as bytes or str, or a host file as pathlib.Path.")
        if len(data) > room:
            why = f"its {len(data)} bytes pass the {room} bytes that file_bytes leaves"
            raise StagingError(path, why, TOO_LARGE)
        room -= len(data)
        staged[path] = data
    _check_folders(staged)
    return staged


def _check_folders(staged: Mapping[str, bytes]) -> None:
    """A file cannot also be a folder of another."""
    for path in staged:
        parent = path
        while "/" in parent:
            parent = parent.rpartition("/")[0]
            if parent in staged:
                raise StagingError(path, f"{parent} is staged as a file", "Rename one of the two.")


def stage_folder(folder: str | os.PathLike[str], *, max_bytes: int, max_files: int) -> dict[str, bytes]:
    """
    A copy of a host folder in memory: regular files by their path below it.  Raises StagingError.

    A symbolic link to a regular file inside the folder is copied as that file; one that leads out, to a folder or
    nowhere is refused, as are sockets, pipes and devices: by name, so that nobody wonders where they went.
    """
    root = os.fspath(folder)
    found: dict[str, bytes] = {}
    room = max_bytes
    try:
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise StagingError(root, _reason(error)) from None
    os.close(top)
    try:
        for here, folders, names, descriptor in os.fwalk(root, follow_symlinks=False, onerror=_raise):
            folders.sort()
            for name in folders:
                _check_folder(name, os.path.join(here, name), descriptor)
            for name in sorted(names):
                shown = os.path.join(here, name)
                relative = check_path(os.path.relpath(shown, root))
                if len(found) >= max_files:
                    raise StagingError(shown, f"more than {max_files} files", TOO_MANY)
                data = found[relative] = _read_below(root, name, shown, descriptor, room)
                room -= len(data)
    except OSError as error:
        # A folder that cannot be read is not one that is empty.
        raise StagingError(str(error.filename or root), _reason(error)) from None
    return found


def _raise(error: OSError) -> None:
    raise error


def _check_folder(name: str, shown: str, above: int) -> None:
    """Raises StagingError for a folder that will not be walked."""
    if stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
        raise StagingError(shown, "it is a symbolic link to a folder", "Copy that folder with a --dir of its own.")
    try:
        # Of it as well as in it: names without what they are of help nobody.
        os.close(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above))
        os.stat(os.path.join(name, "."), dir_fd=above)
    except OSError as error:
        raise StagingError(shown, _reason(error), "Take it out of the folder, or make it readable.") from None


def _read_below(root: str, name: str, shown: str, above: int, room: int) -> bytes:
    """The content of one entry of a folder that is copied.  Raises StagingError."""
    status = os.stat(name, dir_fd=above, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        target = os.path.realpath(shown)
        if not target.startswith(os.path.join(os.path.realpath(root), "")):
            raise StagingError(shown, "it is a symbolic link that leads out of the folder", _LEADS_OUT)
        try:
            return read_file(target, room)
        except StagingError as error:
            # Under the name that the caller can see.
            why = f"it leads to {os.path.basename(target)}: {error.why}"
            raise StagingError(shown, why, error.fix) from None
    if not stat.S_ISREG(status.st_mode):
        raise StagingError(
            shown, "it is not a regular file", "Take it out of the folder, or name the files one by one."
        )
    try:
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=above)
    except OSError as error:
        raise StagingError(shown, _reason(error)) from None
    try:
        return _read_regular(opened, shown, room, "that file_bytes leaves", TOO_LARGE)
    finally:
        os.close(opened)

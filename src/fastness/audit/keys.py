"""
The key that seals an audit trail: 32 random bytes in a file of this user alone, never in the database.
"""

from __future__ import annotations

import os
import re
import stat

from fastness.errors import BackendError

__all__ = ["load", "load_or_make"]

_TEXT = re.compile(rb"[0-9a-f]{64}\n")


def load(path: str) -> bytes | None:
    """The key in the file ``path``, or None where there is no such file.  Raises BackendError for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _bad(path, error.strerror or str(error)) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise _bad(path, "it is not a file of this user")
        if status.st_mode & 0o077:
            # Whoever could read it can seal what they like; whether somebody did cannot be told any more.
            raise _bad(path, "others may read or write it")
        text = os.read(descriptor, 128)
    finally:
        os.close(descriptor)
    if not _TEXT.fullmatch(text):
        raise _bad(path, "it does not hold 64 hexadecimal digits")
    return bytes.fromhex(text.decode().strip())


def load_or_make(path: str) -> bytes:
    """
    The key in the file ``path``, made where there is none; processes that make it at once end up with one and the same.

    Its folder must exist and be private.  Raises BackendError.
    """
    found = load(path)
    if found is not None:
        return found
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, os.urandom(32).hex().encode() + b"\n")
            os.fsync(descriptor)
            # A link and no rename: the first one stays.
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            os.close(descriptor)
            os.unlink(draft)
        holder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # A key that a loss of power took would leave a trail that nobody can verify.
            os.fsync(holder)
        finally:
            os.close(holder)
    except OSError as error:
        raise _bad(path, error.strerror or str(error)) from error
    found = load(path)
    if found is None:
        raise _bad(path, "it was removed while it was made")
    return found


def _bad(path: str, why: str) -> BackendError:
    return BackendError(
        "reading the key of the audit trail",
        f"{path}: {why}",
        "put the key back with mode 0600; without it, move data/audit.db and the key away to begin a new trail",
    )

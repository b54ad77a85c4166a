"""
Opening and moving names below a folder so that no link leads elsewhere (``openat2(2)``, ``renameat2(2)``).

A path that is looked at and then used may lead somewhere else by the time of its use.  So folders are held open, and
what lies in them is opened by one name at a time, never through a symbolic link and never into another mount.  Where
the kernel has no ``openat2`` (before Linux 5.6, or behind a filter that does not know it) the same walk is made with
``O_NOFOLLOW`` and a comparison of devices.
"""

from __future__ import annotations

import ctypes as C
import errno
import os
import stat

from fastness._linux.syscalls import raw

# linux/openat2.h
_RESOLVE_NO_XDEV = 0x01
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_STRICT = _RESOLVE_NO_XDEV | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH

# linux/fs.h
RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2

O_PATH: int = getattr(os, "O_PATH", 0)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK
#: A rename anywhere on the system may make the kernel give up on a path with ``..`` (openat2(2), EAGAIN).
_ATTEMPTS = 64

_missing = (errno.ENOSYS, errno.EPERM, errno.E2BIG)
_works: bool | None = None


def _openat2(folder: int, path: str, flags: int, mode: int, resolve: int) -> int:
    name = C.create_string_buffer(os.fsencode(path))
    how = (C.c_uint64 * 3)(flags, mode, resolve)
    for _ in range(_ATTEMPTS):
        try:
            # SAFETY: the name ends in NUL, `how` is the 24 bytes of struct open_how; both outlive the call.
            return raw("openat2", folder, C.addressof(name), C.addressof(how), 24)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
    raise OSError(errno.EAGAIN, "openat2: something above the path keeps being moved")


def has_openat2() -> bool:
    """Whether this kernel, and any filter around us, lets ``openat2`` through.  Tried once."""
    global _works  # noqa: PLW0603  # one answer for the life of the process
    if _works is None:
        try:
            os.close(_openat2(-100, "/", O_PATH | os.O_CLOEXEC, 0, 0))
        except OSError as error:
            if error.errno not in _missing:
                return False
            _works = False
        else:
            _works = True
    return _works


def open_child(folder: int, name: str, flags: int, mode: int = 0) -> int:
    """
    Open ``name`` directly in the open ``folder``; a close-on-exec descriptor.

    A symbolic link is never followed (``ELOOP``, or the link itself with ``O_PATH``), and with ``O_DIRECTORY`` a mount
    point is not entered (``EXDEV``).  Raises ``OSError``; ``EINVAL`` for a text that is not one plain name.
    """
    _plain(name)
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    if not flags & os.O_DIRECTORY:
        # One name, not followed: openat2 has nothing to add but what may be mounted on a file, and takes longer.
        return os.open(name, flags, mode, dir_fd=folder)
    try:
        if has_openat2():
            return _openat2(folder, name, flags, mode, _STRICT)
        found = os.open(name, flags, mode, dir_fd=folder)
    except NotADirectoryError:
        _refuse_link(folder, name)
        raise
    try:
        if os.fstat(found).st_dev != os.fstat(folder).st_dev:
            raise OSError(errno.EXDEV, "on another file system", name)
    except BaseException:
        os.close(found)
        raise
    return found


def _plain(name: str) -> None:
    """Raise ``EINVAL`` for a text that is not one plain name, or none that the system can have."""
    try:
        whole = os.fsencode(name)
    except UnicodeEncodeError:
        whole = b""
    # In C a name ends at its first NUL: what was judged is not what would be opened.
    if not whole or b"/" in whole or b"\0" in whole or name in (".", ".."):
        raise OSError(errno.EINVAL, "not the name of an entry", name)


def _refuse_link(folder: int, name: str) -> None:
    """
    Raise ``ELOOP`` for a link: asked for a folder, the kernel says of one at the end of a path only that it is none.

    What cannot be looked at is none.
    """
    try:
        is_link = stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return
    if is_link:
        raise OSError(errno.ELOOP, "a symbolic link", name) from None


def open_entry(folder: int, name: str, flags: int, mode: int = 0) -> int:
    """
    As :func:`open_child`, and what is mounted on a file is not opened either (``EXDEV``).

    Without ``openat2`` that is told by its device, so that a file of the same file system mounted there is opened.
    """
    if has_openat2():
        _plain(name)
        return _openat2(folder, name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, _STRICT)
    found = open_child(folder, name, flags, mode)
    try:
        if os.fstat(found).st_dev != os.fstat(folder).st_dev:
            raise OSError(errno.EXDEV, "on another file system", name)
    except BaseException:
        os.close(found)
        raise
    return found


def open_folder(top: int, path: str) -> int:
    """
    Open the folder ``path`` below ``top`` through real folders only; ``""`` is ``top`` itself, opened anew.

    Raises ``OSError``: ``ELOOP`` where a part is a link, ``ENOTDIR`` where it is no folder, ``EXDEV`` at another mount.
    """
    if path and has_openat2():
        try:
            return _openat2(top, path, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, 0, _STRICT)
        except NotADirectoryError:
            # Walked once more for what is wrong with it: nothing is opened through a link by that either.
            pass
    here = os.open(".", _FOLDER | os.O_CLOEXEC, dir_fd=top)
    for part in path.split("/") if path else ():
        try:
            deeper = open_child(here, part, _FOLDER)
        finally:
            os.close(here)
        here = deeper
    return here


def stays_inside(top: int, path: str) -> bool:
    """
    Whether ``path``, followed link by link, ends below ``top``, or ends at nothing before it could leave.

    Links that are absolute count as leading out.  The answer holds for the moment in which it is given.
    """
    if has_openat2():
        try:
            os.close(_openat2(top, path, O_PATH | os.O_CLOEXEC, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS))
        except OSError as error:
            return error.errno in (errno.ENOENT, errno.ENOTDIR)
        return True
    base = os.path.realpath(f"/proc/self/fd/{top}")
    return os.path.join(os.path.realpath(os.path.join(base, path)), "").startswith(os.path.join(base, ""))


def rename(folder: int, name: str, new_folder: int, new_name: str, flags: int = 0) -> None:
    """
    ``renameat2(2)``: as ``rename``, with ``RENAME_NOREPLACE`` or ``RENAME_EXCHANGE``.

    Raises ``OSError``; ``EINVAL`` or ``ENOSYS`` where the file system or the kernel does not know the flag.
    """
    source, target = C.create_string_buffer(os.fsencode(name)), C.create_string_buffer(os.fsencode(new_name))
    # SAFETY: both names end in NUL and outlive the call.
    raw("renameat2", folder, C.addressof(source), new_folder, C.addressof(target), flags)

"""
Mounting, as far as a private file tree needs it (``mount(2)``, ``mount_setattr(2)``, ``pivot_root(2)``).

Every call works in the caller's own mount namespace and raises ``OSError``.  Call :func:`make_private` first in a new
one, or what is mounted here shows up in the namespace that it was copied from.
"""

from __future__ import annotations

import ctypes as C
import os

from fastness._linux.syscalls import AT_FDCWD, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fastness._linux.plan import Plan

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
_MS_REMOUNT = 32
_MS_BIND = 1 << 12
_MS_REC = 1 << 14
_MS_PRIVATE = 1 << 18

_MNT_DETACH = 2
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 4
_EMPTY = C.create_string_buffer(b"")


def _text(value: str | None) -> C.Array[C.c_char] | None:
    return None if value is None else C.create_string_buffer(os.fsencode(value))


def text(value: str) -> C.Array[C.c_char]:
    """A text as the kernel reads it, which may be used for any number of calls."""
    return C.create_string_buffer(os.fsencode(value))


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """``mount(2)``."""
    texts = [_text(source), _text(target), _text(kind), _text(options)]
    addresses = [0 if text is None else C.addressof(text) for text in texts]
    # SAFETY: the four texts are zero-terminated and outlive the call; a null type or option is allowed.
    raw("mount", addresses[0], addresses[1], addresses[2], flags, addresses[3])


def make_private() -> None:
    """Nothing that is mounted or unmounted from now on reaches another namespace."""
    mount("none", "/", None, _MS_REC | _MS_PRIVATE)


def bind(source: str, target: str, *, recursive: bool = True) -> None:
    """Show ``source``, with what is mounted below it, at ``target`` too."""
    mount(source, target, None, _MS_BIND | (_MS_REC if recursive else 0))


def restrict(path: str, flags: int, *, recursive: bool = True) -> None:
    """
    Add ``flags`` (``MS_RDONLY``, ``MS_NOSUID``, ``MS_NODEV``, ``MS_NOEXEC``) to the mount at ``path``.

    With ``recursive`` to every mount below it too, in one step (Linux 5.12).
    """
    # The attribute bits of mount_setattr(2) have the values of the old flags.
    attribute = (C.c_uint64 * 4)(flags, 0, 0, 0)
    text = C.create_string_buffer(os.fsencode(path))
    # SAFETY: `attribute` is a `struct mount_attr` of 32 bytes; it and the zero-terminated path outlive the call.
    raw("mount_setattr", AT_FDCWD, C.addressof(text), _AT_RECURSIVE if recursive else 0, C.addressof(attribute), 32)


def remount_readonly(path: str) -> None:
    """Make the mount at ``path`` read-only; files that are open for writing there make it fail (``EBUSY``)."""
    mount("none", path, None, _MS_REMOUNT | _MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def unmount(path: str) -> None:
    """Take the mount at ``path`` out of the tree; it ends when its last user does (``umount2(2)``)."""
    text = C.create_string_buffer(os.fsencode(path))
    # SAFETY: a zero-terminated path that outlives the call, and an integer.
    raw("umount2", C.addressof(text), _MNT_DETACH)


def clone(path: str) -> int:
    """A descriptor of a mount of what is at ``path``, which is in no tree yet (``open_tree(2)``, Linux 5.2)."""
    text = C.create_string_buffer(os.fsencode(path))
    # SAFETY: a zero-terminated path that outlives the call, and integers.
    return raw("open_tree", AT_FDCWD, C.addressof(text), _OPEN_TREE_CLONE | os.O_CLOEXEC)


def plan_attach(calls: Plan, target: C.Array[C.c_char]) -> None:
    """
    Add the call that puts a mount into the tree at ``target``, a path (``move_mount(2)``, Linux 5.2).

    Its first argument, put in later, is what :func:`clone` has returned.
    """
    # The first of the two texts is empty: the mount itself.
    calls.add("move_mount", 0, _EMPTY, AT_FDCWD, target, _MOVE_MOUNT_F_EMPTY_PATH)


def pivot_to(root: str) -> None:
    """
    Make the mount at ``root`` the root of this namespace and let the old tree go, with all that is mounted in it.

    ``pivot_root(".", ".")`` stacks the old root on the new one, so that no folder is needed for it.
    """
    os.chdir(root)
    here = C.create_string_buffer(b".")
    # SAFETY: both arguments are the same zero-terminated text, which outlives the call.
    raw("pivot_root", C.addressof(here), C.addressof(here))
    unmount(".")
    os.chdir("/")

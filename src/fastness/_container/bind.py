"""
A folder of this machine that is to be a container's ``/work`` itself: looked at before an engine hears of it.

Such a folder has no quota, and what is written there stays.  An engine mounts as root whatever its path names by then,
so the container's first process compares which folder it was given with the one that was looked at here.
"""

from __future__ import annotations

import os
import re
import stat

import msgspec

from fastness._container.layer import USER
from fastness._wasi import home
from fastness.errors import ConfigurationError

#: Folders of the system: none of them, nothing in them and nothing that holds them.
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/lib",
           "/var/run")  # fmt: skip
#: An engine takes the parts of a mount apart at these.
_ODD = re.compile(r"[:,\\\"]")
_FIELD = "bind"


class Bind(msgspec.Struct, frozen=True):
    """A folder by its real path, and by what the kernel knows it by: its file system and its number in that."""

    path: str
    device: int
    inode: int


def look(path: str, socket: str) -> Bind:
    """
    The folder at ``path``, where it may become a guest's; ``socket`` is the engine's own.  Raises ConfigurationError.
    """
    real = os.path.realpath(path)
    if not real.isprintable() or _ODD.search(real):
        raise ConfigurationError(_FIELD, path, "a path without colons, commas, quotes and control characters")
    for one in _SYSTEM:
        if _within(real, one) or _within(one, real):
            raise ConfigurationError(_FIELD, path, f"a folder of your own, and not of the system: {one}")
    own = [os.path.expanduser("~"), *(home.place(kind) for kind in ("data", "config", "cache", "runtime")), socket]
    for one in own:
        if _within(os.path.realpath(one), real):
            raise ConfigurationError(_FIELD, path, f"a folder that does not hold {one}")
    try:
        status = os.stat(real)
    except OSError as error:
        raise ConfigurationError(_FIELD, path, f"a folder that can be looked at ({error.strerror})") from None
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigurationError(_FIELD, path, "a folder")
    if status.st_mode & stat.S_ISVTX and status.st_mode & stat.S_IWOTH:
        raise ConfigurationError(_FIELD, path, "a folder of your own, and none that everybody's files are in")
    if below := _mounted_below(real):
        raise ConfigurationError(_FIELD, path, f"a folder without another file system in it, such as {below}")
    if not _is_open(real, status):
        allowed = f"a folder that the guest's user may write to, as after: chown {USER}:{USER} {real}"
        raise ConfigurationError(_FIELD, path, allowed)
    return Bind(real, status.st_dev, status.st_ino)


def _within(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def _mounted_below(folder: str) -> str:
    """A file system that is mounted somewhere below a folder, or nothing (``proc_pid_mountinfo(5)``)."""
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            place = re.sub(rb"\\(\d{3})", lambda found: bytes((int(found[1], 8),)), line.split()[4])
            path = os.fsdecode(place)
            if path != folder and _within(path, folder):
                return path
    return ""


def _is_open(folder: str, status: os.stat_result) -> bool:
    """Whether the guest's user may write there, as far as modes tell; a list of its own decides by itself."""
    if "system.posix_acl_access" in os.listxattr(folder):
        return True
    if status.st_uid == USER:
        return bool(status.st_mode & stat.S_IWUSR)
    return bool(status.st_mode & (stat.S_IWGRP if status.st_gid == USER else stat.S_IWOTH))

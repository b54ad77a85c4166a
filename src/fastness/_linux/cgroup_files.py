"""
Control groups as folders of small files: names, reading, writing, counters, removal (``cgroups(7)``).
"""

from __future__ import annotations

import errno
import os
import re
import time

#: Prefix of every group that this package makes.
PREFIX = "fastness-"
#: The group that holds all slots of one owner is named PREFIX + owner + this.
SLOTS = "-slots"
#: The group that holds the owner's own process, where it had to leave its group (version 2).
HOST = "-host"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
#: The controllers without which there are no slots.
REQUIRED = ("memory", "pids")
#: The period of the CPU limit in microseconds, the kernel's own default.
PERIOD_US = 100_000
#: The kernel takes no CPU share below this many microseconds in a period.
_LEAST_QUOTA_US = 1000
#: Seconds for a group without processes to be removable.
_REMOVE_S = 2.0


def check_name(name: str, what: str) -> str:
    """``name`` if it can be part of a group's name, else ``ValueError``: it must never be a path."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{what} {name!r} is not made of letters, digits, '_', '.' and '-', or begins with '.' or '-'")
    return name


def owner_of(group: str, ending: str) -> str:
    """The owner in the name of a group of ours with this ending; empty for any other group."""
    if not (group.startswith(PREFIX) and group.endswith(ending)):
        return ""
    owner = group[len(PREFIX) : len(group) - len(ending)]
    return owner if _NAME.fullmatch(owner) else ""


#: Bytes of one read; files of a group are far shorter.
_PIECE = 1 << 16


def read(folder: str, name: str) -> str:
    """A file of a group, without white space at its ends; raises ``OSError``."""
    # Without the buffers and decoders of a file object: a run waits for a handful of these.
    fd = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(fd, _PIECE):
            pieces.append(piece)
    finally:
        os.close(fd)
    return b"".join(pieces).decode("ascii", "replace").strip()


def write(folder: str, name: str, value: str) -> None:
    """Write a file of a group with one ``write(2)``, as the kernel wants it; raises ``OSError`` that names both."""
    path = f"{folder}/{name}"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
    except OSError as error:
        raise OSError(error.errno, f"{name} = {value}: {os.strerror(error.errno or 0)}", path) from None


def numbers(text: str) -> dict[str, int]:
    """A flat keyed file such as ``memory.events``: a name and a number on each line; other lines are passed over."""
    found = {}
    for line in text.split("\n"):
        key, _, value = line.strip().partition(" ")
        if re.fullmatch("[0-9]+", value, re.ASCII):
            found[key] = int(value)
    return found


def counter(folder: str, name: str, key: str = "") -> int | None:
    """A number from a file of a group, under ``key`` in a keyed file; None where the kernel has none."""
    try:
        text = read(folder, name)
    except OSError:
        return None
    return counted(text, key)


def counted(text: str, key: str = "") -> int | None:
    """The number in the text of such a file, or under ``key``; None where there is none."""
    if key:
        return numbers(text).get(key)
    return int(text) if re.fullmatch("[0-9]+", text, re.ASCII) else None


def pages(memory: int) -> int:
    """``memory`` in bytes down to whole pages, as the kernel counts; raises ``OSError`` where nothing is left."""
    whole = memory // _PAGE * _PAGE
    if whole <= 0:
        raise OSError(errno.EINVAL, f"a memory limit of {memory} bytes is less than a page")
    return whole


def quota_us(cpus: float) -> int:
    """Microseconds of CPU time in a period for ``cpus`` processors; raises ``OSError`` where the kernel takes none."""
    quota = round(cpus * PERIOD_US)
    if quota < _LEAST_QUOTA_US:
        raise OSError(errno.EINVAL, f"a CPU limit of {cpus} processors is less than {_LEAST_QUOTA_US / PERIOD_US}")
    return quota


def swap_is_off() -> bool:
    """Whether this machine has no swap at all now (``proc(5)``, ``/proc/swaps``: a heading, then one line each)."""
    try:
        with open("/proc/swaps", encoding="ascii", errors="replace") as file:
            return len(file.read().strip().split("\n")) < 2
    except FileNotFoundError:
        # A kernel that was built without swap.
        return True
    except OSError:
        return False


def groups_below(folder: str) -> list[str]:
    """Names of the groups right below one; empty where it is gone or cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def remove_group(folder: str, wait_s: float = _REMOVE_S) -> None:
    """Remove one group without processes; the kernel may call it busy for a moment after the last one ended."""
    end = time.monotonic() + wait_s
    pause = 0.0005
    while True:
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > end:
                raise
        else:
            return
        time.sleep(pause)
        pause = min(pause * 2, 0.05)

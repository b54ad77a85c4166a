"""
Host users that belong to nobody, for guests of a caller who is root.

A block of user numbers is taken for as long as the caller lives: a lock file says so to other callers, and before a
block is taken it is looked for in the password file, in the ranges given to others, and among living processes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd

#: Users of one block: one for the zygote itself, the others for guests.
BLOCK = 1024
#: Above what systemd gives to containers and services, and below the sign bit of 32-bit tools.
DEFAULT_RANGE = (0x70000000, 0x70100000)
VARIABLE = "FASTNESS_UID_RANGE"
_LOCKS = "/run/fastness-uids"
#: Capabilities without which another user's processes and files cannot be made, shown and ended: CAP_CHOWN,
#: CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID and CAP_SYS_ADMIN.
_NEEDED = (0, 1, 5, 6, 7, 21)


class Block:
    """``count`` user numbers from ``base`` on, ours until :meth:`release` or the end of this process."""

    def __init__(self, base: int, count: int, lock: int) -> None:
        self.base = base
        self.count = count
        self._lock = lock

    def release(self) -> None:
        """Give the block back.  No process of its users may be left."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def configured(text: str | None) -> tuple[int, int]:
    """The range ``first-last`` of :data:`VARIABLE`, or the default.  Raises ``ValueError``."""
    if not text:
        return DEFAULT_RANGE
    first, _, last = text.partition("-")
    if not first.isdecimal() or not last.isdecimal():
        raise ValueError(f"{VARIABLE} is {text!r} and should be FIRST-LAST, such as 1879048192-1880096767")
    low, high = int(first), int(last) + 1
    if not 65536 <= low < high <= 1 << 31 or high - low < BLOCK:
        raise ValueError(f"{VARIABLE} must hold at least {BLOCK} numbers between 65536 and 2147483647")
    return low, high


def available() -> bool:
    """
    Whether this process may have users to give away: it is root with root's power, and the range exists here.

    In a container root may lack capabilities; and in a user namespace it has only the users that it was given.
    """
    if os.geteuid() != 0 or not _powerful():
        return False
    if os.environ.get(VARIABLE):
        # Somebody has chosen it, and hears of it where it does not work.
        return True
    low, high = DEFAULT_RANGE
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            rows = [[int(field) for field in line.split()] for line in file]
    except (OSError, ValueError):
        return True
    return any(first <= low and high <= first + count for first, _, count in rows)


def _powerful() -> bool:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            held = next(int(line.split()[1], 16) for line in file if line.startswith("CapEff:"))
    except (OSError, StopIteration, ValueError):
        return True
    return all(held >> capability & 1 for capability in _NEEDED)


def claim(folder: str = _LOCKS) -> Block:
    """
    Take a free block.  Raises ``OSError`` where there is none, or where the lock cannot be kept.
    """
    low, high = configured(os.environ.get(VARIABLE))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    status = os.stat(folder, follow_symlinks=False)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise OSError(errno.EPERM, f"{folder} belongs to somebody else, or somebody else may write there")
    taken = _taken()
    living: set[int] = set()
    for base in range(low, high - BLOCK + 1, BLOCK):
        if any(base < last and first < base + BLOCK for first, last in taken) or _within(base, living):
            continue
        lock = os.open(f"{folder}/{base}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        # Looked for with the lock held: who had it until now may have been killed, and left somebody.  What is found
        # says of other blocks that there is no use in trying them.
        living = _living()
        if _within(base, living):
            os.close(lock)
            continue
        return Block(base, BLOCK, lock)
    raise OSError(errno.EAGAIN, f"no free block of {BLOCK} users between {low} and {high - 1}; set {VARIABLE}")


def _taken() -> list[tuple[int, int]]:
    """User numbers that somebody has, as half-open ranges."""
    found = [(entry.pw_uid, entry.pw_uid + 1) for entry in pwd.getpwall()]
    try:
        with open("/etc/subuid", encoding="utf-8", errors="replace") as file:
            for line in file:
                parts = line.strip().split(":")
                if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
                    found.append((int(parts[1]), int(parts[1]) + int(parts[2])))
    except OSError:
        pass
    return found


def _within(base: int, numbers: set[int]) -> bool:
    return any(base <= one < base + BLOCK for one in numbers)


def _living() -> set[int]:
    """The user numbers that a process has which lives: real, effective, saved and of its file system calls."""
    found: set[int] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fd = os.open(f"/proc/{name}/status", os.O_RDONLY | os.O_CLOEXEC)
            try:
                text = os.read(fd, 4096)
            finally:
                os.close(fd)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has ended, or it is none of ours
        start = text.find(b"\nUid:")
        if start >= 0:
            found.update(map(int, text[start + 5 : text.index(b"\n", start + 1)].split()))
    return found

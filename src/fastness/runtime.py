"""
Folders of living hosts below ``runtime``: who owns one, whether the owner still lives, and the end of what it left.

Beside each folder ``<id>`` lies a file ``<id>.owner`` that its owner holds locked (``flock(2)``).  The kernel opens the
lock when the owner ends, however it ends, so a file that can be locked belongs to the dead.  The file is made before
the folder and goes after it; a name is never used twice.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import stat
import weakref

from fastness._linux import cgroup, procs
from fastness._wasi import home
from fastness.runner import tree

__all__ = ["Owner", "alive", "claim", "dead_owners", "note_groups", "sweep", "sweep_groups"]

_SUFFIX = ".owner"
#: In an owner's folder: the paths of its control groups, and the bytes of it that are read.
_GROUPS = "groups"
_GROUPS_CAP = 1 << 16
#: Entries that one removal looks at before it gives up; a folder of a guest is capped far below.
_ENTRIES_MAX = 5_000_000

_owners: weakref.WeakSet[Owner] = weakref.WeakSet()
_hooked = [False]


class Owner:
    """
    This process as the owner of ``folder``; ``id`` (hexadecimal digits) names it on this machine for good.

    A child that is forked off owns nothing: there the owner is released and the folder left to the parent.
    """

    def __init__(self, name: str, folder: str, lock: int) -> None:
        self.id = name
        self.folder = folder
        self._lock = lock
        _owners.add(self)

    @property
    def released(self) -> bool:
        """Whether the folder is no longer ours."""
        return self._lock < 0

    def release(self) -> None:
        """Remove the folder with all that is in it, and the claim.  Idempotent; never raises ``OSError``."""
        if self._lock >= 0:
            lock, self._lock = self._lock, -1
            try:
                _remove_claim(self.id, os.path.dirname(self.folder))
            finally:
                os.close(lock)

    def abandon(self) -> None:
        """Leave the folder and the claim behind, for the next sweep to find that nobody holds them.  Idempotent."""
        self._forget()

    def _forget(self) -> None:
        if self._lock >= 0:
            # The lock belongs to the open file, which the parent goes on holding.
            os.close(self._lock)
            self._lock = -1


def _in_child() -> None:
    for owner in list(_owners):
        owner._forget()


def _at_exit() -> None:
    for owner in list(_owners):
        owner.release()


def claim() -> Owner:
    """
    A new private folder (mode 0700) of this process, after removing those of dead owners.

    Raises as :func:`fastness._wasi.home.folder`, and ``OSError`` where the disk or the descriptors are at their end.
    """
    base = home.folder("runtime")
    if not _hooked[0]:
        _hooked[0] = True
        os.register_at_fork(after_in_child=_in_child)
        atexit.register(_at_exit)
    sweep()
    while True:
        name = os.urandom(8).hex()
        lock = _make_lock(os.path.join(base, name + _SUFFIX))
        if lock >= 0:
            break
    folder = os.path.join(base, name)
    try:
        os.mkdir(folder, 0o700)
    except BaseException:
        os.unlink(folder + _SUFFIX)
        os.close(lock)
        raise
    return Owner(name, folder, lock)


def _make_lock(path: str) -> int:
    """A new file, locked; or -1 where a sweep came between its making and its locking and took it for a dead one's."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.stat(path, follow_symlinks=False)
        # For whoever looks; nothing reads it, as numbers of processes are given again.
        os.write(lock, f"pid {os.getpid()} started {procs.start_time(os.getpid())}\n".encode())
    except (BlockingIOError, FileNotFoundError):
        os.close(lock)
        return -1
    except BaseException:
        os.close(lock)
        raise
    return lock


def _try_lock(path: str) -> int:
    """A descriptor of a dead owner's file, locked; -1 where the owner lives or there is no such file."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return -1
    try:
        if stat.S_ISREG(os.fstat(lock).st_mode):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it before may have removed it.
            os.stat(path, follow_symlinks=False)
            return lock
    except OSError:
        pass
    os.close(lock)
    return -1


def alive(owner: str) -> bool:
    """
    Whether the owner of this name may live: False only where its file is here and nobody holds it.

    True for names that are not known here; owners under another ``FASTNESS_HOME`` are such.
    """
    if not _is_name(owner):
        return True
    lock = _try_lock(os.path.join(home.folder("runtime"), owner + _SUFFIX))
    if lock < 0:
        return True
    os.close(lock)
    return False


def dead_owners() -> list[str]:
    """Names of owners that have ended and left their folders or control groups, sorted."""
    return [name for name in _claims(home.folder("runtime")) if not alive(name)]


def sweep() -> list[str]:
    """
    Remove what dead owners left: their control groups with the processes in them, then their folders.

    Returns their names, sorted.  What a living process is just removing is left to it.  Raises as
    :func:`fastness._wasi.home.folder` alone.
    """
    base = home.folder("runtime")
    held: dict[str, int] = {}
    try:
        for name in _claims(base):
            lock = _try_lock(os.path.join(base, name + _SUFFIX))
            if lock >= 0:
                held[name] = lock
        # Before the files go, which tell that these owners are dead and where their groups are.
        for name in held:
            cgroup.end(name, _groups_of(os.path.join(base, name)))
        cgroup.sweep(lambda owner: owner not in held)
        return [name for name in held if _remove_claim(name, base)]
    finally:
        for lock in held.values():
            os.close(lock)


def sweep_groups() -> list[str]:
    """Remove the control groups of dead owners, of other homes too, with the processes in them; returns their names."""
    return cgroup.sweep(alive)


def note_groups(owner: Owner, roots: list[str]) -> None:
    """
    Write down where an owner's control groups are, for a sweep from another control group.  Raises ``OSError``.
    """
    with open(os.path.join(owner.folder, _GROUPS), "x", encoding="utf-8", errors="surrogateescape") as file:
        file.write("\n".join(roots))


def _groups_of(folder: str) -> list[str]:
    try:
        with open(os.path.join(folder, _GROUPS), encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_GROUPS_CAP).split("\n")
    except OSError:
        return []


def _is_name(text: str) -> bool:
    return len(text) == 16 and all(letter in "0123456789abcdef" for letter in text)


def _claims(base: str) -> list[str]:
    found = (entry.removesuffix(_SUFFIX) for entry in os.listdir(base) if entry.endswith(_SUFFIX))
    return sorted(filter(_is_name, found))


def _remove_claim(name: str, base: str) -> bool:
    """Remove a folder and then its owner's file, which the caller holds; False where something could not go."""
    folder = os.path.join(base, name)
    try:
        remove_tree(folder)
        os.unlink(folder + _SUFFIX)
    except FileNotFoundError:
        return True
    except OSError:
        # Left for the next sweep: the file stays and says that the owner is dead.
        return False
    return True


def remove_tree(path: str) -> None:
    """
    Remove a folder that a guest may have filled: any depth, any modes, and links are never followed.

    Raises ``OSError`` where something cannot be removed, and where the path is no owner's: nothing but what lies below
    a folder of ours is ever removed.  A folder that is not there is fine.
    """
    if not os.path.isabs(path) or ".." in path.split("/") or not any(map(_is_name, path.split("/"))):
        raise OSError(errno.EPERM, "not below a folder of an owner", path)
    try:
        top = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.chmod(f"/proc/self/fd/{top}", 0o700)
        left = _ENTRIES_MAX
        moved = 0
        while True:
            again = False
            with os.scandir(f"/proc/self/fd/{top}") as entries:
                for entry in entries:
                    # What is removed while a folder is read may make the reading skip: so until nothing is met.
                    again = True
                    left -= 1
                    if not entry.is_dir(follow_symlinks=False):
                        _gone(entry.name, top)
                        continue
                    count = _empty(top, entry.name, moved)
                    moved += count
                    left -= count
                    if left < 0:
                        raise OSError(errno.E2BIG, "too many entries", path)
            if not again:
                break
    finally:
        os.close(top)
    os.rmdir(path)


def _empty(top: int, name: str, moved: int) -> int:
    """
    Remove a folder in ``top`` and its files; folders in it move up into ``top`` first, so depth costs nothing.

    Returns how many entries it met.
    """
    try:
        held = tree.unlock(top, name, stat.S_IFDIR, 0o700)
    except FileNotFoundError:
        return 0
    count = 0
    try:
        with os.scandir(f"/proc/self/fd/{held}") as entries:
            for entry in entries:
                count += 1
                if not entry.is_dir(follow_symlinks=False):
                    _gone(entry.name, held)
                    continue
                # Moving a folder changes its "..", for which it must be writable.
                os.close(tree.unlock(held, entry.name, stat.S_IFDIR, 0o700))
                target = f"{os.urandom(4).hex()}.{moved + count}"
                os.rename(entry.name, target, src_dir_fd=held, dst_dir_fd=top)
    finally:
        os.close(held)
    try:
        os.rmdir(name, dir_fd=top)
    except OSError as error:
        # Something was put into it meanwhile: the next round takes it.
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
            raise
    return count


def _gone(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass

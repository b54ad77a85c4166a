"""
The file tree that guests of the ``isolated`` tier live in: a read-only root that holds what a program needs to start.

It is built once for all guests of one zygote.  Only ``/work`` and ``/tmp`` can be written, and both are made anew for
each guest by :mod:`fastness._native.mother`.
"""

from __future__ import annotations

import os
import stat

from fastness._linux import mounts
from fastness._linux.mounts import MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Where the tree is put together: a folder that every Linux has and that nothing is looked up in meanwhile.
_STAGE = "/tmp"  # noqa: S108  # covered by a mount of our own in a namespace of our own
_PRELOAD_TMP = "size=32m,nr_inodes=1024,mode=1777"
_DEVICES = ("null", "zero", "full", "random", "urandom")
#: Folders of the root that are links into /usr on a merged system, and folders of their own elsewhere.
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
#: Files and folders of /etc that loaders and programs look for and that name nobody.
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "mime.types", "protocols", "services",
        "ssl/certs", "ca-certificates", "os-release")  # fmt: skip
#: More of them for any program: where a distribution keeps what its packages of fonts and of Java cannot start without.
_ETC_OF_PROGRAMS = ("fonts", "timezone", "magic", "ImageMagick-6", "ImageMagick-7")
_ETC_OF_JAVA = "java-"
_GUEST_UID = 1000
_USERS = "root:x:0:0:root:/work:/bin/sh\n{}nobody:x:65534:65534:nobody:/:/bin/false\n"
_USER = "guest:x:{0}:{0}:guest:/work:/bin/sh\n"
_GROUPS = "root:x:0:\n{}nogroup:x:65534:\n"
_GROUP = "guest:x:{0}:\n"
_PLAIN = {"hosts": "127.0.0.1 localhost\n", "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n"}


def build(config: dict[str, Any]) -> None:
    """
    Build the tree in a mount namespace of our own and make it the root.

    ``places`` of ``config`` says where each folder of the machine is to be shown, ``command`` whether any program will
    run in it.
    Raises ``OSError``.
    """
    root = _STAGE
    mounts.make_private()
    # Opened now, for some may lie below the folder that is about to be covered.
    places = sorted(config["places"].items(), key=lambda pair: pair[1])
    extra = [(place, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path, place in places]
    mounts.mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,nr_inodes=4096,mode=755")
    os.umask(0o022)
    for name in ("usr", "dev", "etc", "proc", "box", "work", "tmp", "run", "var"):
        os.mkdir(f"{root}/{name}")
    os.symlink("/run", f"{root}/var/run")
    os.symlink("/tmp", f"{root}/var/tmp")  # noqa: S108  # a name inside the tree
    _show("/usr", root)
    for name in _SYSTEM:
        _system(name, root)
    for name in _DEVICES:
        target = f"{root}/dev/{name}"
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT, 0o666))
        mounts.bind(f"/dev/{name}", target)
        # What is written to a device goes to the device all the same; its times are the host's and must not change.
        mounts.restrict(target, MS_RDONLY | MS_NOSUID | MS_NOEXEC)
    _etc(root, config["uids"][1] - 1 if "uids" in config else 1, programs=config["command"])
    for path, fd in extra:
        if not _covered(path, fd, root):
            _show(path, root, f"/proc/self/fd/{fd}")
        os.close(fd)
    if config["command"]:
        for name, target in (
            ("fd", "self/fd"),
            ("stdin", "self/fd/0"),
            ("stdout", "self/fd/1"),
            ("stderr", "self/fd/2"),
        ):
            os.symlink(f"/proc/{target}", f"{root}/dev/{name}")
        os.mkdir(f"{root}/dev/shm")  # noqa: S108  # inside the tree
    else:
        # For packages that write something while they are imported; each guest's own is laid over it.
        writable = f"{root}/tmp"  # noqa: S108  # inside the tree
        mounts.mount("tmpfs", writable, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, _PRELOAD_TMP)
    # A process file system of this namespace's own, which a guest's will be laid over; the kernel lets one be mounted
    # only where another can be seen already.
    mounts.mount("proc", f"{root}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def uncover(hidden: list[str], paths: list[str]) -> None:
    """
    Show ``paths`` in a mount namespace of our own although folders above them, ``hidden``, may not be entered.

    Over each of those lies a new folder with nothing in it but what was asked for.  Raises ``OSError``.
    """
    mounts.make_private()
    sources = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in sorted(set(paths))]
    for folder in hidden:
        mounts.mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=64k,nr_inodes=256,mode=755")
    for path, fd in sources:
        if any(path.startswith(f"{folder}/") for folder in hidden):
            os.makedirs(path, exist_ok=True)
            mounts.bind(f"/proc/self/fd/{fd}", path)
        os.close(fd)
    for folder in hidden:
        mounts.restrict(folder, MS_RDONLY, recursive=False)


def enter() -> None:
    """Make the tree that :func:`build` has put together the root, read-only, and let the old one go."""
    mounts.pivot_to(_STAGE)
    mounts.remount_readonly("/")


def _show(path: str, root: str, source: str = "") -> None:
    """Show a folder or file of the machine, found at ``source``, at the place ``path`` in the tree, read-only."""
    target = root + path
    source = source or path
    if stat.S_ISDIR(os.stat(source).st_mode):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.lexists(target):
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT, 0o444))
    mounts.bind(source, target)
    mounts.restrict(target, MS_RDONLY | MS_NOSUID | MS_NODEV)


def _system(name: str, root: str) -> None:
    path = f"/{name}"
    if os.path.islink(path):
        os.symlink(os.readlink(path), root + path)
    elif os.path.isdir(path):
        _show(path, root)


def _etc(root: str, users: int, *, programs: bool) -> None:
    java = [name for name in os.listdir("/etc") if name.startswith(_ETC_OF_JAVA)] if programs else []
    for name in (*_ETC, *(_ETC_OF_PROGRAMS if programs else ()), *java):
        path = f"/etc/{name}"
        if os.path.islink(path):
            os.makedirs(os.path.dirname(root + path), exist_ok=True)
            os.symlink(os.readlink(path), root + path)
        elif os.path.exists(path):
            _show(path, root)
    # Each guest may be of another user, and to itself each is the guest.
    numbers = range(_GUEST_UID, _GUEST_UID + users)
    passwd = _USERS.format("".join(map(_USER.format, numbers)))
    group = _GROUPS.format("".join(map(_GROUP.format, numbers)))
    texts = {"passwd": passwd, "group": group, **_PLAIN}
    for name, text in texts.items():
        with open(f"{root}/etc/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _covered(path: str, fd: int, root: str) -> bool:
    """Whether what ``fd`` is of can be seen at ``path`` in the tree already."""
    try:
        ours, theirs = os.stat(root + path), os.fstat(fd)
    except OSError:
        return False
    return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)

"""
The mother of a zygote of the ``isolated`` tier: the one process that may mount, and that never runs foreign code.

The zygote imports packages that we have not read, so it lives under a filter without the calls that mount.  It forks
each guest into a mount namespace of the guest's own; the mother enters that namespace, mounts the guest's writable
folders there and leaves again.  She is the first process of the zygotes' process namespace: when she ends, all end.
"""

from __future__ import annotations

import os
import select
import socket

from fastness._linux import cloning, mounts
from fastness._linux.mounts import MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY
from fastness._native import box, datagrams

#: The guest's own folders: their names in its tree, where they are shown, and their modes.
_FOLDERS = (("work", "/work", 0o755), ("tmp", "/tmp", 0o1777))  # noqa: S108  # of the guest alone
#: Programs share memory and semaphores by files in this one (shm_overview(7)).
_FOLDERS_OF_PROGRAMS = (("shm", "/dev/shm", 0o1777),)  # noqa: S108  # of the guest alone
_PAGE = 4096
#: Of all guests of one zygote together.
_PER_USER = {"max_inotify_instances": 64, "max_inotify_watches": 65536}


def open_proc(*, command: bool) -> int:
    """
    A descriptor of this namespace's ``/proc``, which is then covered where guests have none; before any is forked.

    It cannot be taken away, for it came from a mount namespace with more power.  Raises ``OSError``.
    """
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if not command:
        mounts.mount("tmpfs", "/proc", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,nr_inodes=1")
    return proc


def bound_user(proc: int) -> None:
    """Bound what guests may take of what the kernel counts for a user, who may be the caller.  Where it can be."""
    for name, most in _PER_USER.items():
        try:
            fd = os.open(f"sys/user/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        except OSError:
            continue
        try:
            os.write(fd, str(most).encode())
        except OSError:
            pass  # another kernel, or no power over this namespace: documented as shared
        finally:
            os.close(fd)


def serve(requests: socket.socket, zygote: int, proc: int, *, command: bool) -> None:
    """Mount for guests until the zygote, process number ``zygote``, ends."""
    own = os.open("self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    end = os.pidfd_open(zygote)
    poller = select.poll()
    poller.register(requests, select.POLLIN)
    poller.register(end, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poller.poll()}
        if end in ready:
            return
        message, fds = datagrams.receive_raw(requests)
        if not message:
            return
        process, answer, talk = fds
        uid, files, size, mapped = box.WANTED.unpack(message)
        held = [process, answer, talk]
        # A guest may have been killed, and its caller be gone: that ends nobody else's guests.
        try:
            if mapped:
                _map(proc, process, uid)
            held.append(_mount(process, own, uid, files, size, command=command))
            # Before the guest goes on, or its own first word might be the first that the caller hears.
            box.greet(talk, process, held[-1])
            said = b"+"
        except OSError as error:
            said = str(error).encode()[:400]
        try:
            os.write(answer, said)
        except OSError:
            pass  # the guest has ended and hears nothing
        for fd in held:
            os.close(fd)


def _map(proc: int, process: int, uid: int) -> None:
    """Give the guest's own user namespace the one user that this one has."""
    pid = 0
    with open(os.open(f"self/fdinfo/{process}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc), encoding="ascii") as file:
        for line in file:
            if line.startswith("Pid:"):
                pid = int(line.split()[1])
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{uid} {uid} 1")):
        fd = os.open(f"{pid}/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def _mount(process: int, own: int, uid: int, files: int, file_bytes: int, *, command: bool) -> int:
    """Mount one guest's folders in its namespace; returns a descriptor of its work folder."""
    cloning.enter_mount_namespace(process)
    try:
        flags = MS_NOSUID | MS_NODEV | (0 if command else MS_NOEXEC)
        # Zero would mean "no limit" to the file system.
        size = max(_PAGE, -(-file_bytes // _PAGE) * _PAGE)
        # Beside the run's own files its tree has its root and these folders.
        inodes = files + 1 + len(_FOLDERS) + (len(_FOLDERS_OF_PROGRAMS) if command else 0)
        mounts.mount("tmpfs", "/box", "tmpfs", flags, f"size={size},nr_inodes={inodes},mode=755")
        # Made by the mother, so they are hers until she gives them away.
        for name, place, mode in (*_FOLDERS, *(_FOLDERS_OF_PROGRAMS if command else ())):
            os.mkdir(f"/box/{name}")
            os.chown(f"/box/{name}", uid, uid)
            os.chmod(f"/box/{name}", mode)
            mounts.bind(f"/box/{name}", place, recursive=False)
        mounts.unmount("/box")
        return os.open("/work", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        cloning.enter_mount_namespace(own)

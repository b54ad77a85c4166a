"""
The mother of a zygote of the ``isolated`` tier: the one process that may mount, and that never runs foreign code.

The zygote imports packages that we have not read, so it lives under a filter without the calls that mount.  It forks
each guest into a mount namespace of the guest's own; the mother enters that namespace, mounts the guest's writable
folders there and leaves again.  She is the first process of the zygotes' process namespace: when she ends, all end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket

from fastness._linux import cloning, mounts, plan, procs
from fastness._linux.mounts import MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY
from fastness._linux.syscalls import AT_FDCWD, CLONE_NEWNS, unshare
from fastness._native import box, datagrams

#: The guest's own folders: their names in its tree, where they are shown, and their modes.
_FOLDERS = (("work", "/work", 0o755), ("tmp", "/tmp", 0o1777))  # noqa: S108  # of the guest alone
#: Programs share memory and semaphores by files in this one (shm_overview(7)).
_FOLDERS_OF_PROGRAMS = (("shm", "/dev/shm", 0o1777),)  # noqa: S108  # of the guest alone
_PAGE = 4096
#: Bytes of the name of a file of a process.
_NAME = 64
#: Bytes of a request.
_REQUEST = 4096
#: Seconds without a request after which the next tree is made: the last guest is on its way then, and needs one of the
#: processors, and the next request may come before long.
_QUIET_S = 0.0003


def open_proc(*, command: bool) -> int:
    """
    A descriptor of this namespace's ``/proc``, which is then covered where guests have none; before any is forked.

    It cannot be taken away, for it came from a mount namespace with more power.  Raises ``OSError``.
    """
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if not command:
        mounts.mount("tmpfs", "/proc", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,nr_inodes=1")
    return proc


def serve(requests: socket.socket, zygote: int, proc: int, *, command: bool) -> None:
    """Mount for guests until the zygote, process number ``zygote``, ends."""
    stock, maps = _Stock(proc, command=command), _Maps(proc)
    hello = plan.Plan()
    own = hello.add_message(0, plan.memory(b"+"), 2)[1]
    end = os.pidfd_open(zygote)
    poller = select.poll()
    poller.register(requests, select.POLLIN)
    poller.register(end, select.POLLIN)
    while True:
        # poll(2) knows no part of a millisecond.
        quiet = stock.wants and not select.select([requests], [], [], _QUIET_S)[0]
        ready = {fd for fd, _ in poller.poll(0 if quiet else None)}
        if not ready:
            stock.refill()
            continue
        if end in ready:
            return
        message, fds = datagrams.receive_raw(requests, _REQUEST)
        if not message:
            return
        process, answer, talk = fds
        uid, files, size, mapped = box.WANTED.unpack(message)
        held = [process, answer, talk]
        # A guest may have been killed, and its caller be gone: that ends nobody else's guests.
        try:
            if mapped:
                maps.give(process, uid)
            held.append(stock.give(process, uid, files, size))
            # Before the guest goes on, or its own first word might be the first that the caller hears.
            own[:] = [process, held[-1]]
            hello.put(0, talk)
            box.greet(talk, process, held[-1], hello)
            said = b"+"
        except OSError as error:
            said = box.BAD_NEWS + str(error).encode()[:400]
        try:
            os.write(answer, said)
        except OSError:
            pass  # the guest has ended and hears nothing
        for fd in held:
            os.close(fd)


class _Maps:
    """Gives guests' own user namespaces the one user that the mother's has."""

    def __init__(self, proc: int) -> None:
        self._proc = proc
        self._paths = [(name, plan.memory(_NAME)) for name in ("setgroups", "uid_map", "gid_map")]
        self._for = (-1, -1)
        self._calls = plan.Plan()

    def give(self, process: int, uid: int) -> None:
        """For the guest with this process.  Raises ``OSError``."""
        free = os.dup(self._proc)
        os.close(free)
        if self._for != (uid, free):
            self._calls = self._plan(uid, free)
            self._for = uid, free
        pid = self._number(process)
        for name, path in self._paths:
            path.value = f"{pid}/{name}".encode()
        try:
            self._calls.run()
        except OSError:
            with contextlib.suppress(OSError):
                os.close(free)
            raise

    def _plan(self, uid: int, free: int) -> plan.Plan:
        """The calls, for what is open next to have the number ``free``."""
        calls = plan.Plan()
        for name, path in self._paths:
            text = b"deny" if name == "setgroups" else f"{uid} {uid} 1".encode()
            calls.add("openat", self._proc, path, os.O_WRONLY | os.O_CLOEXEC, 0, result=free)
            calls.add("write", free, text, len(text), result=len(text))
            calls.add("close", free)
        return calls

    def _number(self, process: int) -> int:
        try:
            return procs.process_number(process)
        except OSError as error:
            if error.errno == errno.ESRCH:
                raise
        # The kernel does not know the call (before Linux 6.13).
        fd = os.open(f"self/fdinfo/{process}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        try:
            told = os.read(fd, _PAGE)
        finally:
            os.close(fd)
        # Of a process that has ended it is -1, and of what is no process it is not there: there are no such folders.
        return int(told.partition(b"\nPid:")[2].partition(b"\n")[0] or 0)


class _Stock:
    """
    Trees of guests, of which one like the last is made ahead where the kernel has mounts that are in no tree (5.2).

    They are made in a mount namespace of the mother's own, where the zygote does not see them: what it has imported
    must not hold a guest's folder.  A tree is one guest's alone and empty until it has it.
    """

    def __init__(self, proc: int, *, command: bool) -> None:
        self._folders = (*_FOLDERS, *(_FOLDERS_OF_PROGRAMS if command else ()))
        self._texts = [mounts.text(place) for _, place, _ in self._folders]
        self._flags = MS_NOSUID | MS_NODEV | (0 if command else MS_NOEXEC)
        unshare(CLONE_NEWNS)
        self._own = os.open("self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
        self._here = plan.memory(b".\0")
        #: Where the kernel puts the number of a work folder's descriptor.
        self._work = plan.number()
        self._giving = self._plan_giving()
        self._kind = (0, 0)
        #: The calls that lay out a tree of this kind.
        self._layout = plan.Plan()
        self._ready: list[int] = []
        #: Whether one is to be made ahead.
        self.wants = False
        self._able = True

    def give(self, process: int, uid: int, files: int, file_bytes: int) -> int:
        """Put a tree of this size into a guest's namespace; returns a descriptor of its work folder."""
        kind = files, file_bytes
        if kind != self._kind:
            self._drop()
            self._kind, self._layout = kind, self._plan(files, file_bytes)
        if self._able:
            try:
                return self._attach(process, uid)
            except OSError as error:
                if error.errno not in (errno.ENOSYS, errno.EPERM):
                    raise
                # An older kernel, or a filter of a container that does not know the calls.
                self._able = self.wants = False
        return self._mount(process, uid)

    def _attach(self, process: int, uid: int) -> int:
        if not self._ready:
            self._make()
        trees, self._ready = self._ready, []
        self.wants = True
        calls, count = self._giving, len(trees)
        try:
            for index, tree in enumerate(trees):
                calls.put(index, tree, plan.address(self._here), uid, uid)
                calls.put(count + 1 + index, tree)
            calls.put(count, process)
            calls.put(len(calls) - 1, trees[0])
            try:
                calls.run()
            except OSError:
                cloning.enter_mount_namespace(self._own)
                raise
            return self._work.value
        finally:
            for tree in trees:
                os.close(tree)

    def _plan_giving(self) -> plan.Plan:
        """What puts trees into a guest's namespace."""
        calls = plan.Plan()
        for _ in self._folders:
            # Made by the mother, so they are hers until she gives them away.
            calls.add("fchownat", 0, self._here, 0, 0, 0)
        calls.add("setns", 0, CLONE_NEWNS)
        for text in self._texts:
            mounts.plan_attach(calls, text)
        calls.add("setns", self._own, CLONE_NEWNS)
        folder = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        calls.add("openat", 0, self._here, folder, 0, result=plan.ANY, put_at=plan.address(self._work))
        return calls

    def refill(self) -> None:
        """Make a tree ahead.  What fails is tried again when a guest needs it."""
        self.wants = False
        try:
            self._make()
        except OSError:
            self._drop()

    def _make(self) -> None:
        self._layout.run()
        try:
            for name, _, _ in self._folders:
                self._ready.append(mounts.clone(f"/box/{name}"))
        except OSError:
            self._drop()
            raise
        finally:
            mounts.unmount("/box")

    def _drop(self) -> None:
        for fd in self._ready:
            os.close(fd)
        self._ready.clear()

    def _plan(self, files: int, file_bytes: int) -> plan.Plan:
        """What mounts a tree at ``/box``, with its folders in it."""
        # Zero would mean "no limit" to the file system.
        size = max(_PAGE, -(-file_bytes // _PAGE) * _PAGE)
        # Beside the run's own files its tree has its root and these folders.
        inodes = files + 1 + len(self._folders)
        calls = plan.Plan()
        options = f"size={size},nr_inodes={inodes},mode=755".encode()
        calls.add("mount", b"tmpfs", b"/box", b"tmpfs", self._flags, options)
        for name, _, mode in self._folders:
            path = f"/box/{name}".encode()
            calls.add("mkdirat", AT_FDCWD, path, mode)
            # What is masked out of a new folder's mode is given to it here.
            calls.add("fchmodat", AT_FDCWD, path, mode)
        return calls

    def _mount(self, process: int, uid: int) -> int:
        """The same as :meth:`give`, in the guest's namespace from the first."""
        cloning.enter_mount_namespace(process)
        try:
            self._layout.run()
            for name, place, _ in self._folders:
                os.chown(f"/box/{name}", uid, uid)
                mounts.bind(f"/box/{name}", place, recursive=False)
            mounts.unmount("/box")
            return os.open("/work", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            cloning.enter_mount_namespace(self._own)

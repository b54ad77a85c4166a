"""Giving things up: namespaces, identity, capabilities, limits, writable code; and the filter itself."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from fastness._linux import procs

Child = Callable[..., Any]


def test_namespaces_are_left(child: Child, user: str) -> None:
    """The links under /proc/self/ns change for every namespace that is reported as left, and only for those."""
    done = child(
        """
        kinds = {"net": "net", "ipc": "ipc", "uts": "uts", "mount": "mnt", "cgroup": "cgroup", "user": "user"}
        before = {kind: os.readlink("/proc/self/ns/" + link) for kind, link in kinds.items()}
        left = namespaces.leave_all()
        after = {kind: os.readlink("/proc/self/ns/" + link) for kind, link in kinds.items()}
        changed = sorted(kind for kind in kinds if before[kind] != after[kind])
        print(changed == sorted(left.entered), sorted(kinds) == sorted([*left.entered, *left.failed]))
        print(os.getuid(), os.getgroups(), left.own_uid, repr(left.uid_gap))
        """,
        user=user,
    )
    assert done.stdout.splitlines()[0] == "True True", done.stderr
    assert done.stdout.splitlines()[1] == f"65534 [] {user == 'root' and os.geteuid() == 0} ''"


def test_refused_namespaces_are_reported(child: Child, user: str) -> None:
    """What the kernel does not let us leave is a gap with its reason, not an exception and not a silence."""
    done = child(
        """
        def refuse(flags): raise OSError(1, "Operation not permitted")
        namespaces.unshare = refuse
        left = namespaces.leave_all()
        print(left.entered, len(left.failed), left.failed["user"])
        """,
        user=user,
    )
    assert done.stdout.strip() == "[] 6 Operation not permitted", done.stderr


def test_root_that_cannot_leave_is_reported(child: Child) -> None:
    """A root that may not change its user stays root and says so."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    done = child("""
        def refuse(): raise PermissionError(1, "Operation not permitted")
        namespaces.become_nobody = refuse
        left = namespaces.leave_all()
        print(left.own_uid, left.uid_gap)
    """)
    assert done.stdout.strip() == "False the process stays root: Operation not permitted"


def test_no_capability_remains(child: Child, user: str) -> None:
    """All five sets are empty; where the bounding set could not be emptied that is said."""
    done = child(
        """
        namespaces.leave_all()
        print(repr(privileges.drop_capabilities()))
        print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith("Cap")])
        """,
        user=user,
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "''", done.stderr
    assert lines[1].split() == ["0" * 16] * 5


def test_bounding_set_of_an_ordinary_user_is_reported(child: Child) -> None:
    """Without CAP_SETPCAP the bounding set stays; the usable sets are empty all the same."""
    done = child(
        """
        print(privileges.drop_capabilities())
        print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith(("CapPrm", "CapEff"))])
        """,
        user="nobody",
    )
    assert done.stdout.splitlines() == ["the bounding set stays: no CAP_SETPCAP", "0" * 16 + " " + "0" * 16]


def test_limits_are_lowered_and_never_raised(child: Child, user: str) -> None:
    """Both limits become the value; a value above the hard limit leaves it where it is."""
    done = child(
        """
        def limit():
            line = [line for line in open("/proc/self/limits") if line.startswith("Max open files")][0]
            return line.split()[3:5]
        privileges.set_limit(privileges.RLIMIT_NOFILE, 50); print(*limit())
        privileges.set_limit(privileges.RLIMIT_NOFILE, 80); print(*limit())
        """,
        user=user,
    )
    assert done.stdout.splitlines() == ["50 50", "50 50"], done.stderr


def test_flags_are_set(child: Child, user: str) -> None:
    """After the two calls the process can gain nothing by exec and is not dumpable."""
    done = child(
        """
        privileges.forbid_new_privileges(); privileges.hide_memory()
        print(syscalls.prctl(syscalls.PR_GET_NO_NEW_PRIVS), syscalls.prctl(syscalls.PR_GET_DUMPABLE))
        """,
        user=user,
    )
    assert done.stdout.strip() == "1 0"


def test_writable_code_is_closed_and_callbacks_go_on_working(child: Child) -> None:
    """No mapping stays writable and executable, and a callback made before can still be called."""
    done = child("""
        def bad():
            return [line.split()[1] for line in open("/proc/self/maps") if "wx" in line.split()[1]]
        page = syscalls.raw("mmap", 0, 4096, 7, 0x22, -1, 0)
        call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: x + 1)
        print(len(bad()) >= 1, privileges.close_writable_code() >= 1, bad(), call(41))
    """)
    assert done.stdout.strip() == "True True [] 42", done.stderr


def test_two_views_of_one_page_are_closed(child: Child) -> None:
    """A shared page that is mapped once to write and once to execute writes code as well."""
    done = child("""
        fd = memory.memory_file(4096)
        fd2 = syscalls.raw("memfd_create", ctypes.addressof(ctypes.create_string_buffer(b"x")), 0)
        os.ftruncate(fd2, 4096)
        writable = syscalls.raw("mmap", 0, 4096, 3, 1, fd2, 0)
        code = syscalls.raw("mmap", 0, 4096, 5, 1, fd2, 0)
        other = syscalls.raw("mmap", 0, 4096, 3, 1, fd, 0)
        privileges.close_writable_code()
        wanted = {"%x" % address: name for address, name in ((writable, "w"), (code, "x"), (other, "o"))}
        for line in open("/proc/self/maps"):
            row = line.split()
            if row[0].split("-")[0] in wanted: print(wanted[row[0].split("-")[0]], row[1])
    """)
    assert sorted(done.stdout.splitlines()) == ["o rw-s", "w r--s", "x r-xs"], done.stderr


def test_child_dies_with_its_parent(child: Child, user: str) -> None:
    """The grandchild, confined like an engine, ends when the process that started it is killed."""
    done = child(
        """
        reader, writer = os.pipe()
        middle = os.fork()
        if middle == 0:
            parent = os.getpid()
            if os.fork() == 0:
                os.dup2(writer, 2)  # the filter lets it write to the standard streams only
                confine.confine_engine(parent=parent)
                os.write(2, b"ready")
                select.poll().poll()
            signal.pause()
        os.close(writer)
        print(os.read(reader, 9).decode())
        os.kill(middle, 9); os.waitpid(middle, 0)
        poller = select.poll(); poller.register(reader, select.POLLIN)
        print(bool(poller.poll(10000)), os.read(reader, 9))
        """,
        user=user,
    )
    assert done.stdout.splitlines() == ["ready", "True b''"], done.stderr


def test_parent_that_is_gone_already_is_noticed(child: Child) -> None:
    """A signal that can never come is no protection: the call fails where the parent is another by then."""
    done = child("print(error_of(privileges.die_with_parent, os.getppid() + 1))")
    assert done.stdout.strip() == "ESRCH"


def test_filter_for_all_threads(child: Child, user: str) -> None:
    """With all_threads a thread that already runs is under the filter as well; its next call decides."""
    done = child(
        """
        go = _thread.allocate_lock(); go.acquire()
        def other():
            go.acquire()
            os.getuid()
        _thread.start_new_thread(other, ())
        privileges.forbid_new_privileges()
        print(os.getuid() >= 0, flush=True)
        seccomp.install(profiles.program("x86_64", "engine/serve"), all_threads=True)
        go.release()
        while True: time.sleep(1)
        """,
        user=user,
    )
    assert (done.stdout.strip(), done.returncode) == ("True", -signal.SIGSYS)


def test_thread_with_its_own_filter_is_an_error(child: Child) -> None:
    """A thread that cannot be taken along would stay outside: that is an error and not a warning."""
    done = child("""
        go = _thread.allocate_lock(); go.acquire(); up = _thread.allocate_lock(); up.acquire()
        # allow everything: check of nothing, return ALLOW
        program = struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000)
        privileges.forbid_new_privileges()
        def other():
            seccomp.install(program)
            up.release(); go.acquire()
        _thread.start_new_thread(other, ()); up.acquire()
        print(error_of(lambda: seccomp.install(program, all_threads=True)))
    """)
    assert done.stdout.strip() == "ESRCH", done.stderr


def test_filter_without_no_new_privs_is_refused(child: Child) -> None:
    """The kernel's own condition reaches the caller as an error."""
    done = child('print(error_of(seccomp.install, profiles.program("x86_64", "engine/serve")))', user="nobody")
    assert done.stdout.strip() == "EACCES"


def test_something_that_is_no_program_is_refused(child: Child) -> None:
    """Neither nothing nor half an instruction is installed."""
    done = child('print(error_of(seccomp.install, b""), error_of(seccomp.install, bytes(12)))')
    assert done.stdout.strip() == "EINVAL EINVAL"


class TestProcesses:
    """Ending all of a process's descendants, and finding those that got away."""

    def test_tree_is_ended(self) -> None:
        """The root, its children and a grandchild in a session of its own are all gone afterwards."""
        script = "sleep 300 & setsid sh -c 'sleep 300 & sleep 300 & wait' & wait"
        root = subprocess.Popen(["sh", "-c", script], start_new_session=True)
        try:
            deadline = time.monotonic() + 10
            while len(procs.descendants(root.pid)) < 4 and time.monotonic() < deadline:
                time.sleep(0.01)
            below = procs.descendants(root.pid)
            assert len(below) >= 4
            identities = {pid: procs.start_time(pid) for pid in below}
            assert procs.kill_tree(root.pid)
        finally:
            root.kill()
            root.wait()
        for pid, started in identities.items():
            assert procs.start_time(pid) != started or pid not in procs.descendants(1)
        assert root.returncode == -signal.SIGKILL

    def test_tree_that_is_gone_is_no_error(self) -> None:
        """Ending what has ended is a success."""
        process = subprocess.Popen(["true"])
        process.wait()
        assert procs.kill_tree(process.pid)
        assert procs.start_time(process.pid) is None

    def test_end_is_readable(self) -> None:
        """A pidfd tells of the end without reaping, and signals that process only."""
        process = subprocess.Popen(["sleep", "300"])
        pidfd = procs.pidfd_open(process.pid)
        try:
            assert not procs.wait_for_end(pidfd, 0)
            procs.pidfd_send_signal(pidfd, signal.SIGKILL)
            assert procs.wait_for_end(pidfd, 10)
            assert process.wait() == -signal.SIGKILL
            with pytest.raises(ProcessLookupError):
                procs.pidfd_send_signal(pidfd, signal.SIGKILL)
        finally:
            os.close(pidfd)

    @pytest.mark.parametrize("where", ["argument", "environment"])
    def test_orphans_are_found_by_their_marker(self, where: str) -> None:
        """A process whose parent has ended is found by its arguments or its environment, and only while it lives."""
        marker = f"orphan-of-{os.getpid()}-{where}"
        arguments = ["sh", "-c", "sleep 300 >/dev/null & echo $!", "sh"]
        environment = dict(os.environ)
        if where == "environment":
            environment["FASTNESS_TEST_MARKER"] = marker
        else:
            arguments = ["sh", "-c", f"sh -c 'sleep 300; : {marker}' >/dev/null & echo $!"]
        pid = int(subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, check=True).stdout.split()[0])
        try:
            assert pid in procs.orphans(marker)
            assert pid not in procs.orphans(marker, but=(pid,))
        finally:
            procs.kill_tree(pid)
        assert pid not in procs.orphans(marker)

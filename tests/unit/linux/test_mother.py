"""Trees that the mother of a zygote puts into a guest's mount namespace, made ahead or there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import house

Child = Callable[..., Any]

_GIVE = """
uid, gid = os.getuid(), os.getgid()
if uid:
    syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open("/proc/self/" + name, "w") as file:
            file.write(text)
else:
    syscalls.unshare(syscalls.CLONE_NEWNS)
mounts.make_private()
proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
mounts.mount("tmpfs", "/mnt", "tmpfs", 0, "size=1m")
for name in ("box", "work", "tmp", "dev", "dev/shm"):
    os.mkdir("/mnt/" + name)
mounts.pivot_to("/mnt")
owner = 0 if uid else 4321
OLD = %s
if OLD:
    def clone(path): raise OSError(errno.ENOSYS, "open_tree")
    mounts.clone = clone
stock = mother._Stock(proc, command=%s)

def guest():
    told, telling = os.pipe()
    out, say = os.pipe()
    pid = cloning.fork_into(syscalls.CLONE_NEWNS)
    if pid == 0:
        os.close(telling)
        os.read(told, 1)
        for name in ("/work", "/tmp", "/dev/shm"):
            size, at = os.statvfs(name), os.stat(name)
            shown = (size.f_blocks * size.f_frsize, size.f_files, bool(size.f_flag & os.ST_NOEXEC),
                     bool(size.f_flag & os.ST_NOSUID), bool(size.f_flag & os.ST_NODEV), at.st_uid, oct(at.st_mode))
            os.write(say, (name + " " + repr(shown) + "\\n").encode())
        os.write(say, (repr(os.listdir("/box")) + repr(sorted(os.listdir("/work"))) + "\\n").encode())
        os._exit(0)
    os.close(say)
    return pid, os.pidfd_open(pid), telling, out

for files, size, ahead in ((10, 65536, False), (10, 65536, True), (20, 1, False)):
    pid, process, telling, out = guest()
    if ahead:
        assert stock.wants is not OLD
        stock.refill()
        assert bool(stock._ready) is not OLD, stock._able
    work = stock.give(process, owner, files, size)
    os.close(os.open("ours", os.O_WRONLY | os.O_CREAT, dir_fd=work))
    os.write(telling, b"+")
    os.waitpid(pid, 0)
    print(os.read(out, 4096).decode(), end="")
print(os.listdir("/work"), os.listdir("/box"), len(open(os.open("self/mounts", os.O_RDONLY, dir_fd=proc)).readlines()) < 60)
"""


@pytest.mark.parametrize("old", [False, True], ids=["ahead", "as before Linux 5.2"])
@pytest.mark.parametrize("command", [False, True], ids=["python", "programs"])
def test_a_tree_of_a_guest(child: Child, user: str, old: bool, command: bool) -> None:
    """Its size, its flags and its owner are the same however it came there, and no two guests share one."""
    house.require("isolated tier")
    done = child(_GIVE % (old, command), user=user)
    folders = ["/work", "/tmp", *(["/dev/shm"] if command else [])]
    own = 4321 if user == "root" else 0
    modes = {"/work": "0o40755", "/tmp": "0o41777", "/dev/shm": "0o41777"}
    expected = []
    for files, size in ((10, 65536), (10, 65536), (20, 4096)):
        total = files + 1 + len(folders)
        expected += [f"{name} {(size, total, not command, True, True, own, modes[name])!r}" for name in folders]
        expected.append("[]['ours']")
    lines = [line for line in done.stdout.splitlines() if command or not line.startswith("/dev/shm")]
    assert lines == [*expected, "[] [] True"], done.stderr


_MAP = """
uid, gid = os.getuid(), os.getgid()
if uid:
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open("/proc/self/" + name, "w") as file:
            file.write(text)
proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
if OLD:
    def process_number(pidfd): raise OSError(errno.ENOTTY, "ioctl")
    mother.procs.process_number = process_number
maps = mother._Maps(proc)

def guest():
    told, telling = os.pipe()
    pid = cloning.fork_into(syscalls.CLONE_NEWUSER)
    if pid == 0:
        os.close(telling)
        os.read(told, 1)
        os._exit(os.getuid())
    os.close(told)
    return pid, os.pidfd_open(pid), telling

def opened():
    return len(os.listdir("/proc/self/fd"))

before = opened()
for _ in range(2):
    pid, process, telling = guest()
    maps.give(process, 0)
    print([open(f"/proc/{pid}/{name}").read().split() for name in ("setgroups", "uid_map", "gid_map")])
    print(error_of(maps.give, process, 0))
    os.close(telling)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    print(error_of(maps.give, process, 0))
    os.close(process)
print(opened() - before)
"""


@pytest.mark.parametrize("old", [False, True], ids=["by the kernel", "as before Linux 6.13"])
def test_a_user_of_a_guest(child: Child, user: str, old: bool) -> None:
    """It is mapped once; who has one, and who has ended, gets none, and nothing is left open by that."""
    house.require("isolated tier")
    done = child(f"OLD = {old}" + _MAP, user=user)
    mapped = "[['deny'], ['0', '0', '1'], ['0', '0', '1']]"
    # A process that has ended has no number, or none that names a folder.
    ended = "ENOENT" if old else "ESRCH"
    assert done.stdout.splitlines() == [mapped, "EPERM", "0", ended] * 2 + ["0"], done.stderr

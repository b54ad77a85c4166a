"""
The first process of a zygote: leaves the caller's namespaces, starts the rest, and then only records refusals.

It is started with ``exec`` in an environment built from nothing, with one socket to the caller.  What it learns comes
over that socket; its arguments name nothing but the socket and the source folder.  When the caller ends, however that
happens, the kernel ends this process, and with it everything that it started.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import socket
import sys

from fastness._linux import machine_code, notify, privileges, profiles, seccomp
from fastness._linux.syscalls import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    MACHINE,
    unshare,
)
from fastness._native import box, command, datagrams, interior, mother, tree, zygote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any

#: The user that guests are inside their namespace: no one with power, and a number that tools expect of a person.
GUEST_UID = 1000
#: Descriptors that a zygote needs, and the most that it asks for: one for each guest, and then some.
_DESCRIPTORS = 256
_DESCRIPTORS_MOST = 4096
#: Bytes of what comes with a guest's listener: its name and its filter's.
_RECORD = 1024


def main() -> Callable[[], Callable[[], None]]:
    """
    Take the configuration and become the launcher, the mother or the zygote.

    Returns only in the zygote.  What it returns makes guests for ever, and returns in each of them what runs the guest,
    from a frame that holds nothing of what came before.
    """
    # Before the first word: a caller that is killed now may have left a copy of the socket in a child of its own.
    parent = os.getppid()
    privileges.die_with_parent(parent)
    command.hear_children()
    os.chdir("/")
    control = socket.socket(fileno=int(sys.argv[1]))
    config, _ = datagrams.receive(control)
    if config is None:
        os._exit(0)
    if config["parent"] != parent:
        os._exit(0)
    os.umask(0o022)
    try:
        _allow_descriptors()
        machine_code.prepare()
        if config["kind"] == "python":
            # Nobody will find its files from where the zygote is.
            config["code"] = interior.code()
        return _isolated(control, config) if config["tier"] == "isolated" else _confined(control, config)
    except OSError as error:
        _fail(control, error)
        os._exit(1)


def _allow_descriptors() -> None:
    """Use what the caller may have open at most; its present limit may be for programs that use ``select(2)``."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= allowed < _DESCRIPTORS:
        raise OSError(errno.EMFILE, f"RLIMIT_NOFILE is {allowed}, and a zygote needs {_DESCRIPTORS} descriptors")
    most = _DESCRIPTORS_MOST
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(allowed, most) if allowed >= 0 else most, allowed))


def _fail(control: socket.socket, error: OSError) -> None:
    try:
        where = f"{error.filename}: " if error.filename else ""
        datagrams.send(control, {"failed": f"{where}{error.strerror or error}", "errno": error.errno or 0})
    except OSError:
        pass


# The tier isolated.


def _isolated(control: socket.socket, config: dict[str, Any]) -> Callable[[], Callable[[], None]]:
    root = "uids" in config
    if root:
        # Root builds the tree with its own power, which reaches folders that the guests' user may not enter.
        unshare(CLONE_NEWPID)
    else:
        uid, gid = os.getuid(), os.getgid()
        unshare(CLONE_NEWUSER)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{GUEST_UID} {uid} 1"),
            ("gid_map", f"{GUEST_UID} {gid} 1"),
        ):
            _write(f"/proc/self/{name}", text)
        unshare(CLONE_NEWPID)
    told, telling = os.pipe()
    asked, asking = datagrams.pair()
    records, recording = datagrams.pair()
    pid = os.fork()
    if pid:
        os.close(told)
        asking.close()
        recording.close()
        if root:
            if datagrams.receive(asked)[0] is None:
                _reap(pid)
            base, count = config["uids"]
            for name in ("uid_map", "gid_map"):
                _write(f"/proc/{pid}/{name}", f"0 {base} 1\n{GUEST_UID} {base + 1} {count - 1}")
            os.setgroups([])
            os.setresgid(base, base, base)
            os.setresuid(base, base, base)
            privileges.die_with_parent(config["parent"])
        os.write(telling, b"1")
        asked.close()
        _supervise(control, records, pid)
    try:
        os.close(telling)
        asked.close()
        records.close()
        _first(config, root, told, asking)
        return _family(control, config, recording, root)
    except OSError as error:
        _fail(control, error)
        os._exit(1)


def _first(config: dict[str, Any], root: bool, told: int, asking: socket.socket) -> None:
    """The steps of the first process in the new process namespace."""
    # The parent is in another process namespace and has no number here.
    privileges.die_with_parent(0)
    unshare(CLONE_NEWNS)
    tree.build(config)
    tree.enter()
    if root:
        unshare(CLONE_NEWUSER)
        datagrams.send(asking, {})
    # The launcher writes the user map first, and a launcher that has ended writes nothing.
    if os.read(told, 1) != b"1":
        os._exit(1)
    os.close(told)
    asking.close()
    if root:
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        privileges.die_with_parent(0)
    # A zygote that forks into groups must see them; there each guest leaves by itself, from inside its group.
    groups = 0 if config["into_groups"] else CLONE_NEWCGROUP
    unshare((CLONE_NEWNS if root else 0) | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | groups)
    socket.sethostname("fastness")


def _family(
    control: socket.socket, config: dict[str, Any], recording: socket.socket, root: bool
) -> Callable[[], Callable[[], None]]:
    """Fork the zygote; this process stays behind as its mother."""
    requests, requesting = datagrams.pair()
    command_kind = config["kind"] == "command"
    proc = mother.open_proc(command=command_kind)
    pid = os.fork()
    if pid:
        control.close()
        recording.close()
        requesting.close()
        _drop_streams()
        mother.serve(requests, pid, proc, command=command_kind)
        os._exit(0)
    os.setsid()
    requests.close()
    privileges.die_with_parent(1)
    return _zygote(control, config, recording, requesting, root)


# The tier confined.


def _confined(control: socket.socket, config: dict[str, Any]) -> Callable[[], Callable[[], None]]:
    root = "uids" in config
    if root:
        base = config["uids"][0]
        if config["hidden"]:
            # Folders that the guests' user may not enter are shown to it in a mount namespace of root's own.
            unshare(CLONE_NEWNS)
            tree.uncover(config["hidden"], [*config["paths"], config["boxes"]])
        os.setgroups([])
        os.setresgid(base, base, base)
        os.setresuid(base, base, base)
        privileges.die_with_parent(config["parent"])
    records, recording = datagrams.pair()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        recording.close()
        _supervise(control, records, pid)
    os.setsid()
    records.close()
    privileges.die_with_parent(parent)
    return _zygote(control, config, recording, None, root)


# Both.


def _zygote(
    control: socket.socket, config: dict[str, Any], recording: socket.socket, mothers: socket.socket | None, root: bool
) -> Callable[[], Callable[[], None]]:
    serve = command.serve if config["kind"] == "command" else box.serve
    return zygote.run(control, config, recording, mothers, serve, own_users=root)


def _supervise(control: socket.socket, records: socket.socket, child: int) -> None:
    """Record refused calls of all guests until the family has ended, then end.  Never returns."""
    _drop_streams()
    end = os.pidfd_open(child)
    answers = {name: profiles.answers(MACHINE, name) for name in box.PROFILES}
    program = profiles.program(MACHINE, "supervisor/serve")

    def told(name: Hashable, row: notify.Row) -> None:
        datagrams.send(control, {"denial": name, "operation": row.name, "target": row.detail, "count": row.count})

    def add(events: int) -> None:
        data, fds = datagrams.receive_raw(records, _RECORD)
        if not data:
            supervisor.unwatch(records.fileno())
            return
        message = json.loads(data)
        supervisor.add(fds[0], message["box"], answers[message["profile"]])

    def ended(name: Hashable, reason: str) -> None:
        if reason != "ended":
            datagrams.send(control, {"unrecorded": name})

    supervisor = notify.Supervisor(told, ended)
    supervisor.watch(records.fileno(), add)
    # An interpreter that is under the filter ends at once and without its own last steps.
    supervisor.watch(end, lambda events: os._exit(0))
    privileges.drop_capabilities()
    privileges.hide_memory()
    privileges.forbid_new_privileges()
    seccomp.install(program)
    try:
        while True:
            supervisor.step()
    finally:
        os._exit(1)


def _drop_streams() -> None:
    """Nothing is said on these, and the caller's end of them must not be held open."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def _reap(pid: int) -> None:
    os.waitpid(pid, 0)
    os._exit(1)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(fd)

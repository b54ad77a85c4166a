"""
The module firewall of the worker tier: an audit hook that refuses processes, sockets and native code.

A hook cannot be taken off again (``sys.addaudithook``, PEP 578).  It is mediation and no wall: the same interpreter
runs it and the code that it judges.  What no event is raised for is taken out of the modules instead.

The hook itself is one function that uses nothing which user code can change: no global name, no function written in
Python, only values that were bound when it was made, and the function is a copy that no name leads to.  It asks objects
of user code nothing: types are compared by identity, and what is of no plain type is copied by functions of the
interpreter's own, or refused.  An exception shows its frame, and through it its variables, so the one power that it
holds is dropped before anything is raised.
"""

from __future__ import annotations

import _imp
import _signal  # type: ignore[import-not-found]  # the part of `signal` that is built in
import builtins
import functools
import os
import posix
import signal
import sys
import time
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Functions that no audit event is raised for, and that reach other processes or give up this one's standing.
_SILENT = (
    "pidfd_open", "setns", "unshare", "chroot", "mknod", "setpriority", "sched_setscheduler", "sched_setparam",
    "sched_setaffinity", "setuid", "seteuid", "setreuid", "setresuid", "setgid", "setegid", "setregid", "setresgid",
    "setgroups", "initgroups", "setpgid", "tcsetpgrp", "login_tty",
)  # fmt: skip

#: Modules of native code that are refused by the last part of their names: they start processes, call or load native
#: code, lead to other interpreters, or open files without an event.
_NATIVE = frozenset((
    "_posixsubprocess", "_ctypes", "_ctypes_test", "_cffi_backend", "_tkinter", "_testcapi", "_testinternalcapi",
    "_testlimitedcapi", "_testbuffer", "_testmultiphase", "_testclinic", "_testsinglephase", "_testimportmultiple",
    "_testexternalinspection", "_remote_debugging", "_xxsubinterpreters", "_xxinterpchannels", "_interpreters",
    "_interpchannels", "_interpqueues", "_xxtestfuzz", "nis", "readline",
))  # fmt: skip

_told: dict[tuple[str, str], int] = {}
_dropped = [0]
_TOLD_CAP = 64


def claims() -> tuple[list[dict[str, object]], int]:
    """What was refused since the last call, and how many rows there was no room for."""
    rows: list[dict[str, object]] = [
        {"operation": operation, "target": target, "count": count} for (operation, target), count in _told.items()
    ]
    dropped = _dropped[0]
    _told.clear()
    _dropped[0] = 0
    return rows, dropped


def _teller(now: Callable[[str, str], None]) -> Callable[[str, object], None]:
    def tell(operation: str, target: Any) -> None:
        if type(target) is bytes:
            target = target.decode("utf-8", "backslashreplace")
        # No method of user code is called for this: what is of no exact type of these is left out.
        if type(target) is tuple or type(target) is list:
            target = " ".join(str(item) for item in target[:32] if type(item) is str or type(item) is int)
        text = target if type(target) is str else str(target) if type(target) is int else ""
        shown = text[:200].encode("utf-8", "backslashreplace").decode()[:256]
        key = (operation[:64], shown)
        if key in _told:
            _told[key] += 1
        elif len(_told) < _TOLD_CAP:
            _told[key] = 1
            now(*key)
        else:
            _dropped[0] += 1

    return tell


def _hook(
    build: Any, tell: Any, since: int, folders: tuple[str, ...], me: int, tools: Any, event: str, args: Any
) -> None:
    # Only what is in the arguments, and constants: see the module's text.
    if event not in {
        "import", "open", "os.listdir", "os.scandir", "fastness.create_builtin", "fastness.refuse",
        "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.kill", "os.killpg",
        "os.putenv", "pty.spawn", "subprocess.Popen",
        "socket.__new__", "socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
        "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo", "socket.sethostname",
        "ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle", "ctypes.call_function", "ctypes.cdata",
        "ctypes.cdata/buffer", "ctypes.addressof", "ctypes.string_at", "ctypes.wstring_at", "ctypes.get_errno",
        "ctypes.set_errno", "ctypes.create_string_buffer", "ctypes.create_unicode_buffer", "ctypes.PyObj_FromPtr",
        "ctypes.memoryview_at",
        "sqlite3.enable_load_extension", "sqlite3.load_extension", "fcntl.fcntl", "fcntl.ioctl",
        "gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames", "sys._current_exceptions",
        "cpython.PyInterpreterState_New", "cpython.PyInterpreterState_Clear", "cpython.remote_debugger_script",
        "sys.remote_exec", "resource.setrlimit", "resource.prlimit", "syslog.openlog", "syslog.syslog",
        "signal.pthread_kill",
    }:  # fmt: skip
        return
    (
        kind,
        closed,
        length,
        plain,
        text,
        data,
        number,
        extend,
        each,
        look,
        status,
        real,
        shut,
        failed,
        space,
        any_error,
        joined,
        copied,
        bits,
        natives,
        leave,
    ) = tools
    target: Any = ""
    error = kind
    if event == "fastness.create_builtin":
        # Anybody may raise this event, with any arguments.
        try:
            name, box = args
            if plain(name) is text and name not in natives and name not in {"posix", "_imp", "_signal"}:
                # Making a module may run user code, by an import say, which can look into this frame: it is left
                # without the power before that is used.
                extend(box, (each(build, (space(name=name),)), build := None)[0])
                return
        except any_error:
            build = None
            raise
        build = None
        event, target, error = "import", name, closed
    else:
        build = None
        if event == "import":
            name, path = args[0], args[1]
            if plain(name) is not text:
                # The text of a subclass, as the interpreter will use it.
                try:
                    name = joined((name,))
                except any_error:
                    name = "ctypes"
            if name.partition(".")[0] not in {"ctypes", "cffi"} and name.rpartition(".")[2] not in natives:
                if path is None:
                    return
                # An extension module is about to be loaded: from where this interpreter's packages were put before
                # the guest began, and from nowhere else.  The interpreter goes the way to it again, so no link may be
                # on it, which somebody could make lead elsewhere in between.
                if plain(path) is text:
                    fd = -1
                    try:
                        fd = look(path, 0o12000000)  # O_PATH and O_CLOEXEC
                        if real(f"/proc/self/fd/{fd}") == path:
                            for folder in folders:
                                if path.startswith(folder) and status(fd).st_ctime_ns < since:
                                    return
                    except failed:
                        pass
                    finally:
                        if fd >= 0:
                            shut(fd)
                name = path
            target, error = name, closed
        elif event == "open" or event == "os.listdir" or event == "os.scandir":
            path = args[0]
            # With O_PATH nothing can be read or written; this hook's own look comes by here again.
            if event == "open" and plain(args[2]) is number and args[2] & 0o10000000:
                return
            if path is None:
                path = "."
            elif plain(path) is not text and plain(path) is not data and plain(path) is not number:
                # The text of a subclass, as the kernel will see it; a number that is a descriptor; and whatever else
                # there is might answer otherwise when it is asked again.
                try:
                    path = joined((path,))
                except any_error:
                    try:
                        path = copied(path, b"")
                    except any_error:
                        try:
                            path = 0 if event == "open" and bits(path) < 32 else None
                        except any_error:
                            path = None
            if path is None:
                found = "/proc/0/a path of no plain type"
            elif plain(path) is number:
                if event == "open":
                    return
                try:
                    found = real(f"/proc/self/fd/{path}")
                except failed:
                    return
            else:
                try:
                    fd = look(path, 0o12000000)
                except failed as problem:
                    # Where there is no descriptor to look with, another thread may free one in time for the call.
                    if problem.errno == 23 or problem.errno == 24:
                        raise
                    return
                try:
                    found = real(f"/proc/self/fd/{fd}")
                except failed:
                    return
                finally:
                    shut(fd)
            # What the kernel shows of other processes of this user, their variables and memory among it; and memory
            # that is written through a file is native code that no event tells of.
            if not found.startswith("/proc/"):
                return
            owner = found[6:].partition("/")[0]
            if not found.endswith("/mem") and (not owner.isdigit() or owner == f"{me}"):
                return
            target = found
        elif event == "socket.__new__":
            # Pairs of sockets of one's own are what an event loop wakes itself with; they lead nowhere else.
            if plain(args[1]) is number and args[1] == 1:
                return
            target = f"family {args[1]}" if plain(args[1]) is number else ""
        elif event == "socket.sendmsg":
            if args[1] is None:
                return
            target = args[1]
        elif event == "socket.sendto" or event == "socket.connect" or event == "socket.bind":
            target = args[1]
        elif event == "os.kill":
            if plain(args[0]) is number and args[0] == me:
                return
            target = args[0]
        elif event == "os.putenv":
            name = args[0]
            if plain(name) is data and not (
                name.startswith((b"LD_", b"OPENSSL_", b"GCONV_", b"MALLOC_")) or name in {b"LOCPATH", b"NLSPATH"}
            ):
                return
            # Variables that make a library which is loaded later load another.
            target = name
        elif event == "fcntl.fcntl":
            # F_SETOWN, F_SETSIG, F_SETOWN_EX: signals to other processes.
            if plain(args[1]) is number and args[1] not in {8, 10, 15}:
                return
            target = args[1]
        elif event == "fcntl.ioctl":
            # FIOSETOWN and SIOCSPGRP, as above; TIOCSTI and TIOCLINUX: input to a terminal.  The kernel sees 32 bits.
            if plain(args[1]) is number and args[1] & 0xFFFFFFFF not in {0x8901, 0x8902, 0x5412, 0x541C}:
                return
            target = args[1]
        elif event == "signal.pthread_kill":
            return
        elif event == "cpython.PyInterpreterState_Clear":
            # The hooks go next, and objects that are still there may have something to say after that.
            leave(1)
        elif event == "fastness.refuse":
            if length(args) and plain(args[0]) is text:
                event = args[0]
        elif event == "subprocess.Popen":
            target = args[1] if length(args) > 1 else ""
        elif length(args):
            target = args[0]
    tell(event, target)
    if error is closed and plain(target) is text:
        raise error("the module firewall of this tier refuses to load " + target)
    raise error("the module firewall of this tier refuses " + event)


def _refusing(name: str) -> Callable[..., None]:
    audit = sys.audit

    def refuse(*args: object, **named: object) -> None:
        audit("fastness.refuse", name)

    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    return refuse


def _take_out() -> None:
    """Put a refusal in the place of what no event is raised for."""
    for name in _SILENT:
        if hasattr(posix, name):
            refusal = _refusing("os." + name)
            for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
                known.discard(getattr(posix, name))
            setattr(posix, name, refusal)
            if hasattr(os, name):
                setattr(os, name, refusal)
    for module in (_signal, signal):
        if hasattr(module, "pidfd_send_signal"):
            vars(module)["pidfd_send_signal"] = _refusing("signal.pidfd_send_signal")
    try:
        import _posixsubprocess
    except ImportError:
        return
    # The module stays, because others import it at their start.
    refusal = _refusing("subprocess.fork_exec")
    vars(_posixsubprocess)["fork_exec"] = refusal
    subprocess = sys.modules.get("subprocess")
    if subprocess is not None and hasattr(subprocess, "_fork_exec"):
        vars(subprocess)["_fork_exec"] = refusal


def _guard_builtins() -> Any:
    """
    Modules that are part of the interpreter are made without an event: have one raised, and the hook make them.

    Returns the function that makes them, which from now on the hook alone may hold.
    """
    original, audit = _imp.create_builtin, sys.audit

    def create_builtin(spec: Any) -> object:
        box: list[object] = []
        audit("fastness.create_builtin", str(spec.name), box)
        return box[0]

    vars(_imp)["create_builtin"] = create_builtin
    return original


def install(folders: list[str], now: Callable[[str, str], None]) -> None:
    """
    Put the hook in place, for good.

    Extension modules are loaded from ``folders`` alone, and none that changed after this call.  ``now(operation,
    target)`` is called for each new kind of refusal, before the refusal is raised.
    """
    for name in ("ctypes", "_ctypes", "_cffi_backend", "_tkinter"):
        if name in sys.modules:
            raise RuntimeError(f"{name} is loaded already")
    _take_out()
    tools = (
        PermissionError, ImportError, len, type, str, bytes, int, list.extend, map, posix.open, posix.fstat,
        posix.readlink, posix.close, OSError, types.SimpleNamespace, BaseException, "".join, bytes.removeprefix,
        int.bit_length, _NATIVE, posix._exit,
    )  # fmt: skip
    # A file's time of change comes from a coarser clock than this.
    since = time.time_ns() - 1_000_000_000
    real = tuple(os.path.realpath(folder).rstrip("/") + "/" for folder in folders if os.path.isdir(folder))
    # Whoever has a function may give it other code; this one is held by the interpreter alone.
    copy = types.FunctionType(_hook.__code__, {"__builtins__": builtins})
    hook = functools.partial(copy, _guard_builtins(), _teller(now), since, real, os.getpid(), tools)
    sys.addaudithook(hook)

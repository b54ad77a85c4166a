"""
What becomes of a child of a container's first process: a Python guest, or any program.

Its text is executed by the image's Python beside the supervisor's.  Nothing here is a wall: the container is.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ERROR = 0x49
_OURS = ("_fastness_supervisor", "_fastness_guest", "_fastness_line", "_fastness_checks", "_fastness_parcel")
#: Bytes of address space beside the run's memory: arenas and stacks reserve more than they use.
_RESERVE = 256 << 20


def frame(kind: int, head: dict[str, object]) -> bytes:
    """A frame of the wire protocol without a blob."""
    text = json.dumps(head).encode()
    return bytes((1, kind, 0, 0)) + len(text).to_bytes(4, "big") + b"\0\0\0\0" + text


def memory_file(content: bytes) -> int:
    """A file in memory with this content, at its start."""
    file = os.memfd_create("stdin")
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def signal_all(number: int) -> None:
    """Send a signal to everything in this container but its first process, which this is."""
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        pass


def _begin(stdin: int, out: int, err: int) -> None:
    """In a new child: its own session, channels and signals, and readable by its own user again."""
    signal.set_wakeup_fd(-1)
    # What the first process ignores, a program would go on ignoring.
    for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    null = os.open("/dev/null", os.O_RDONLY) if stdin < 0 else stdin
    for fd, target in ((null, 0), (out, 1), (err, 2)):
        os.dup2(fd, target)
    import ctypes

    # SAFETY: PR_SET_DUMPABLE (4) takes a plain number and no memory.
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
    try:
        # Where memory runs out the kernel takes the guest, not who watches it.
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def python(config: dict[str, Any], talk: int, out: int, err: int) -> None:
    """Serve as a Python guest.  Never returns."""
    try:
        _begin(-1, out, err)
        os.dup2(talk, 3)
        os.closerange(4, 1024)
        # As in any interpreter.
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _serve(config)
    except BaseException as error:  # noqa: BLE001  # the host reads it as the guest's last words
        os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(1)


def _load(name: str, config: dict[str, Any]) -> None:
    """A module of the code that all Python guests share, by its name; tracebacks leave out frames of such a file."""
    if config["compiled"]:
        __import__(name)
        sys.modules[name].__file__ = f"<{name}>"
        return
    module = sys.modules[name] = types.ModuleType(name)
    module.__file__ = f"<{name}>"
    exec(compile(config["texts"][name], module.__file__, "exec"), module.__dict__)


def _serve(config: dict[str, Any]) -> None:
    main = sys.modules["__main__"].__dict__
    for name in [name for name in main if not name.startswith("__")]:
        del main[name]
    for name in _OURS:
        sys.modules.pop(name, None)
    for name in config["guest"]:
        _load(name, config)
    if config["compiled"] in sys.path:
        sys.path.remove(config["compiled"])
    native = sys.modules["_fastness_native"]
    sys.argv[:] = [""]
    library = f"{sys.prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}"
    # Without site nobody else adds them.
    for path in (*config["packages"], f"{library}/site-packages", f"{library}/dist-packages"):
        if os.path.isdir(path):
            sys.path.append(path)
    for name in config["preload"]:
        try:
            __import__(name)
        except BaseException as error:  # noqa: BLE001  # a package may raise anything while it is imported
            text = f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace").decode()[:500]
            head: dict[str, object] = {"id": 0, "where": f"preload {name}"[:64], "message": text}
            socket.socket(fileno=3).sendall(frame(_ERROR, head))
            os._exit(1)
    native.prepare()
    with open("/proc/self/statm") as file:
        numbers = [int(word) * resource.getpagesize() for word in file.read().split()]
    limits = config["limits"]
    for what, value in (
        # What the container may hold counts for all processes; these let an interpreter say so first.
        (resource.RLIMIT_AS, numbers[0] + limits["memory"] + _RESERVE),
        (resource.RLIMIT_DATA, numbers[5] + limits["memory"]),
        (resource.RLIMIT_FSIZE, max(1, limits["file_bytes"])),
        (resource.RLIMIT_NOFILE, limits["fds"]),
        (resource.RLIMIT_STACK, limits["stack"]),
    ):
        if value:
            resource.setrlimit(what, (value, value))
    native.serve(3, "/work", "/tmp", native.greeting({}, []), False)


def program(command: list[str], environment: dict[str, str], limits: dict[str, int], fds: tuple[int, int, int]) -> None:
    """Become a program.  Never returns."""
    status = 126
    try:
        _begin(*fds)
        os.closerange(3, 1024)
        os.chdir("/work")
        for what, value in (
            (resource.RLIMIT_FSIZE, max(1, limits["file_bytes"])),
            (resource.RLIMIT_NOFILE, limits["fds"]),
        ):
            resource.setrlimit(what, (value, value))
        os.execvpe(command[0], command, environment)
    except FileNotFoundError:
        status = 127
        os.write(2, f"{command[0]}: not found\n".encode("utf-8", "backslashreplace"))
    except BaseException as error:  # noqa: BLE001  # told as a shell tells it
        why = getattr(error, "strerror", None) or type(error).__name__
        os.write(2, f"{command[0]}: {why}\n".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(status)

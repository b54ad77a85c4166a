"""
Guests of the runtime ``command``: a first process that reaps, and under it the program that was asked for.

The first process of a process namespace cannot be signalled from inside by what it did not ask for, inherits every
process whose parent has ended, and takes all of them along when it ends.  It is under the same walls as the program.
"""

from __future__ import annotations

import array
import gc
import json
import os
import signal
import socket
import struct

from fastness._linux import cloning
from fastness._native import box

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fastness._native.birth import Birth

_HEADER = struct.Struct(">BBHII")
_START, _INVOKE = 1, 2
_HELLO, _READY, _RESULT = 0x41, 0x42, 0x48
#: What a shell answers where a program cannot be found or started.
_NOT_FOUND = 127
_NOT_STARTED = 126


def hear_children() -> None:
    """
    Take back what a caller ignores or holds back, which a program that it starts inherits (execve(2), sigaction(2)).

    Where ``SIGCHLD`` is ignored the kernel forgets how a child has ended.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def serve(born: Birth) -> None:
    """Become the first process, run one program and tell how it ended.  Never returns."""
    try:
        box.confine(born)
    except OSError as error:
        box.refuse(born, error)
        os._exit(1)
    gc.enable()
    talk = socket.socket(fileno=box.TALK)
    _send(talk, _HELLO, {"protocol": 1, "guest": "command"})
    while True:
        kind, head, blob, fds = _receive(talk)
        if kind == _START:
            _send(talk, _READY, {"layers": born.layers, "gaps": born.gaps})
        elif kind == _INVOKE:
            result = _run(talk, head, blob, fds)
            _send(talk, _RESULT, {"id": head["id"], **result})
            # All that is left of the run ends with this process.
            os._exit(0)


def _run(talk: socket.socket, head: dict[str, Any], blob: bytes, fds: list[int]) -> dict[str, Any]:
    arguments = json.loads(blob[: head["code_len"]])
    # To the first process of a namespace no signal comes that it has no handler for, and Python has one for this.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    watched = {signal.SIGCHLD, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    child = os.fork()
    if child == 0:
        _start(arguments, dict(head.get("env", ())), fds)
    for fd in fds:
        os.close(fd)
    while True:
        got = signal.sigwait(watched)
        if got == signal.SIGTERM:
            # Asked to end: everything but this process is told, as every process of a session would be.
            os.kill(-1, signal.SIGTERM)
            continue
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == child:
                return _ended(status)


def _ended(status: int) -> dict[str, Any]:
    if os.WIFSIGNALED(status):
        return {"ending": "trap", "trap": f"signal {os.WTERMSIG(status)}"}
    return {"ending": "exit", "exit_code": os.WEXITSTATUS(status)}


def _start(arguments: list[str], environment: dict[str, str], fds: list[int]) -> None:
    """Become the program.  Never returns."""
    try:
        # Its own /dev/null and not the launcher's, which cannot be opened again by the name of its descriptor.
        os.dup2(fds[0] if fds else os.open("/dev/null", os.O_RDONLY), 0)
        cloning.close_from(3)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # What this interpreter ignores, or the caller did as a shell's background job does, a program would go on
        # ignoring (execve(2)).
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.execvpe(arguments[0], arguments, environment)  # noqa: S606  # no shell is what is wanted
    except OSError as error:
        os.write(2, f"{arguments[0]}: {error.strerror}\n".encode("utf-8", "backslashreplace"))
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_STARTED)
    finally:
        os._exit(_NOT_STARTED)


def _send(talk: socket.socket, kind: int, head: dict[str, Any]) -> None:
    text = json.dumps(head).encode()
    talk.sendall(_HEADER.pack(1, kind, 0, len(text), 0) + text)


def _receive(talk: socket.socket) -> tuple[int, dict[str, Any], bytes, list[int]]:
    fds: list[int] = []
    header = _exactly(talk, _HEADER.size, fds)
    _, kind, _, head_size, blob_size = _HEADER.unpack(header)
    head = json.loads(_exactly(talk, head_size, fds))
    return kind, head, _exactly(talk, blob_size, fds), fds


def _exactly(talk: socket.socket, size: int, fds: list[int]) -> bytes:
    parts = []
    while size > 0:
        data, rights, _, _ = talk.recvmsg(min(size, 1 << 20), 64, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in rights:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.extend(array.array("i", content[: len(content) // 4 * 4]))
        if not data:
            os._exit(0)
        parts.append(data)
        size -= len(data)
    return b"".join(parts)

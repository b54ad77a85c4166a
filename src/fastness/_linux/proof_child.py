"""
The program that :mod:`fastness._linux.proof` runs: it tries every attempt in a process of its own.

``python -I -S proof_child.py <source folder> <canary> <port> <abstract name> <seconds>``; each line of output is
``layer <tab> attempt <tab> outcome``.  Layer ``none`` is the control without confinement.
"""

from __future__ import annotations

import os
import signal
import sys

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])

import errno
import select

from fastness._linux import confine, landlock, namespaces, privileges
from fastness._linux.proof_attempts import ATTEMPTS, Scene

#: Seconds for one attempt; none of them waits for anything.
_PATIENCE = 3.0

# Attempts by layer.  `all` is what an engine applies; the others show that a wall stands without the filter.
LAYERS: dict[str, tuple[str, ...]] = {
    "none": tuple(ATTEMPTS),
    "all": tuple(name for name in ATTEMPTS if name != "gain privileges by exec"),
    "landlock": (
        "open a readable file",
        "open the root folder",
        "create a file",
        "rename a file",
        "connect to a loopback listener",
        "connect to an abstract socket",
        "signal another process",
    ),
    "namespaces": ("connect to a loopback listener", "connect to an abstract socket"),
    "privileges": ("become root", "mount a file system", "change the root folder", "gain privileges by exec"),
}


def _apply(layer: str) -> None:
    if layer == "all":
        confine.seal_engine(confine.confine_engine(parent=os.getppid()))
    elif layer == "landlock":
        privileges.forbid_new_privileges()
        landlock.deny_all()
    elif layer == "namespaces":
        left = namespaces.leave_all()
        if "net" not in left.entered:
            raise OSError(errno.EPERM, "network namespace: " + left.failed.get("net", ""))
    elif layer == "privileges":
        namespaces.leave_all()
        privileges.drop_capabilities()
        privileges.forbid_new_privileges()


def _name_of(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error))


def _child(report: int, layer: str, attempt: str, scene: Scene) -> None:
    """Never returns."""
    try:
        try:
            _apply(layer)
        except OSError as error:
            os.write(report, f"layer missing: {error}".encode())
            os._exit(0)
        # Only the kernel may say no from here on, so the report goes to a descriptor that the filter lets through.
        os.write(report, b"+")
        try:
            ATTEMPTS[attempt][0](scene)
        except OSError as error:
            os.write(report, _name_of(error).encode())
        else:
            os.write(report, b"succeeded")
    finally:
        os._exit(0)


def observe(layer: str, attempt: str, scene: Scene) -> str:
    """
    What came of one attempt: ``succeeded``, the name of an error or a signal, ``timeout`` or ``layer missing``.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        # The filter allows writing to the standard streams alone.
        os.dup2(writer, 1, inheritable=False)
        _child(1, layer, attempt, scene)
    os.close(writer)
    pieces: list[bytes] = []
    ended = False
    poller = select.poll()
    poller.register(reader, select.POLLIN)
    while poller.poll(_PATIENCE * 1000):
        piece = os.read(reader, 1000)
        if not piece:
            ended = True
            break
        pieces.append(piece)
    os.close(reader)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    text = b"".join(pieces).decode("utf-8", "replace")
    if not ended:
        return "timeout"
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return name if text.startswith("+") else f"layer missing: ended by {name}"
    if not text.startswith("+"):
        return text or "layer missing: no report"
    # A program that was executed closes the report without a word.
    return text[1:] or ("succeeded" if status == 0 else f"status {status}")


def _victim() -> int:
    pid = os.fork()
    if pid == 0:
        try:
            privileges.die_with_parent(os.getppid())
            signal.pause()
        finally:
            os._exit(0)
    return pid


def main(arguments: list[str]) -> None:
    """Run all layers."""
    canary, port, abstract, seconds = arguments
    # What the caller ignores or holds back is inherited (execve(2)): the kernel would forget how an attempt ended, and
    # the alarm would not come.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # The last resort of the bound in time: the default action ends this process, and its children with it.
    signal.alarm(int(seconds))
    scene = Scene(canary, int(port), abstract)
    scene.victim = _victim()
    try:
        scene.terminal = os.openpty()[1]
    except OSError:
        pass
    try:
        for layer, attempts in LAYERS.items():
            for attempt in attempts:
                outcome = observe(layer, attempt, scene).replace("\n", " ").replace("\t", " ")
                os.write(1, f"{layer}\t{attempt}\t{outcome}\n".encode())
    finally:
        os.kill(scene.victim, signal.SIGKILL)
        os.waitpid(scene.victim, 0)


if __name__ == "__main__":
    main(sys.argv[2:])

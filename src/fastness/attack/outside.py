"""
Where nothing stops an attack: a child process of the same user with the same files, environment and network.

Attacks run here only as their own controls, with amounts that the machine does not feel.
"""

from __future__ import annotations

import dataclasses
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

#: Seconds after which a control is ended; what it was to show has shown by then.
LIMIT_S = 20.0

#: Runs each argument as a program of its own in one interpreter, as an executor in process would.
_IN_PROCESS = """
import sys, traceback
programs = sys.argv[1:]
for program in programs:
    try:
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
"""

#: Runs a module under the runtime's own WASI with this machine's environment and streams, and without limits.
_MODULE = """
import sys, wasmtime
engine = wasmtime.Engine()
store = wasmtime.Store(engine)
wasi = wasmtime.WasiConfig()
wasi.inherit_env(); wasi.inherit_stdout(); wasi.inherit_stderr()
wasi.argv = ["program"]
linker = wasmtime.Linker(engine)
linker.allow_shadowing = True
linker.define_wasi()
exec(sys.argv[2])
store.set_wasi(wasi)
instance = linker.instantiate(store, wasmtime.Module(engine, open(sys.argv[1], "rb").read()))
instance.exports(store)["_start"](store)
"""
#: What a module outside has unless something else is granted: the machine's root folder.
_ROOT = "wasi.preopen_dir('/', '/')"


@dataclasses.dataclass(frozen=True, slots=True)
class Bare:
    """What an unsandboxed child did.  ``status`` is negative where a signal ended it; ``None`` where we did."""

    stdout_bytes: bytes
    stderr_bytes: bytes
    status: int | None
    folder: Path


class Outside:
    """Runs programs unsandboxed.  ``folder`` is their current folder; ``env`` is their whole environment."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        self.env = env

    def run(self, code: str, *, limit_s: float = LIMIT_S) -> Bare:
        """A program in a child interpreter."""
        return self._child([sys.executable, "-c", code], limit_s)

    def in_process(self, *programs: str, limit_s: float = LIMIT_S) -> Bare:
        """Several programs one after another in one interpreter, as where the executor is the program's own process."""
        return self._child([sys.executable, "-c", _IN_PROCESS, *programs], limit_s)

    def module(self, wasm: bytes, *, grants: str = _ROOT, limit_s: float = LIMIT_S) -> Bare:
        """
        A WASI command module under a runtime that grants it everything.

        ``grants`` is Python that gives it folders by ``wasi`` or careless functions by ``linker``, of ``wasmtime``.
        """
        path = self.folder / "program.wasm"
        path.write_bytes(wasm)
        return self._child([sys.executable, "-c", _MODULE, str(path), grants], limit_s)

    def _child(self, command: list[str], limit_s: float) -> Bare:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env=self.env,
            start_new_session=True,
        ) as child:
            status: list[int | None] = []
            killer = threading.Timer(limit_s, _end, (child.pid, status))
            killer.start()
            try:
                out, error = _everything(child)
                # Not reaped yet, so that nobody else has its number when its group is ended.
                os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            finally:
                killer.cancel()
                killer.join()
                _end(child.pid, [])
        return Bare(out, error, None if status else child.returncode, self.folder)


def _everything(child: subprocess.Popen[bytes]) -> list[bytes]:
    """All that it and whatever it started write to the two pipes."""
    parts: dict[int, list[bytes]] = {pipe.fileno(): [] for pipe in (child.stdout, child.stderr) if pipe is not None}
    poller = select.poll()
    for fd in parts:
        poller.register(fd, select.POLLIN)
    left = len(parts)
    while left:
        for fd, _ in poller.poll():
            data = os.read(fd, 1 << 16)
            parts[fd].append(data)
            if not data:
                poller.unregister(fd)
                left -= 1
    return [b"".join(each) for each in parts.values()]


def _end(pid: int, said: list[int | None]) -> None:
    """End the child's whole session: whatever it started is in there."""
    said.append(None)
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass

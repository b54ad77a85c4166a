"""
The host's side of one worker: a box whose process has a keeper, and the end of everything that comes of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from fastness._linux import procs
from fastness._native import datagrams
from fastness.backends import native_config
from fastness.backends.box import Box, BoxLost
from fastness.backends.own_files import source_root, text
from fastness.backends.sealed_file import sealed_file
from fastness.environment import guest_env
from fastness.errors import BackendError
from fastness.runtime import remove_tree

if TYPE_CHECKING:
    from fastness.limits import Limits
    from fastness.waiting import Waiting

_KEEPER = "import sys;sys.path.insert(0,sys.argv[2]);from fastness._native.keeper import main;main()"
_WORKER = (
    "import os,json;c=json.loads(os.pread(0,1<<24,0));n={'__name__':'_fastness_worker'};"
    "exec(compile(c['main'],'<_fastness_worker>','exec'),n);n['main'](c)"
)
#: Seconds within which a keeper has ended its worker and itself; after that this side does it.
_KEEPER_S = 10.0
#: Seconds of processor time of a session's worker in its whole life.
_LIFE_S = 7 * 86_400
_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "MPLBACKEND": "Agg",
    "NO_COLOR": "1",
}


def interpreter() -> list[str]:
    """The program of a keeper and of a worker: this interpreter, told to take nothing from its surroundings."""
    return [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c"]


def configuration(preload: tuple[str, ...], packages: tuple[str, ...], firewall: bool = True) -> int:
    """What workers of one kind are told, as a sealed file in memory; the caller closes it."""
    standard = native_config._standard_library()
    sources = native_config.sources() | {"_fastness_firewall": text("guest", "firewall.py")}
    # The firewall loads no extension module by a way that has a link on it.
    searched = [os.path.realpath(path) for path in (*standard, *packages)]
    config = {
        "main": text("guest", "worker.py"),
        "sources": sources,
        "sys_path": searched,
        # Where extension modules may come from.
        "folders": searched,
        "preload": list(preload),
        "firewall": firewall,
    }
    return sealed_file(json.dumps(config).encode())


def ending(ended: dict[str, Any] | None) -> str:
    """How a worker ended, in words, as far as its keeper has told it."""
    found = ended or {}
    if found.get("failed"):
        return str(found["failed"])
    status = found.get("status")
    if not isinstance(status, int):
        return ""
    code = os.waitstatus_to_exitcode(status)
    return f"signal {-code}" if code < 0 else f"exit status {code}"


class Worker(Box):
    """
    A box with a keeper.  ``folder`` is its own; ``base`` is its memory when it was ready.

    :meth:`ask_to_end` and :meth:`kill` are orders and do not wait; :meth:`finish` does.
    """

    def __init__(self, name: str, folder: str, waiting: Waiting, parts: _Parts) -> None:
        super().__init__(name, parts.talk, parts.out, parts.err, waiting)
        self.folder = folder
        #: A descriptor of it, which is closed with the rest.
        self.above = -1
        self.base = (0, 0, 0)
        self.keeper = parts.keeper
        self.ended: dict[str, Any] | None = None
        self._control = parts.control
        self._lock = threading.Lock()
        self._finished = False
        self._ends = 0.0

    @property
    def keeper_fd(self) -> int:
        """A descriptor that has something to read as soon as the keeper has seen to the end of everything."""
        return self._control.fileno()

    def ask_to_end(self, grace_s: float) -> None:
        """Have the keeper send ``SIGTERM`` to all that came of the worker, and end it after ``grace_s`` seconds."""
        self._ends = time.monotonic() + grace_s
        try:
            datagrams.send(self._control, {"grace": grace_s})
        except OSError:
            self.kill()

    def dismiss(self) -> None:
        """Let a worker that waits for more to do end by itself."""
        try:
            self.talk.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def kill(self) -> None:
        """End the worker now, and have its keeper end whatever came of it.  Callable from any thread."""
        super().kill()
        try:
            # Only this direction: the keeper has still to tell how the worker ended.
            self._control.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def finish(self) -> None:
        """
        See to the end of the worker and of everything that came of it.  Idempotent.

        Blocks for that, and for what is left of the grace where it was asked to end.
        """
        with self._lock:
            if self._finished:
                return
            self._finished = True
            poller = select.poll()
            poller.register(self._control, select.POLLIN)
            poller.poll(max(0.0, self._ends - time.monotonic()) * 1000)
            self.kill()
            try:
                self._control.settimeout(_KEEPER_S)
                self.ended, _ = datagrams.receive(self._control)
                self.keeper.wait(_KEEPER_S)
            except (OSError, subprocess.TimeoutExpired):
                # It was stopped or ended by somebody of this user.
                procs.kill_tree(self.keeper.pid)
                self.keeper.wait()
            self._control.close()

    def close(self) -> None:
        """End it, close every descriptor and remove its folder.  Blocks; idempotent."""
        self.finish()
        super().close()
        try:
            remove_tree(self.folder)
        except OSError:
            # Goes with the folder of this process, or at the next start of one.
            pass


class _Parts:
    """Descriptors and the process of a worker that is being made."""

    def __init__(
        self, talk: socket.socket, out: int, err: int, control: socket.socket, keeper: subprocess.Popen[bytes]
    ) -> None:
        self.talk = talk
        self.out = out
        self.err = err
        self.control = control
        self.keeper = keeper


def spawn(name: str, above: str, config: int, waiting: Waiting) -> Worker:
    """
    Start a keeper and its worker, with a new folder below ``above``.  Does not wait for them.

    Raises BackendError.
    """
    folder = os.path.join(above, name)
    opened: list[Any] = []
    try:
        work, temporary = os.path.join(folder, "work"), os.path.join(folder, "tmp")
        for path in (folder, work, temporary):
            os.mkdir(path, 0o700)
        talk, talk_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        opened += [talk, talk_end]
        control, control_end = datagrams.pair()
        opened += [control, control_end]
        out, out_end = os.pipe2(os.O_CLOEXEC)
        opened += [out, out_end]
        err, err_end = os.pipe2(os.O_CLOEXEC)
        opened += [err, err_end]
        talk.setblocking(False)
        os.set_blocking(out, False)
        os.set_blocking(err, False)
        keeper = subprocess.Popen(
            [*interpreter(), _KEEPER, str(control_end.fileno()), source_root()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(control_end.fileno(),),
            env={},
            cwd="/",
            start_new_session=True,
        )
        worker = Worker(name, folder, waiting, _Parts(talk, out, err, control, keeper))
        # The rest is the worker's by now.
        opened = [talk_end, control_end, out_end, err_end]
        try:
            worker.above = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            worker.holds(worker.above)
            order = {
                "folder": work,
                "command": [*interpreter(), _WORKER],
                "environment": guest_env(_ENVIRONMENT, TMPDIR=temporary, MPLCONFIGDIR=temporary),
            }
            worker.begin()
            datagrams.send(control, order, [config, out_end, err_end, talk_end.fileno()])
        except OSError:
            worker.close()
            raise
        return worker
    except OSError as error:
        with contextlib.suppress(OSError):
            remove_tree(folder)
        raise BackendError("starting a worker", error.strerror or error, "free memory or process slots") from error
    finally:
        for one in opened:
            if isinstance(one, socket.socket):
                one.close()
            else:
                os.close(one)


def bound(worker: Worker, limits: Limits, *, session: bool = False, stack: int | None = None) -> None:
    """Set the limits of a worker that has not heard of its code yet (``prlimit(2)``).  Raises BackendError."""
    space, _, data = worker.base
    try:
        worker.limit(resource.RLIMIT_CORE, 0)
        worker.limit(resource.RLIMIT_AS, space + limits.memory)
        worker.limit(resource.RLIMIT_DATA, data + limits.memory)
        worker.limit(resource.RLIMIT_NOFILE, limits.fds)
        worker.limit(resource.RLIMIT_FSIZE, max(1, limits.file_bytes))
        if stack is not None:
            worker.limit(resource.RLIMIT_STACK, stack)
        if not session:
            seconds = int(limits.cpu_s) + 2
            worker.limit(resource.RLIMIT_CPU, seconds, seconds + 1)
    except (BoxLost, OSError, ValueError) as error:
        raise BackendError("setting a worker's limits", error, "run: fastness doctor") from None


def bound_time(worker: Worker, limits: Limits) -> None:
    """
    Set the limit on processor time of a session's worker for the next execute, and what runs on after it.

    The kernel counts over all executes, and only the soft limit can be raised again.  Where the worker has ended this
    does nothing.  Raises BackendError.
    """
    seconds = int(worker.cpu_s() + limits.cpu_s) + 2
    try:
        worker.limit(resource.RLIMIT_CPU, seconds, _LIFE_S)
    except (BoxLost, ProcessLookupError):
        return
    except (OSError, ValueError) as error:
        raise BackendError("setting a worker's limits", error, "run: fastness doctor") from None

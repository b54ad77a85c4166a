"""
Builds the whole module in a process of its own that outlives the command that started it.

It runs at the lowest priority, in a session of its own, for at most a quarter of an hour, and holds the entry's
lock, so that there is one of it.  It says in a small file how far it is.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from fastness._wasi import guests, keys
from fastness._wasi.cache import Cache
from fastness.errors import BackendError, FastnessError

if TYPE_CHECKING:
    from fastness._wasi.guests import Guest

#: Hard limit on the life of a background build, in seconds.
LIFE_S = 900
#: After a failed build another is started in the background only after this long; ``guest build`` does not wait.
RETRY_S = 3600.0

_CAP = 16 << 10
# Forks first, so that the starter reaps its child at once and no zombie stays while the starter lives.
#: Called with the cache once the whole module is there: makes the image that most runs want.
_THEN = "fastness.backends.materials:prepare_default"
_BOOT = (
    "import os,sys\n"
    "if os.fork(): os._exit(0)\n"
    "sys.path[:0]=sys.argv[1:3]\n"
    "from fastness._wasi.background import main\n"
    "main(sys.argv[3])\n"
)


class Status(NamedTuple):
    """``stage`` is ``full`` or ``failed``; ``started`` is a Unix time; ``message`` says more."""

    pid: int
    stage: str
    started: float
    estimate_s: float
    message: str


def _path(guest: Guest, cache: Cache) -> str:
    return os.path.join(cache.path, f"status-{guest.name}.json")


def read_status(guest: Guest, cache: Cache) -> Status | None:
    """What the latest background build said about itself, or None; a build that was killed leaves its last word."""
    try:
        fd = os.open(_path(guest, cache), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            record = json.loads(os.read(fd, _CAP))
        finally:
            os.close(fd)
        return Status(
            int(record["pid"]), str(record["stage"]), float(record["started"]), float(record["estimate_s"]),
            str(record["message"]),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _write_status(guest: Guest, cache: Cache, status: Status) -> None:
    path = _path(guest, cache)
    temporary = f"{path}.{os.getpid()}"
    with contextlib.suppress(OSError):
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, json.dumps(status._asdict()).encode())
        finally:
            os.close(fd)
        os.rename(temporary, path)


def clear_status(guest: Guest, cache: Cache) -> None:
    """Forget the latest build."""
    with contextlib.suppress(OSError):
        os.unlink(_path(guest, cache))


def is_building(guest: Guest, cache: Cache) -> bool:
    """Whether some process is building the whole module now."""
    return cache.is_locked(keys.code_name(guest, "full"))


def start(guest: Guest, cache: Cache) -> bool:
    """
    Start a background build unless one runs, is done, or failed lately; returns whether one was started.

    Raises :class:`~fastness.errors.BackendError` where the artefact is missing or no process can be started.
    """
    name = keys.code_name(guest, "full")
    if cache.lookup(name) is not None or cache.is_locked(name):
        return False
    status = read_status(guest, cache)
    if status is not None and status.stage == "failed" and 0 <= time.time() - status.started < RETRY_S:
        return False
    source = guests.open_file(guest, guest.code)
    try:
        job = json.dumps({"guest": guest.name, "cache": cache.path, "source": source, "then": _THEN})
        library = os.path.dirname(os.path.dirname(os.path.dirname(keys.wasmtime()[1])))
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        # -S keeps start-up files of site-packages out; the folder of the wasmtime library is named instead.
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", _BOOT, root, library, job],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(source,),
            env={},
            cwd="/",
            start_new_session=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendError("starting the background build", error, "run: fastness guest build") from error
    finally:
        os.close(source)
    return True


def _give_up(waited: float) -> None:
    """Who only looks whether a build runs holds the lock for an instant; who builds holds it for long."""
    if waited > 2.0:
        raise TimeoutError


def main(argument: str) -> None:
    """Body of the background process."""
    signal.alarm(LIFE_S)
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Imported here, as that module imports this one.
    from fastness._wasi import builder

    job = json.loads(argument)
    guest = guests.get(job["guest"])
    cache = Cache(job["cache"])
    name = keys.code_name(guest, "full")
    try:
        lock = cache.lock(name, _give_up)
    except TimeoutError:
        return
    started = time.time()
    with lock:
        if cache.lookup(name) is not None:
            return
        estimate = builder.estimate_s(guest.full_cpu_s)
        _write_status(guest, cache, Status(os.getpid(), "full", started, estimate, "compiling the whole module"))
        try:
            builder.compile_guest(guest, "full", cache, lambda *_: None, source=job["source"])
        except FastnessError as error:
            _write_status(guest, cache, Status(os.getpid(), "failed", started, estimate, str(error)[:2000]))
            return
        _write_status(guest, cache, Status(os.getpid(), "image", started, estimate, "making the memory image"))
    # Engines are above this package, so the step that needs one is named, not imported.
    module, _, function = str(job.get("then", "")).partition(":")
    try:
        if module:
            getattr(importlib.import_module(module), function)(cache)
    except (FastnessError, ImportError):
        pass  # whoever runs next makes the image, and is told what is wrong
    clear_status(guest, cache)
    builder.drop_superseded(guest, cache)

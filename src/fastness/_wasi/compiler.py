"""
Starts compiler processes and takes their results.

A guest is compiled with all cores into a file of the cache.  A user's module is counted first (see
:mod:`~fastness._wasi.census`), then compiled under limits in a confined process into a sealed memory file.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from fastness._linux import memory
from fastness._wasi import binding, census
from fastness._wasi.compile_child import FAILED, OK, REFUSED
from fastness._wasi.digest import tree_digest
from fastness._wasi.wasmbin import InvalidModule
from fastness.errors import BackendError, ConfigurationError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

#: Caps on a user's module and on the process that compiles it.
USER_MODULE_BYTES = 64 << 20
USER_COMPILE_CPU_S = 60
USER_COMPILE_MEMORY = 1 << 30
USER_CODE_BYTES = 512 << 20

#: Most bytes of native code that a guest of ours may have, and most seconds that compiling one may take.
GUEST_CODE_BYTES = 1 << 30
GUEST_COMPILE_S = 900.0

_POLL_S = 0.1
_REPORT_CAP = 16 << 10
_BOOT = (
    "import sys\n"
    "sys.path.insert(0,sys.argv[1])\n"
    "from fastness._wasi.compile_child import main\n"
    "sys.exit(main(sys.argv[2]))\n"
)


#: A user's module is compiled by few threads: each takes address space, which is capped.
_ENVIRONMENT = {"RAYON_NUM_THREADS": "4", "MALLOC_ARENA_MAX": "2"}


class Cancelled(Exception):
    """The caller's event was set, and the compiler was killed."""


class _Killed(BackendError):
    """The compiler process was ended by a signal."""

    def __init__(self, number: int) -> None:
        self.number = number
        name = signal.Signals(number).name if number in signal.valid_signals() else str(number)
        super().__init__("compiling", f"the compiler was ended by {name}", "compiling a guest takes 3 GB of memory")


#: How a compiler that meets its limits ends: processor time (by either limit), a stack, an allocation that failed.
#: After the last it aborts, and the signal to itself that this takes is not in its system call filter.
_LIMIT_SIGNALS = frozenset((signal.SIGXCPU, signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGSYS))


class CompiledModule:
    """
    Native code of a user's module in a sealed memory file.

    ``fd`` is a read-only descriptor that belongs to the holder; ``digest`` is that of :mod:`~fastness._wasi.digest`;
    ``settings`` are those that an engine must load it with.
    """

    __slots__ = ("digest", "fd", "settings", "size")

    def __init__(self, fd: int, size: int, digest: str, settings: binding.EngineConfig) -> None:
        self.fd = fd
        self.size = size
        self.digest = digest
        self.settings = settings

    def close(self) -> None:
        """Close the descriptor.  Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Compilation:
    """A running compiler process; kill it or see it end with :meth:`wait`."""

    def __init__(
        self,
        source: int,
        target: int,
        settings: binding.EngineConfig,
        *,
        sha256: str = "",
        transform: str = "none",
        exports: tuple[str, ...] = (),
        slim: bool = False,
        most: int = GUEST_CODE_BYTES,
    ) -> None:
        self._status, status = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        job = {
            "parent": os.getpid(),
            "library": binding.find_library(),
            "settings": {name: getattr(settings, name) for name in binding.EngineConfig.__slots__},
            "source": source,
            "source_size": os.fstat(source).st_size,
            "target": target,
            "status": status,
            "sha256": sha256,
            "transform": transform,
            "exports": list(exports),
            "slim": slim,
            "most": most,
            "cpu_s": USER_COMPILE_CPU_S,
            "memory": USER_COMPILE_MEMORY,
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, _source_root(), json.dumps(job)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                close_fds=True,
                pass_fds=(source, target, status),
                env=_ENVIRONMENT if settings.user_module else {},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._status)
            raise BackendError(
                "starting the compiler", error.strerror or error, "check the limits on processes and memory"
            ) from error
        finally:
            os.close(status)

    def wait(self, timeout_s: float, cancel: threading.Event | None, tick: Callable[[float], None] | None) -> None:
        """
        Wait for the end; ``tick(elapsed_s)`` is called about ten times a second and may raise.

        Raises :class:`Cancelled`, ``TimeoutError`` past ``timeout_s``,
        :class:`~fastness._wasi.wasmbin.InvalidModule` where the module is at fault, and
        :class:`~fastness.errors.BackendError` where the process failed or died.  The process is gone in every case.
        """
        start = time.monotonic()
        report = bytearray()
        try:
            poller = select.poll()
            poller.register(self._status, select.POLLIN)
            while True:
                elapsed = time.monotonic() - start
                if cancel is not None and cancel.is_set():
                    raise Cancelled
                if elapsed > timeout_s:
                    raise TimeoutError
                if tick is not None:
                    tick(elapsed)
                if not poller.poll(min(_POLL_S, max(0.0, timeout_s - elapsed) + 0.001) * 1000):
                    continue
                part = os.read(self._status, 4096)
                if not part or len(report) > _REPORT_CAP:
                    break
                report += part
            # The pipe closes when the process dies; a process that only closed the pipe gets no more time.
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            raise BackendError("compiling", "the compiler did not end", "try again") from None
        finally:
            self._end()
        _raise_for(code, bytes(report[:_REPORT_CAP]))

    def _end(self) -> None:
        """Kill what is left and reap it.  The process leads a session of its own and starts no other."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._status >= 0:
            os.close(self._status)
            self._status = -1


def _raise_for(code: int, report: bytes) -> None:
    """Turn the end of a compiler process into an exception, or return.  ``report`` is not trusted."""
    if code == OK:
        return
    try:
        message = str(json.loads(report)["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        message = ""
    message = "".join(c if c.isprintable() else " " for c in message)[:1000]
    if code == REFUSED:
        raise InvalidModule(message)
    if code == FAILED:
        raise BackendError("compiling", message or "it failed without a message", "see the message")
    if code < 0:
        raise _Killed(-code)
    raise BackendError("compiling", f"the compiler ended with status {code}", "reinstall the package")


def _source_root() -> str:
    """The folder above the package, for a process that sees no site-packages."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def compile_user_module(
    wasm: bytes, timeout_s: float = float(USER_COMPILE_CPU_S), cancel: threading.Event | None = None
) -> CompiledModule:
    """
    Compile a module that somebody brought, in a confined process with limits.

    Raises :class:`~fastness.errors.ConfigurationError` where the module is invalid, uses features that are off, or
    passes a cap (bytes, counts, 60 s, 1 GiB); :class:`Cancelled`; :class:`~fastness.errors.BackendError`.
    """
    if len(wasm) > USER_MODULE_BYTES:
        raise ConfigurationError("module", f"{len(wasm)} bytes", f"at most {USER_MODULE_BYTES} bytes")
    try:
        census.check(census.count(wasm))
    except InvalidModule as error:
        raise ConfigurationError("module", str(error), "a WebAssembly core module within the caps") from error
    settings = binding.EngineConfig(user_module=True)
    source = memory.memory_file()
    target = -1
    try:
        _fill(source, wasm)
        target = memory.memory_file()
        try:
            Compilation(source, target, settings, most=USER_CODE_BYTES).wait(timeout_s, cancel, None)
        except InvalidModule as error:
            raise ConfigurationError("module", str(error), "a valid WebAssembly core module") from error
        except TimeoutError:
            raise ConfigurationError(
                "module", "still compiling at its deadline", f"a module that compiles within {timeout_s:g} s"
            ) from None
        except _Killed as error:
            if error.number not in _LIMIT_SIGNALS:
                raise
            raise ConfigurationError(
                "module",
                f"{error.cause} (out of time or memory, or it did what a compiler may not)",
                f"a module that compiles within {USER_COMPILE_CPU_S} s and {USER_COMPILE_MEMORY >> 20} MiB",
            ) from error
        # Only now is nobody left who could write: the process is reaped, and it had the only other descriptor.
        memory.seal(target)
        size = os.fstat(target).st_size
        fd = os.open(f"/proc/self/fd/{target}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(source)
        if target >= 0:
            os.close(target)
    return CompiledModule(fd, size, tree_digest(fd, size), settings)


def _fill(fd: int, data: bytes) -> None:
    """Write ``data``, seal, and rewind, so that the compiler can only read it."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    memory.seal(fd)
    os.lseek(fd, 0, os.SEEK_SET)

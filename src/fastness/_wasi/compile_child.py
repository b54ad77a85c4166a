"""
The process that compiles: reads a module from one descriptor, writes native code to another, and ends.

Compilation never happens in a caller or in an engine: it takes gigabytes and threads for the guests, and for a
user's module it runs a large compiler over hostile input.  In the latter case the process has limits on time and
memory and is confined before it reads the first byte.  Standard library only: it runs as ``python -I -S``.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import sys

from fastness._linux import confine, syscalls
from fastness._wasi import binding, native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MESSAGE_CAP = 1000

#: Exit codes; anything else is a crash.
OK, REFUSED, FAILED = 0, 3, 4


class Refused(Exception):
    """The module itself is at fault."""


def main(argument: str) -> int:
    """Do the job that ``argument`` describes in JSON; the parent made it."""
    job = json.loads(argument)
    # SAFETY: no pointer argument.  Bound to the thread that started us: it waits for us until the end.
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != job["parent"]:
        return FAILED
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        _work(job)
    except Refused as error:
        return _report(job["status"], REFUSED, str(error))
    except MemoryError:
        return _report(job["status"], FAILED, "not enough memory")
    except Exception as error:  # noqa: BLE001  # the parent must learn the reason of any failure
        return _report(job["status"], FAILED, f"{type(error).__name__}: {error}")
    return _report(job["status"], OK, "")


def _report(fd: int, code: int, message: str) -> int:
    os.write(fd, json.dumps({"code": code, "message": message[:_MESSAGE_CAP]}).encode())
    return code


def _work(job: dict[str, Any]) -> None:
    lib = binding.load(job["library"])
    settings = job["settings"]
    engine = binding.Engine(lib, binding.EngineConfig(**settings))
    if settings["user_module"]:
        confine.confine_compiler(parent=job["parent"], address_space=job["memory"], cpu_seconds=job["cpu_s"])
    wasm = _read(job["source"], job["source_size"])
    if job["sha256"] and hashlib.sha256(wasm).hexdigest() != job["sha256"]:
        raise Refused("its SHA-256 is not the expected one")
    wasm = _transform(wasm, job["transform"], job["exports"])
    try:
        code = binding.compile_module(engine, wasm)
    except binding.WasmtimeError as error:
        raise Refused(str(error)) from error
    del wasm
    if job["slim"]:
        code = native.slim(code)
    if len(code) > job["most"]:
        raise Refused(f"its native code would take {len(code)} bytes; at most {job['most']} are allowed")
    view = memoryview(code)
    while view:
        view = view[os.write(job["target"], view) :]


def _read(fd: int, size: int) -> bytes:
    # The size was taken from the descriptor by the parent; a shorter file fails the digest or the compiler.
    parts = []
    while size > 0:
        part = os.read(fd, min(size, 1 << 24))
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _transform(wasm: bytes, kind: str, exports: list[str]) -> bytes:
    """Trusted artefacts are cut to what is needed first; a user's module is taken as it is."""
    if kind == "none":
        return wasm
    from fastness._wasi import resettable, stubs, wasmbin

    resettable.check(wasm)
    wasm = wasmbin.add_exports(wasm, exports)
    return stubs.quick_module(wasm) if kind == "quick" else wasmbin.strip_custom(wasm)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

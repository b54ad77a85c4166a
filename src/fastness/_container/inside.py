"""
The code of ours that runs inside containers: its texts, and the same compiled, as images of ours have it.

An image that was made by this version has it compiled, so that no start has to; any other is sent the texts.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import os
import subprocess
import sys
import tempfile

from fastness._container.layer import Layer

#: A program that compiles modules of a folder in place, given the folder and their names.
COMPILE = (
    "import sys, py_compile; [py_compile.compile(f'{sys.argv[1]}/{name}.py', f'{sys.argv[1]}/{name}.pyc', f'<{name}>', "
    "True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH) for name in sys.argv[2:]]"
)
_COMPILE_S = 60.0
#: Every module, in the order in which they need each other, and the file of its text.
SUPERVISOR = ("_fastness_parcel", "_fastness_checks", "_fastness_line", "_fastness_guest", "_fastness_supervisor")
PYTHON = ("_fastness_encode", "_fastness_sources", "_fastness_context", "_fastness", "_fastness_native")
_FILES = {
    "_fastness_parcel": ("fastness._container", "parcel.py"),
    "_fastness_checks": ("fastness.guest", "checks.py"),
    "_fastness_line": ("fastness.guest", "line.py"),
    "_fastness_guest": ("fastness.guest", "contained.py"),
    "_fastness_supervisor": ("fastness.guest", "supervisor.py"),
    "_fastness_encode": ("fastness.guest", "encode.py"),
    "_fastness_sources": ("fastness.guest", "sources.py"),
    "_fastness_context": ("fastness.guest", "context.py"),
    "_fastness": ("fastness.guest", "boot.py"),
    "_fastness_native": ("fastness.guest", "native.py"),
}


@functools.cache
def texts() -> dict[str, str]:
    """The text of each module."""
    return {
        name: importlib.resources.files(package).joinpath(file).read_text("utf-8")
        for name, (package, file) in _FILES.items()
    }


@functools.cache
def digest() -> str:
    """What names these texts, all of them, in an image's label and folder."""
    found = hashlib.sha256()
    for name, text in texts().items():
        found.update(f"{name}\0{text}\0".encode())
    return found.hexdigest()[:32]


def folder() -> str:
    """Where an image has them compiled."""
    return f"/usr/local/lib/fastness/{digest()}"


def add(layer: Layer) -> None:
    """Put them into a layer, compiled by the interpreter that runs this, which must be the image's too."""
    with tempfile.TemporaryDirectory(prefix="fastness-image-") as place:
        for name, text in texts().items():
            with open(os.path.join(place, f"{name}.py"), "w", encoding="utf-8") as file:
                file.write(text)
        # In a process of its own: what this one has loaded would show in the compiled bytes.
        command = [sys.executable, "-I", "-S", "-B", "-c", COMPILE, place, *texts()]
        subprocess.run(command, check=True, env={"PYTHONHASHSEED": "0"}, stdin=subprocess.DEVNULL, timeout=_COMPILE_S)
        for name in texts():
            with open(os.path.join(place, f"{name}.pyc"), "rb") as compiled:
                layer.data(f"{folder()}/{name}.pyc", compiled.read())

"""
Files that engines on this machine read by their path: the filter of system calls that every container gets, as in
``data/container/seccomp.json``, and a list of hosts that names none.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import os
import tempfile

from fastness._wasi import home

_CAP = 1 << 20


@functools.cache
def text() -> str:
    """The profile without its comments, the same each time."""
    source = importlib.resources.files("fastness.data.container").joinpath("seccomp.json").read_text("utf-8")
    found = json.loads(source)
    found.pop("about")
    for row in found["syscalls"]:
        row.pop("comment")
    return json.dumps(found, separators=(",", ":"))


def path() -> str:
    """A file with the profile, for an engine that reads it by its path.  Raises ``OSError``, BackendError."""
    return _file("container-seccomp.json", text().encode())


def hosts() -> str:
    """An empty file, for an engine that else copies this machine's list of hosts.  Raises ``OSError``, BackendError."""
    return _file("container-hosts", b"")


def _file(name: str, wanted: bytes) -> str:
    """A file with this content, made anew where it is missing or is not, to the byte, what it should be."""
    target = os.path.join(home.folder("cache"), name)
    try:
        descriptor = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        pass
    else:
        with os.fdopen(descriptor, "rb") as file:
            if file.read(_CAP) == wanted:
                return target
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix="container-seccomp.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(wanted)
        # Who reads it in a container is nobody whom this machine knows; the folder lets nobody else in.
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return target

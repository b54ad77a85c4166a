"""
The filter of system calls that every container gets: ``data/container/seccomp.json``, as engines take it.
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
    """
    A file with the profile, for an engine on this machine that reads it by its path.

    Made anew where it is missing or is not, to the byte, what it should be.  Raises ``OSError``, BackendError.
    """
    wanted = text().encode()
    target = os.path.join(home.folder("cache"), "container-seccomp.json")
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
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return target

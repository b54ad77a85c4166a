"""
gVisor as the runtime of an engine: a kernel of its own in user space between a guest and this machine's.

It shows a guest neither control groups nor this machine's filter of system calls, so other things are looked for from
inside; that it is gVisor at all is seen by the kernel's release being another than the machine's.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess

from fastness._container.probe import Engine
from fastness.limits import MIB

#: What runtimes of gVisor have in their name.
NAME = "runsc"
#: What its own processes take of a container's limits, beside the guest's.
MEMORY = 96 * MIB
PIDS = 256
_VERSION = re.compile(r"runsc version (\S{1,64})")
_ASK_S = 5.0
_UNKNOWN = "of unknown version"


def runtime_of(engine: Engine, named: str) -> str:
    """The runtime that a container gets: the one that was named, or the engine's own."""
    return named or engine.runtime


def is_gvisor(engine: Engine, named: str) -> bool:
    """Whether that is gVisor, by its name; a container tells whether it is."""
    return NAME in runtime_of(engine, named)


def version(engine: Engine, named: str) -> str:
    """
    The version of gVisor, asked of the program where the engine has the one that this process would find too.

    What an engine names is started by nobody but the engine.  Blocks for at most five seconds.
    """
    there = dict(engine.paths).get(runtime_of(engine, named), "")
    ours = shutil.which(NAME)
    if not engine.endpoint.local or not there or ours is None or not _is_same(there, ours):
        return _UNKNOWN
    return _asked(ours)


def _is_same(there: str, ours: str) -> bool:
    return os.path.isabs(there) and os.path.realpath(there) == os.path.realpath(ours)


@functools.cache
def _asked(program: str) -> str:
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return _UNKNOWN
    found = _VERSION.search(done.stdout[:4096])
    return found[1] if found else _UNKNOWN

"""
What tests of the wasm tier share: whether guests are built, and how to look at engine processes from outside.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import house

SOURCE = house.SOURCE
_MARK = b"fastness._wasi.engine"


def require_python_guest() -> None:
    """Skip where the Python guest was not built, unless everything is required: then a first run builds it."""
    house.require("python guest")


def engines_of(parent: int) -> set[int]:
    """Process ids of the living engines that ``parent`` started."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if _MARK in (entry / "cmdline").read_bytes() and stat_fields(int(entry.name))[1] == str(parent):
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def stat_fields(pid: int) -> list[str]:
    """Fields of ``/proc/PID/stat`` from the state on.  Raises OSError where the process is gone."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def gone(pid: int) -> bool:
    """Whether a process has ended; one that only waits to be reaped has."""
    try:
        return stat_fields(pid)[0] in ("Z", "X")
    except OSError:
        return True


def eventually(check: Callable[[], bool], seconds: float) -> bool:
    """Whether ``check`` becomes true within so many seconds."""
    ends = time.monotonic() + seconds
    while not check():
        if time.monotonic() > ends:
            return False
        time.sleep(0.01)
    return True


def status(pid: int) -> dict[str, str]:
    """``/proc/PID/status`` by name."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

"""
What this process and those that serve it have needed, as the kernel counts it.
"""

from __future__ import annotations

import os
from pathlib import Path


def children() -> list[int]:
    """Ids of the processes that this one started and that still live (proc(5), ``children``)."""
    found: list[int] = []
    for task in os.listdir("/proc/self/task"):
        try:
            found += map(int, Path(f"/proc/self/task/{task}/children").read_text().split())
        except OSError:
            continue
    return found


def peak(pid: int | str = "self") -> int | None:
    """The largest resident set that a process ever had, in bytes (proc(5), ``VmHWM``); None where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:")), None)


def peaks() -> dict[int, int]:
    """The peak of each child that still lives."""
    return {pid: size for pid in children() if (size := peak(pid)) is not None}

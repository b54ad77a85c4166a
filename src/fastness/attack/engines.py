"""
What the processes that serve this one have needed, as the kernel counts it.
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


def peaks() -> dict[int, int]:
    """The largest resident set that each child ever had, in bytes (proc(5), ``VmHWM``)."""
    sizes = {}
    for pid in children():
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            if line.startswith("VmHWM:"):
                sizes[pid] = int(line.split()[1]) << 10
    return sizes

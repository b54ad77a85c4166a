"""
How slow this machine is beside the one that times and rates are promised for.

A promise in milliseconds says nothing of a machine that nobody has seen.  So it is one for a machine on which a bare
``python3 -I -S -c 'print(1)'`` takes 7 ms, and is held against that process here, measured in the same minute.
"""

from __future__ import annotations

import subprocess
import sys

from fastness.bench.rows import median, times

__all__ = ["CODE", "REFERENCE_MS", "bare_process", "pace"]

CODE = "print(1)"
#: Milliseconds of a bare process on the machine that times are promised for.
REFERENCE_MS = 7.0
_COUNT = 15


def bare_process() -> object:
    """What runs are compared with.  Raises CalledProcessError."""
    command = [sys.executable, "-I", "-S", "-c", CODE]
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def pace() -> float:
    """How many times as long a bare process takes here, as a median; it takes a fifth of a second to find out."""
    return median(times(bare_process, _COUNT)) / REFERENCE_MS

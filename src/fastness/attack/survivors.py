"""
What a program leaves behind: processes that outlive it, each with the arena's token among its arguments.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fastness.attack import careful
from fastness.attack.model import Effect

if TYPE_CHECKING:
    from fastness.attack.arena import Arena

#: Seconds that a program of the tier may take which has one.
_LONG_S = 4.0


def tried(arena: Arena, text: str) -> Effect:
    """As a command with one second.  The effect is a process that lives on, or a host that waits for one."""
    began = time.monotonic()
    result = arena.program(text, timeout=1.0, limits={"grace_s": 0.2})
    took = time.monotonic() - began
    left = _alive(arena.token)
    seen = f"{len(left)} of its processes live on, after {took:.1f} s"
    return Effect(bool(left) or took > _LONG_S, seen, result)


def outside(arena: Arena, text: str) -> Effect:
    """The control: the same program where whoever starts it ends only what was started."""
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=arena.work,
        start_new_session=True,
    )
    try:
        process.wait(1.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    left = _alive(arena.token)
    end = time.monotonic() + 10
    while (more := _with(arena.token)) and time.monotonic() < end:
        for pid in more:
            careful.end(pid, arena.token)
    return Effect(bool(left), f"{len(left)} of its processes lived on")


def _alive(mark: str) -> list[int]:
    """
    Processes of this machine, in whatever namespace, that have ``mark`` among their arguments, after a moment.

    Those that make each other are never all there at once, so there is none only where none was seen several times.
    """
    end = time.monotonic() + 1.0
    missed = 0
    seen: list[int] = []
    while missed < 4 and time.monotonic() < end:
        left = _with(mark)
        missed, seen = (0, left) if left else (missed + 1, seen)
        time.sleep(0.03)
    return seen if missed < 4 else []


def _with(mark: str) -> list[int]:
    found = []
    # The newest first: one that does not live for long is still there when it is looked at.
    for number in sorted((int(entry) for entry in os.listdir("/proc") if entry.isdigit()), reverse=True):
        try:
            if mark.encode() in Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0"):
                found.append(number)
        except OSError:
            pass
    return found

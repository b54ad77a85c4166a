"""
Care for the machine that attacks are tried on: what is sent to whole namespaces, and to processes by number.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastness.attack.arena import Arena

_PLACE = """
import os

def apart():
    # Whether this process sees none of the machine's, so that all that it can signal is of its own run.
    try:
        os.kill(OUTSIDE, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    print('OUTSIDE', flush=True)
    return False
"""


def program(arena: Arena, text: str, **more: Any) -> str:
    """
    A program with a function ``apart()``, for what would harm the machine from any but a process namespace of its own.

    Where it has none it says ``OUTSIDE``.
    """
    return arena.python(_PLACE + text, OUTSIDE=arena.victim().pid, **more)


def end(pid: int, mark: str) -> None:
    """End the process of this number, where it is one with ``mark`` among its arguments."""
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return
    try:
        # Looked at with the descriptor open: the number is the same process's from here on, or nobody's.
        if mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            signal.pidfd_send_signal(process, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(process)

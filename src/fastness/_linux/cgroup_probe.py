"""
Whether limits of a place for slots really hold, shown by making them bite.

A control group file system that is visible, and even writable, proves nothing: a controller may be off, or swap may
take what memory may not.  A small process of ours is put into a slot and goes past both limits.
"""

from __future__ import annotations

import os
import subprocess
import sys

from fastness._linux.cgroup_slot import Slot, Slots

#: Seconds for the process to start, meet its limits and end.
_TIMEOUT_S = 10.0
_MEMORY = 8 << 20

# It waits until it is in the slot, then asks for one process too many and for four times the memory.
_PROGRAM = f"""
import os
if os.read(0, 1) == b"g":
    try:
        if os.fork() == 0:
            os._exit(0)
        os.write(1, b"forked")
    except BlockingIOError:
        os.write(1, b"denied")
    filled = b"x" * {4 * _MEMORY}
    os.write(1, b" filled")
"""


def bite(slots: Slots) -> str:
    """
    Put a process into a new slot of ``slots`` and let it break both limits; returns what did not hold, or nothing.

    Takes tens of milliseconds.  Nothing is left.  Raises ``OSError`` where the slot itself could not be used.
    """
    if not sys.executable:
        return "there is no interpreter to try the limits with"
    slot = slots.new(f"probe-{os.getpid()}")
    try:
        slot.configure(memory=_MEMORY, pids=1, cpus=1.0 if slots.controls_cpu else None)
        return _try(slot)
    finally:
        slot.kill()
        slot.remove()


def _try(slot: Slot) -> str:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        start_new_session=True,
    ) as child:
        try:
            slot.attach(child.pid)
            if child.pid not in slot.processes():
                return "a process that was put into a slot is not in it"
            output, _ = child.communicate(b"g", _TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"the process that tries the limits did not end within {_TIMEOUT_S:.0f} s"
        finally:
            child.kill()
    if not output.startswith(b"denied"):
        return "a process was made past pids.max"
    if b"filled" in output:
        return "memory was filled past the limit"
    # Not by its status: where this process ignores SIGCHLD the kernel forgets it.
    used = slot.usage()
    if used.oom_kills == 0:
        return "the process that filled its memory was ended by something else"
    return ""

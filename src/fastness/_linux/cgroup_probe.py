"""
Whether limits of a place for slots really hold, shown by making them bite.

A control group file system that is visible, and even writable, proves nothing: a controller may be off, or swap may
take what memory may not.  A small process of ours is put into a slot and goes past both limits.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from fastness._linux.cgroup_slot import Slots

#: Seconds for the process to meet its limits and end.
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


class Bite:
    """
    A process in a new slot of ``slots`` that goes past both limits, from now on; :meth:`finish` says how it went.

    Raises ``OSError`` where the slot itself could not be used, and then leaves nothing.
    """

    def __init__(self, slots: Slots) -> None:
        self._slot = slots.new(f"probe-{os.getpid()}")
        try:
            self._slot.configure(memory=_MEMORY, pids=1, cpus=1.0 if slots.controls_cpu else None)
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={},
                start_new_session=True,
                bufsize=0,
            )
            try:
                self._failure = self._begin()
            except BaseException:
                self._end()
                raise
        except BaseException:
            self._slot.kill()
            self._slot.remove()
            raise

    def _begin(self) -> str:
        self._slot.attach(self._child.pid)
        if self._child.pid not in self._slot.processes():
            return "a process that was put into a slot is not in it"
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(b"g")
        except BrokenPipeError:
            pass  # what its end means is seen where it is waited for
        return ""

    def _end(self) -> None:
        with self._child as child:
            child.kill()

    def finish(self) -> str:
        """
        Wait for the end of the process; returns what did not hold, or nothing.  To be called once.

        It takes tens of milliseconds from its start.  Nothing is left.  Raises ``OSError`` as above.
        """
        try:
            try:
                return self._failure or self._judge()
            finally:
                self._end()
        finally:
            self._slot.kill()
            self._slot.remove()

    def _judge(self) -> str:
        child = self._child
        try:
            output, _ = child.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"the process that tries the limits did not end within {_TIMEOUT_S:.0f} s"
        if not output.startswith(b"denied"):
            return "a process was made past pids.max"
        if child.returncode != -signal.SIGKILL or b"filled" in output:
            return "memory was filled past the limit"
        if self._slot.usage().oom_kills == 0:
            return "the process that filled its memory was ended by something else"
        return ""

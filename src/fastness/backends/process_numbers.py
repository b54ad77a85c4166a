"""
What is known of a process by its descriptor or its number: who it is, whose child, and what memory it takes.
"""

from __future__ import annotations

import os
import resource
import select

from fastness._linux.procs import parent_of, process_and_parent


def memory_of(pid: int) -> tuple[int, int, int]:
    """Bytes of address space, of resident memory and of data of a process now; zeros where it is gone."""
    try:
        # A number, and not an object that warns where an interrupt comes before it can be held.
        fd = os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fields = os.read(fd, 256).split()
        finally:
            os.close(fd)
    except OSError:
        return 0, 0, 0
    page = resource.getpagesize()
    return (int(fields[0]) * page, int(fields[1]) * page, int(fields[5]) * page) if fields else (0, 0, 0)


def pid_of(process: int) -> int:
    """The number of the process behind a descriptor, as this process sees it; 0 where it has ended."""
    return process_of(process)[0]


def process_of(process: int) -> tuple[int, int]:
    """As :func:`pid_of`, and the number of its parent; zeros where it has ended."""
    try:
        return process_and_parent(process)
    except OSError:
        pass  # a kernel before 6.13, or a process that has ended
    try:
        with open(f"/proc/self/fdinfo/{process}", encoding="ascii") as file:
            pid = max(0, *(int(line.split()[1]) for line in file if line.startswith("Pid:")), 0)
    except (OSError, ValueError):
        # It is no descriptor of a process.
        return 0, 0
    above = parent_of(pid) if pid else 0
    poller = select.poll()
    poller.register(process, select.POLLIN)
    # Only of one that lives still is it known that the number was not another's by then.
    return (0, 0) if poller.poll(0) else (pid, above)

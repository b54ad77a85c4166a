"""
What another process is given to read and can neither change nor wait for: a sealed file in memory.
"""

from __future__ import annotations

import os


def sealed_file(content: bytes) -> int:
    """
    A sealed file in memory with this content, at its start (``memfd_create(2)``); the caller closes it.

    Raises ``OSError``.
    """
    from fastness._linux import memory

    fd = memory.memory_file()
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
        memory.seal(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd

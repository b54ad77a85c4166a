"""
The thread that starts the processes which the kernel is to end with their parent.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")

__all__ = ["spawn_in_lasting_thread"]

_spawners: dict[int, ThreadPoolExecutor] = {}
_spawners_lock = threading.Lock()


def _spawner() -> ThreadPoolExecutor:
    """The one thread of this process that starts engines; a forked child has its own."""
    from concurrent.futures import ThreadPoolExecutor

    with _spawners_lock:
        pid = os.getpid()
        found = _spawners.get(pid)
        if found is None:
            _spawners.clear()
            found = _spawners[pid] = ThreadPoolExecutor(1, thread_name_prefix="fastness-spawn")
        return found


def spawn_in_lasting_thread(spawn: Callable[[], T]) -> T:
    """
    The result of ``spawn``, called in a thread that lives as long as this process does.

    A child that asks the kernel to end it with its parent is ended with the *thread* that started it.
    """
    return _spawner().submit(spawn).result()

"""
The one thread of this process that starts engines and zygotes: it lives as long as the process does.

A child that asks the kernel to end it with its parent is ended with the *thread* that started it (``prctl(2)``,
``PR_SET_PDEATHSIG``), so none may be started by a thread that ends sooner.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_Job = Callable[[], None]
#: What the thread is to do, by process: a forked child has a thread of its own.
_jobs: dict[int, queue.SimpleQueue[_Job]] = {}
_lock = threading.Lock()


def _work(jobs: queue.SimpleQueue[_Job]) -> None:
    while True:
        jobs.get()()


def _thread() -> queue.SimpleQueue[_Job]:
    """The queue of the thread, which is started with the first job.  Raises ``RuntimeError`` where none can be."""
    with _lock:
        pid = os.getpid()
        found = _jobs.get(pid)
        if found is None:
            found = queue.SimpleQueue()
            threading.Thread(target=_work, args=(found,), name="fastness-spawn", daemon=True).start()
            _jobs.clear()
            _jobs[pid] = found
        return found


def spawn_in_lasting_thread(spawn: Callable[[], T]) -> T:
    """The result of ``spawn``, or what it raises, called in that thread; ``RuntimeError`` where there can be none."""
    done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def job() -> None:
        try:
            done.put((spawn(), None))
        except BaseException as error:  # noqa: BLE001  # raised where it was asked for
            done.put((None, error))

    _thread().put(job)
    result, error = done.get()
    if error is not None:
        raise error
    made: T = result
    return made

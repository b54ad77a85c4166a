"""
Work that blocks, for adapters: done in a thread, and come to its end before a cancelled call does.

A thread cannot be stopped.  Were it left alone, an effect could happen after the call that asked for it was cancelled,
recorded as cancelled, and its grant revoked.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

__all__ = ["Stop", "Stopped", "whole"]


class Stopped(Exception):
    """Nothing was done, because nobody waits for it any more."""


class Stop:
    """Asks work in a thread to give up before it has done anything that could be seen."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def ask(self) -> None:
        """From the loop."""
        self._asked.set()

    def __bool__(self) -> bool:
        return self._asked.is_set()


async def whole(work: Callable[[Stop], T]) -> T:
    """
    The result of ``work`` in a thread of the running loop.

    Cancelled before it began, ``work`` is not done; cancelled meanwhile, it is asked to stop and waited for.  Then the
    cancellation goes on.
    """
    stop = Stop()

    def begun() -> T:
        # Threads are few: the call may have been cancelled while it waited for one.
        if stop:
            raise Stopped
        return work(stop)

    running = asyncio.get_running_loop().run_in_executor(None, begun)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            stop.ask()
            cancelled = error
    if cancelled is not None:
        running.exception()
        raise cancelled
    return running.result()

"""
Coroutines of the host's own loop, waited for in the broker's.

An ``async`` function belongs to the loop that its program runs in: what it uses there, such as a client with open
connections, works in no other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from fastness.errors import AdapterError

__all__ = ["in_loop"]


async def in_loop(loop: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """
    What the coroutine that ``make`` makes returns or raises, in ``loop``, which runs in another thread.

    Cancelled, it is cancelled there and waited for, so that it has come to rest when this ends.
    Raises AdapterError where that loop has ended.
    """
    here = asyncio.get_running_loop()
    done: asyncio.Future[None] = here.create_future()
    tasks: list[asyncio.Task[Any]] = []

    def begin() -> None:
        task = loop.create_task(make())
        tasks.append(task)
        task.add_done_callback(ended)

    def ended(_task: asyncio.Task[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # this process ends: nobody waits
            here.call_soon_threadsafe(settle)

    def settle() -> None:
        if not done.done():
            done.set_result(None)

    def cancel() -> None:
        for task in tasks:
            task.cancel()

    def soon(function: Callable[[], None]) -> None:
        try:
            loop.call_soon_threadsafe(function)
        except RuntimeError as error:
            raise AdapterError("the program that this function belongs to has ended") from error

    soon(begin)
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError as error:
            cancelled = error
            try:
                soon(cancel)
            except AdapterError:
                break
    if cancelled is not None:
        if tasks and not tasks[0].cancelled():
            tasks[0].exception()
        raise cancelled
    try:
        return tasks[0].result()
    except asyncio.CancelledError:
        # Somebody there ended it; nobody has cancelled this call.
        raise AdapterError("the function was cancelled") from None

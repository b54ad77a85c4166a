"""
Work on an asyncio loop that is cancelled at most once and then waited for to its end.

``Task.cancel`` raises in the task whatever it shields, and a second one raises in its clean-up.  A cancel scope of
anyio's is not delivered where it is shielded.  So the work has a task of its own, and only the scope in
it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio

__all__ = ["unbroken"]

T = TypeVar("T")


async def unbroken(
    work: Callable[[], Coroutine[Any, Any, T]], undo: Callable[[T], Coroutine[Any, Any, object]] | None = None
) -> T:
    """See :meth:`fastness.waiting.Waiting.unbroken`."""
    scope = anyio.CancelScope()
    results: list[T] = []

    async def inside() -> None:
        with scope:
            results.append(await work())

    task = asyncio.get_running_loop().create_task(inside())
    cancelled = await _ended(task, scope)
    if cancelled is None:
        task.result()
        if results:
            return results[0]
        # Somebody else cancelled the task, such as a loop that is being closed.
        raise asyncio.CancelledError
    if not task.cancelled():
        task.exception()
    if results and undo is not None:
        made = results[0]
        back = asyncio.get_running_loop().create_task(_run(lambda: undo(made)))
        await _ended(back, anyio.CancelScope())
        if not back.cancelled():
            back.exception()
    raise cancelled


async def _run(make: Callable[[], Coroutine[Any, Any, object]]) -> None:
    await make()


async def _ended(task: asyncio.Task[None], scope: anyio.CancelScope) -> asyncio.CancelledError | None:
    """Wait for a task; the first cancellation of whoever waits, which is handed on to the scope."""
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError as error:
        scope.cancel()
        # From here on scopes of whoever waits are not delivered either, again and again; a Task.cancel is, once each.
        with anyio.CancelScope(shield=True):
            while not task.done():
                try:
                    await asyncio.wait([task])
                except asyncio.CancelledError:
                    continue
        return error
    return None

"""
Work that goes on beside whoever began it: in threads where waiting blocks, else in tasks of the caller's loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from fastness.waiting import Waiting, drive

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

__all__ = ["Crew"]

Work = Callable[[], Coroutine[Any, Any, None]]


class Crew:
    """
    Use as ``async with``; the block ends when all that was started has ended, and where it is cancelled all is.

    What is started raises nothing.
    """

    def __init__(self, waiting: Waiting) -> None:
        self._blocks = waiting.blocks
        self._group: TaskGroup | None = None
        self._threads: list[threading.Thread] = []

    def start(self, work: Work) -> None:
        """Begin it.  Raises RuntimeError where no thread can be started."""
        if self._group is not None:
            self._group.start_soon(work)
            return
        thread = threading.Thread(target=lambda: drive(work()), name="fastness-signals", daemon=True)
        thread.start()
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]

    async def __aenter__(self) -> Self:
        if not self._blocks:
            import anyio

            self._group = anyio.create_task_group()
            await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._group is not None:
            return await self._group.__aexit__(kind, error, trace)
        for thread in self._threads:
            thread.join()
        return None

"""
What is left in the pipes of a guest that was ended.
"""

from __future__ import annotations

import select
import time
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastness.backends.native_talk import Talk

#: Pieces of late output that are held before the caller is told of them.
_UNTOLD = 16


async def drain(talk: Talk, seconds: float, over: int = -1) -> None:
    """
    Read what is left in the pipes of a guest that was ended; bounded, for nobody may hold them for ever.

    ``over`` is a descriptor that has something to read as soon as there is no use in waiting.  The caller hears of it
    where it hears of all else, and not in the thread that reads.
    """
    end = time.monotonic() + seconds
    left = {talk.box.out: "stdout", talk.box.err: "stderr"}
    while left and not talk.box.closed:
        late: list[tuple[str, bytes]] = []
        on = await talk.box.waiting.call(partial(_some, talk, left, end, over, late))
        for name, data in late:
            talk.gathered.tell(name, data, talk.sink)
        if not on:
            return


def _some(talk: Talk, left: dict[int, str], end: float, over: int, late: list[tuple[str, bytes]]) -> bool:
    """Some of it, and what is to be told of it; True where there may be more."""
    poller = select.poll()
    for fd in left:
        poller.register(fd, select.POLLIN)
    if over >= 0:
        poller.register(over, select.POLLIN)
    while left and time.monotonic() < end:
        for fd, _ in poller.poll(max(0.0, end - time.monotonic()) * 1000):
            if fd == over:
                return False
            if not talk.take_piece(left[fd], fd, late):
                poller.unregister(fd)
                del left[fd]
        if len(late) >= _UNTOLD:
            return True
    return False

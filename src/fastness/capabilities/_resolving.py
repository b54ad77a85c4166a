"""
Names, asked of the system.
"""

from __future__ import annotations

import socket

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

__all__ = ["resolve"]


async def resolve(name: str) -> list[str]:
    """
    The addresses of a name, from the system's resolver (getaddrinfo(3)), in text.  Raises OSError.

    The name is absolute: no search list and no alias of the environment applies.  The thread that waits is left alone
    when nobody waits for it any more, and no more than eight wait at once.
    """

    def ask() -> list[str]:
        # As bytes: a text would be turned into ASCII once more, by other rules.
        found = socket.getaddrinfo(f"{name}.".encode("ascii"), None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    return await anyio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=_slots())


def _slots() -> CapacityLimiter:
    try:
        return _SLOTS.get()
    except LookupError:
        _SLOTS.set(made := anyio.CapacityLimiter(8))
        return made


_SLOTS: RunVar[CapacityLimiter] = RunVar("fastness_resolving")

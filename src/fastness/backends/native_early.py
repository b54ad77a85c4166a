"""
What a guest is given before it is ready: limits, files, and its work, so that it has to wait for nobody then.

It reads no word of its conversation before it has all its walls, so the work may be there sooner.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from fastness.backends import native_limits, native_work
from fastness.backends.sealed_file import sealed_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastness.backends.base import Staged
    from fastness.backends.native_guest import Guest
    from fastness.runs import RunRequest
    from fastness.tier import Tier

#: Bytes of inputs above which writing them is worth a thread.
_INLINE = 1 << 16


class Ahead:
    """
    For a guest that is made ahead: what of its limits any run of its kind has.

    The next request may be another one than that of which it was made.
    """

    def __init__(self, tier: Tier, request: RunRequest) -> None:
        self._tier = tier
        self._request = request

    def unborn(self, guest: Guest) -> None:
        """Nothing yet."""

    def born(self, guest: Guest) -> None:
        """Limit its group."""
        native_limits.bound_early(self._tier, self._request, guest)


class Told:
    """
    For a guest that is made for one request, or for a session where there is no ``staged``.

    It hears of its work once its process is known to this side and no sooner: what it has heard of it goes through
    with, also where whoever asked for it has given up meanwhile, and somebody has to be able to end it.
    """

    def __init__(self, tier: Tier, request: RunRequest, staged: Staged | None, tell: Callable[[], bool]) -> None:
        self._tier = tier
        self._request = request
        self._staged = staged
        self._tell = tell
        self._small_table = request.limits.fds < native_limits.FDS_AT_BIRTH

    def unborn(self, guest: Guest) -> None:
        """Let its birth set its limits."""
        if not self._small_table:
            native_limits.bound_unborn(self._tier, guest, self._request, session=self._staged is None)

    def born(self, guest: Guest) -> None:
        """Set them from outside where that was not done, and leave its work in its conversation."""
        if self._small_table:
            return
        native_limits.bound(self._tier, guest, self._request, session=self._staged is None)
        if self._staged is not None and self._tell() and fill_small(guest, self._staged):
            tell(guest, self._request)


def fill_small(guest: Guest, staged: Staged) -> bool:
    """
    Put a run's files into its guest's work folder where that takes no time; False where it may, and nothing was done.

    Raises StagingError.
    """
    if staged.project is not None or sum(map(len, staged.files.values())) >= _INLINE:
        return False
    if staged.files:
        native_work.fill(guest, staged)
    return True


def tell(guest: Guest, request: RunRequest) -> None:
    """Leave the run's invoke with a guest that is not ready yet, unless it is large.  Raises BoxLost."""
    # It may begin before this side looks again.  Of a program, the time of its group is what is counted.
    slot = guest.slot if request.runtime == "command" else None
    guest.box.told_at = time.monotonic()
    guest.box.cpu_then = guest.box.cpu_s() if slot is None else (slot.cpu_us() or 0) / 1e6
    head, code = native_work.invoke(guest, request, "run", 0)
    stdin = sealed_file(request.stdin) if request.stdin else -1
    try:
        guest.box.send_early(head, code, (stdin,) if stdin >= 0 else ())
        guest.box.look_ahead()
    finally:
        if stdin >= 0:
            os.close(stdin)

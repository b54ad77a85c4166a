"""
A one-shot timer behind a file descriptor (``timerfd_create(2)``), on the monotonic clock.
"""

from __future__ import annotations

import ctypes as C

from fastness._linux.syscalls import raw

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK_CLOEXEC = 0x80000 | 0x800


class Timer:
    """
    Its ``fd`` turns readable once, when the time that was set last has passed.

    Arming makes one system call and allocates nothing in the kernel.  A thread other than the one that waits on
    ``fd`` may arm it.
    """

    __slots__ = ("_address", "_keep", "_words", "fd")

    def __init__(self) -> None:
        keep = (C.c_int64 * 4)()
        self._keep = keep
        self._address = C.addressof(keep)
        self._words = memoryview(keep).cast("B").cast("q")
        # SAFETY: integers only.
        self.fd = raw("timerfd_create", _CLOCK_MONOTONIC, _TFD_NONBLOCK_CLOEXEC)

    def arm(self, seconds: float) -> None:
        """Expire ``seconds`` from now, at least a nanosecond; an earlier setting is forgotten.  Raises ``OSError``."""
        nanos = max(int(seconds * 1_000_000_000), 1)
        self._words[2], self._words[3] = divmod(nanos, 1_000_000_000)
        # SAFETY: `_keep` is a `struct itimerspec` of four 64-bit words that lives as long as this object.
        raw("timerfd_settime", self.fd, 0, self._address, 0)

    def disarm(self) -> None:
        """Never expire.  An expiry that was not read yet is forgotten too.  Raises ``OSError``."""
        self._words[2] = self._words[3] = 0
        # SAFETY: as in `arm`.
        raw("timerfd_settime", self.fd, 0, self._address, 0)

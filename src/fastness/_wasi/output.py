"""
What a guest writes to stdout and stderr, on its way to the parent.

Everything is sent on until the total cap ends the run; the parent decides what is kept.  A first write starts a
timer of a few milliseconds: a short run's output then travels inside its result frame, in one system call, and a
guest that prints and goes on computing is still heard soon.
"""

from __future__ import annotations

from _thread import allocate_lock

from fastness._wasi.stop import Stop
from fastness.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Bytes that are gathered before they are sent without waiting for the timer.
_CHUNK = 64 << 10
#: Bytes that a held-back run may gather before holding back ends.
_HOLD = 8 << 20
_HEADS = {1: b'{"name":"stdout"}', 2: b'{"name":"stderr"}'}


class Output:
    """
    The two streams of the run in progress.

    ``hold`` keeps everything back until the run's end, so that a run may be given up and started again elsewhere
    without its output having been seen twice; ``sent`` tells whether anything has left.
    """

    def __init__(self, send: Callable[[int, bytes, bytes], None], soon: Callable[[], None]) -> None:
        self._send = send
        self._soon = soon
        self._lock = allocate_lock()
        self._parts: dict[int, list[bytes]] = {1: [], 2: []}
        self._pending = 0
        self._left = 0
        self.written = {1: 0, 2: 0}
        self.hold = False
        self.sent = False

    def begin(self, total: int, hold: bool) -> None:
        """Start a run that may write ``total`` bytes."""
        with self._lock:
            self._parts = {1: [], 2: []}
            self._pending = 0
            self._left = total
            self.written = {1: 0, 2: 0}
            self.hold = hold
            self.sent = False

    def write(self, fd: int, data: bytes) -> None:
        """Take bytes from the guest.  Raises :class:`Stop` where the run has written more than it may."""
        over = len(data) > self._left
        if over:
            data = data[: self._left]
        with self._lock:
            first = not self._pending
            self._left -= len(data)
            self._pending += len(data)
            self.written[fd] += len(data)
            self._parts[fd].append(data)
            if self._pending >= (_HOLD if self.hold else _CHUNK):
                self.hold = False
                self._flush()
            elif first and not self.hold:
                self._soon()
        if over:
            raise Stop("output_limit")

    def flush(self) -> None:
        """Send what is pending, from any thread."""
        with self._lock:
            if not self.hold:
                self._flush()

    def _flush(self) -> None:
        for fd in (1, 2):
            data = b"".join(self._parts[fd])
            self._parts[fd] = []
            for at in range(0, len(data), 1 << 20):
                self._send(frames.EVENT, _HEADS[fd], data[at : at + (1 << 20)])
                self.sent = True
        self._pending = 0

    def take(self) -> tuple[bytes, bytes]:
        """What has not been sent yet; at most a few hundred KiB, unless held back."""
        with self._lock:
            if self._pending > _CHUNK:
                self.hold = False
                self._flush()
            out, err = b"".join(self._parts[1]), b"".join(self._parts[2])
            self._parts = {1: [], 2: []}
            self._pending = 0
            return out, err

    def discard(self) -> None:
        """Forget what is pending: the run is started again elsewhere."""
        with self._lock:
            self._parts = {1: [], 2: []}
            self._pending = 0

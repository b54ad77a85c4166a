"""
The engine's end of the frame channel, and what a result frame says of a run.
"""

from __future__ import annotations

import _socket
import _thread
import os

from fastness._wasi import tiny_json
from fastness.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fastness._wasi.serving import Run

_MSG_WAITALL = 0x100
_MSG_DONTWAIT = 0x40
#: Bytes that are asked for at once where a small frame is likely.
_CHUNK = 16 << 10
#: Most deleted paths that a result names.
_PATHS = 4096


class Conversation:
    """The engine's end of the frame channel.  Sending is safe from any thread."""

    def __init__(self, descriptor: int) -> None:
        self._socket = _socket.socket(fileno=descriptor)
        self._lock = _thread.allocate_lock()
        self._parser = frames.from_host()
        self.fileno = descriptor

    def send(self, kind: int, head: bytes, blob: bytes = b"") -> None:
        """Send one frame; ends the process where the parent is gone."""
        data = frames.encode(kind, head, blob)
        with self._lock:
            try:
                self._socket.sendall(data)
            except OSError:
                os._exit(0)

    def send_json(self, kind: int, head: dict[str, Any], blob: bytes = b"") -> None:
        """Send one frame with a JSON head."""
        self.send(kind, tiny_json.dumps(head).encode("utf-8", "replace"), blob)

    def receive(self) -> tuple[int, dict[str, Any], bytes]:
        """
        The next frame from the parent; ends the process at end of file.

        No guest runs meanwhile: answers to calls of one that did are left out.
        """
        while True:
            kind, head, blob = self._receive()
            if kind not in (frames.REPLY, frames.FAULT):
                return kind, head, blob

    def received(self) -> frames.Frame | None:
        """The next frame of what was read from the parent, or None where that is none."""
        return self._parser.next()

    def read_some(self) -> None:
        """Read what has come from the parent, without waiting; ends the process at end of file."""
        try:
            data = self._socket.recv(min(max(self._parser.needed(), _CHUNK), 1 << 20), _MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not data:
            os._exit(0)
        self._parser.feed(data)

    def _receive(self) -> tuple[int, dict[str, Any], bytes]:
        parser = self._parser
        while (frame := parser.next()) is None:
            data = self._socket.recv(min(parser.needed(), 1 << 20), _MSG_WAITALL)
            if not data:
                os._exit(0)
            parser.feed(data)
        return frame.type, tiny_json.loads(frame.head.decode()) if frame.head else {}, frame.blob


def fill_rows(result: dict[str, Any], run: Run, deleted: list[str]) -> dict[str, Any]:
    """Put rows into a result's head as far as the head's cap allows; the rest is counted."""
    room = frames.GUEST_MAX_HEAD - 2048
    for (operation, target, code, layer, count), first in zip(
        run.denials.rows(), run.denials.first_seen(), strict=True
    ):
        room -= len(operation) + len(target.encode()) + 100
        if room < 0:
            result["denials_dropped"] += count
            continue
        row = {"operation": operation, "target": target, "code": code, "layer": layer, "count": count}
        row["at_us"] = max(0, first - run.started_ns) // 1000
        result["denials"].append(row)
    for path in deleted:
        room -= 2 * len(path.encode()) + 8
        if room < 0 or len(result["deleted"]) >= _PATHS:
            result["changes_dropped"] += 1
        else:
            result["deleted"].append(path)
    return result

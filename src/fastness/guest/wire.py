"""
The channel for calls of a Python guest of the WASM tier: a descriptor on which frames go out and answers come in.

The text of this file is executed while a memory image is made, as a module called ``_fastness_wire``, after the boot
code.  Frames are as the host's protocol has them; the host trusts no byte of them.
"""

from __future__ import annotations

import errno
import json
import os
import struct

import _fastness as boot
import _fastness_context as context

#: The descriptor, where the run was granted anything.
CALLS = 1002

_read = os.read
_write = os.write
_HEADER = struct.Struct(">BBHII")
_pack, _unpack = _HEADER.pack, _HEADER.unpack


class Wire:
    """The channel; reading waits for an answer.  What is read ahead is no more than one frame."""

    def __init__(self) -> None:
        self._held = b""

    def send(self, kind: int, head: bytes, blob: bytes) -> None:
        """Send one frame."""
        view = memoryview(_pack(1, kind, 0, len(head), len(blob)) + head + blob)
        while view:
            view = view[_write(CALLS, view) :]

    def _take(self, size: int) -> bytes:
        parts = [self._held]
        have = len(self._held)
        while have < size:
            # Small reads: a large buffer would dirty far pages.
            part = _read(CALLS, 8192 if size - have <= 8192 else min(size - have, 1 << 20))
            if not part:
                raise OSError(errno.EPIPE, "no answer will come")
            parts.append(part)
            have += len(part)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._held = data[size:]
        return data[:size]

    def receive(self) -> list[tuple[int, dict[str, object], bytes]]:
        """The next answer; waits for it."""
        _, kind, _, head, blob = _unpack(self._take(_HEADER.size))
        text = self._take(head)
        return [(kind, json.loads(text), self._take(blob))]

    def fileno(self) -> int:
        """The descriptor."""
        return CALLS


def warm() -> None:
    """A call with its answer, so that the image holds what a first one makes."""

    class Nobody:
        def send(self, kind: int, head: bytes, blob: bytes) -> None:
            pass

        def receive(self) -> list[tuple[int, dict[str, object], bytes]]:
            return [(4, json.loads('{"id": 1}'), b'{"a": [1, {"$": ["bytes", "AA=="]}]}')]

    granted = [{"capability": "a", "operation": "b", "parameters": [["c", False]]}]
    context.make(granted, context.Calls(Nobody())).a.b([1, "x"])


boot._wire.append(Wire)

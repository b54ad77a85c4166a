"""
Calls of a command module as lines of text, for programs that know no frames.

A line is ``CAPABILITY OPERATION ARGUMENTS``, where the arguments are a JSON object, and its answer is ``ok VALUE`` or
``no CODE TEXT``.  Calls are made one after the other, so answers come in the order of the lines.
"""

from __future__ import annotations

from fastness._wasi import tiny_json
from fastness._wasi.calls import CallChannel, CallsFd
from fastness._wasi.stop import Stop
from fastness.wire import frames

#: Bytes of a line: two names, and arguments as large as a frame's.
_LINE_MAX = frames.GUEST_MAX_BLOB + 256


class LinesFd(CallsFd):
    """The guest's descriptor: each line that it writes is a call, and what it reads are answers, a line each."""

    __slots__ = ("_line", "_size")

    def __init__(self, channel: CallChannel) -> None:
        CallsFd.__init__(self, channel)
        #: What came since the last end of a line.
        self._line: list[bytes] = []
        self._size = 0
        self.out = self._write

    def _write(self, data: bytes) -> None:
        """Raises ``Stop`` for what is no call, and when the run is to end."""
        while (at := data.find(b"\n")) >= 0:
            self._keep(data[:at])
            line = b"".join(self._line)
            self._line.clear()
            self._size = 0
            data = data[at + 1 :]
            self._call(line)
        if data:
            self._keep(data)

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > _LINE_MAX:
            raise Stop("calls", f"the guest's line of a call is longer than {_LINE_MAX} bytes")
        self._line.append(data)

    def _call(self, line: bytes) -> None:
        capability, _, rest = line.partition(b" ")
        operation, _, arguments = rest.partition(b" ")
        try:
            names = capability.decode("ascii"), operation.decode("ascii")
        except UnicodeDecodeError:
            raise Stop("calls", "the guest's line names no operation of a capability") from None
        self.channel.settle()
        self.channel.call(*names, arguments)

    def _text(self, found: tuple[int, bytes, bytes]) -> bytes:
        kind, head, blob = found
        if kind == frames.REPLY:
            return b"ok %s\n" % (blob or b"null")
        told = tiny_json.loads(head.decode())
        # Whatever a text holds, it is one line.
        words = " ".join(f"no {told['code']} {told.get('message', '')}".split())
        return words.encode("utf-8", "replace") + b"\n"

    def ready(self) -> int:
        """As there; how long a line will be is not known before it is read."""
        return len(self.data) - self.pos or min(self.channel.ready(), 1)

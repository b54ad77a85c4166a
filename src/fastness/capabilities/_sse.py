"""
Events of a server as they come (the event stream of HTML): what is asked of models sends its answer so.
"""

from __future__ import annotations

import re

from fastness.errors import AdapterError

__all__ = ["Events"]

#: Bytes of one event.
_LONGEST = 1 << 20
_LINE_END = re.compile(rb"\r\n|\n|\r")


class Events:
    """Takes bytes in pieces of any size, and gives the data of each event that is whole."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._looked = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of events that are whole with this piece.  Raises AdapterError where one is too long."""
        found: list[bytes] = []
        self._rest += piece
        while True:
            # Lines end with either or both of CR and LF; one that ends with CR may have an LF yet to come.
            end = self._line_end()
            if end is None:
                break
            line = bytes(self._rest[: end[0]])
            del self._rest[: end[1]]
            self._looked = 0
            self._take(line, found)
        if len(self._rest) + self._size > _LONGEST:
            raise AdapterError("the answer has an event that is too long")
        return found

    def _line_end(self) -> tuple[int, int] | None:
        """Where the next line ends and the one after it begins."""
        match = _LINE_END.search(self._rest, self._looked)
        if match is None:
            self._looked = len(self._rest)
            return None
        if match[0] == b"\r" and match.end() == len(self._rest):
            self._looked = match.start()
            return None
        return match.span()

    def _take(self, line: bytes, found: list[bytes]) -> None:
        if not line:
            if self._data:
                found.append(b"\n".join(self._data))
            self._data, self._size = [], 0
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._size += len(value) + 1

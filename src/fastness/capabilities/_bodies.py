"""
Bodies of answers, taken in under a ceiling that counts what comes out of a compressed one, not what went in.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Body", "BrokenBody", "TooLarge"]


class TooLarge(Exception):
    """The body passes its ceiling."""


class BrokenBody(Exception):
    """The body is not what it says that it is.  The message is fit for a guest."""


class Body:
    """
    The bytes of one answer, at most ``ceiling`` of them.

    ``encoding`` is what Content-Encoding says.  Requests ask for none; gzip is undone all the same, since some servers
    have nothing else to send, and every other one is refused.  Raises BrokenBody.
    """

    def __init__(self, ceiling: int, encoding: str) -> None:
        self._left = ceiling
        self._kept: list[bytes] = []
        self._zip: Any = None
        if encoding in ("gzip", "x-gzip"):
            import zlib

            self._zip = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        elif encoding not in ("", "identity"):
            raise BrokenBody("the answer is encoded in a way that was not asked for")

    def add(self, piece: bytes) -> None:
        """Take what came.  Raises TooLarge before it keeps a byte too many, BrokenBody."""
        if self._zip is None:
            self._keep(piece)
            return
        import zlib

        try:
            while piece:
                if self._zip.eof:
                    # A second member behind the first: no server needs it, and each costs time and no bytes.
                    raise BrokenBody("the answer goes on after its compressed content")
                # No more comes out at once than may be kept, and one byte to see that there is more.
                self._keep(self._zip.decompress(piece, self._left + 1))
                piece = self._zip.unconsumed_tail or self._zip.unused_data
        except zlib.error:
            raise BrokenBody("the answer's compressed content is broken") from None

    def _keep(self, data: bytes) -> None:
        if len(data) > self._left:
            raise TooLarge
        self._left -= len(data)
        if data:
            self._kept.append(data)

    def whole(self) -> bytes:
        """All of it.  Raises BrokenBody where compressed content ends early."""
        if self._zip is not None and not self._zip.eof and (self._kept or self._zip.unconsumed_tail):
            raise BrokenBody("the answer's compressed content is cut off")
        return b"".join(self._kept)

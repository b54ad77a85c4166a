"""
What is kept of an output stream: its head and its tail, whatever its length.

Bytes past the cap are counted, never stored: a guest that prints gigabytes costs the host the cap and no more.
"""

from __future__ import annotations

from collections import deque


class HeadTail:
    """
    Keeps at most ``cap`` bytes: the first half as they came, and the last half.

    ``dropped`` counts bytes between the two that were not kept.  Where anything was dropped, :meth:`bytes` has a line
    in between that says so.
    """

    __slots__ = ("_head", "_head_cap", "_head_size", "_tail", "_tail_cap", "_tail_size", "dropped")

    def __init__(self, cap: int) -> None:
        self._head_cap = cap - cap // 2
        self._tail_cap = cap // 2
        self._head: list[bytes] = []
        self._head_size = 0
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.dropped = 0

    def add(self, data: bytes) -> None:
        """Take more of the stream."""
        room = self._head_cap - self._head_size
        if room > 0:
            self._head.append(data[:room])
            self._head_size += len(self._head[-1])
            data = data[room:]
        if not data:
            return
        if len(data) > self._tail_cap:
            self.dropped += len(data) - self._tail_cap
            data = data[len(data) - self._tail_cap :]
        if data:
            self._tail.append(data)
            self._tail_size += len(data)
        while self._tail_size > self._tail_cap:
            over = self._tail_size - self._tail_cap
            first = self._tail.popleft()
            cut = min(over, len(first))
            self.dropped += cut
            self._tail_size -= cut
            if cut < len(first):
                self._tail.appendleft(first[cut:])

    def bytes(self) -> bytes:
        """Head, note, tail."""
        head = b"".join(self._head)
        if not self.dropped:
            return head + b"".join(self._tail) if self._tail else head
        return b"%s\n[... %d bytes dropped ...]\n%s" % (head, self.dropped, b"".join(self._tail))

"""
Access to the guest's linear memory, and the descriptor type: the ground that the calls stand on.

Every address and length is guest data.  Nothing is read or written before the whole range was checked against the
memory's size, and no length from the guest is allocated here beyond :data:`MAX_TRANSFER`.
"""

from __future__ import annotations

from _struct import Struct
from ctypes import memmove, string_at

from .preview1_abi import (
    FAULT,
    INVAL,
    R_FD_ADVISE,
    R_FD_ALLOCATE,
    R_FD_DATASYNC,
    R_FD_FDSTAT_SET_FLAGS,
    R_FD_FILESTAT_GET,
    R_FD_FILESTAT_SET_SIZE,
    R_FD_FILESTAT_SET_TIMES,
    R_FD_SEEK,
    R_FD_SYNC,
    R_FD_TELL,
    R_FD_WRITE,
    R_POLL_FD_READWRITE,
    RIGHTS_STREAM_IN,
    RIGHTS_STREAM_OUT,
    TYPE_CHARACTER_DEVICE,
    TYPE_UNKNOWN,
    Errno,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from .calls import CallChannel
    from .memfs import Node

    class Memory(Protocol):
        """What a linear memory must offer; only growth may change it."""

        def base(self) -> int: ...

        def size(self) -> int: ...


#: Most bytes that one read or write moves; a longer request is a short transfer, as POSIX permits.
MAX_TRANSFER = 32 << 20
#: Most buffers in one vectored call, the usual IOV_MAX.
MAX_IOVECS = 1024

_pair = Struct("<II").unpack
_pairs = Struct("<II").iter_unpack

#: Rights that an open file has without asking.  They guard nothing that reading or writing does not already give, and
#: programs written for hosts without rights rely on them; who drops one with ``fd_fdstat_set_rights`` loses it.
_IMPLIED = (
    R_FD_SEEK
    | R_FD_TELL
    | R_FD_FILESTAT_GET
    | R_FD_FILESTAT_SET_TIMES
    | R_FD_ADVISE
    | R_FD_SYNC
    | R_FD_DATASYNC
    | R_FD_FDSTAT_SET_FLAGS
    | R_POLL_FD_READWRITE
)
_IMPLIED_WRITE = _IMPLIED | R_FD_ALLOCATE | R_FD_FILESTAT_SET_SIZE


class Fd:
    """
    One descriptor: a file or directory (``node``), or a stream (``node`` is None).

    ``rights`` and ``inheriting`` are what the guest is told; ``allowed`` is what is enforced.  A stream is read from
    ``data`` at ``pos`` and written to ``out``.  ``preopen`` is the guest's name for a preopened directory; ``path`` is
    a name for denials only.
    """

    __slots__ = (
        "allowed",
        "data",
        "filetype",
        "flags",
        "inheriting",
        "node",
        "out",
        "path",
        "pos",
        "preopen",
        "rights",
    )

    #: Where reading waits for somebody outside: what it waits for.
    channel: CallChannel | None = None

    def __init__(
        self,
        node: Node | None,
        rights: int,
        inheriting: int = 0,
        flags: int = 0,
        path: str = "",
        preopen: bytes | None = None,
    ) -> None:
        self.node = node
        self.pos = 0
        self.flags = flags
        self.rights = rights
        self.inheriting = inheriting
        self.path = path
        self.preopen = preopen
        self.data = b""
        self.out: Callable[[bytes], object] | None = None
        if node is None:
            self.allowed = rights
            self.filetype = TYPE_UNKNOWN
        else:
            self.filetype = node.filetype
            if node.is_dir:
                self.allowed = rights
            else:
                self.allowed = rights | (_IMPLIED_WRITE if rights & R_FD_WRITE else _IMPLIED)

    def content(self) -> bytes:
        """What a stream is read from."""
        return self.data

    def ready(self) -> int:
        """Bytes that a stream has to read at once; -1 where they have yet to come."""
        return max(0, len(self.data) - self.pos)

    def clone(self, node: Node | None) -> Fd:
        """The same state on another node: for descriptors that are saved with a memory image."""
        twin = Fd(node, self.rights, self.inheriting, self.flags, self.path, self.preopen)
        twin.pos = self.pos
        twin.allowed = self.allowed
        return twin


def stream(data: bytes | None, out: Callable[[bytes], object] | None, tty: bool = False) -> Fd:
    """
    A stream descriptor: readable where ``data`` is not None, writable where ``out`` is not.

    The C library takes a character device without the right to seek for a terminal and flushes at each line; with
    ``tty`` false the type is unknown, as it is for a pipe.
    """
    fd = Fd(None, (RIGHTS_STREAM_IN if data is not None else 0) | (RIGHTS_STREAM_OUT if out is not None else 0))
    if data is not None:
        fd.data = data
    fd.out = out
    if tty:
        fd.filetype = TYPE_CHARACTER_DEVICE
    return fd


class GuestMemory:
    """Checked reads and writes; the base of the host class."""

    __slots__ = ("base", "memory", "size")

    def __init__(self) -> None:
        self.memory: Memory | None = None
        self.base = 0
        self.size = 0

    def bind(self, memory: Memory) -> None:
        """Serve the guest with this linear memory."""
        self.memory = memory
        self.base = memory.base()
        self.size = memory.size()

    def check(self, address: int, count: int) -> None:
        """Raise FAULT unless the ``count`` bytes at ``address`` lie in the guest's memory."""
        if address + count > self.size:
            memory = self.memory
            if memory is not None:
                # The guest may have grown its memory since; it can not shrink, so the cached size is only ever low.
                self.base = memory.base()
                self.size = memory.size()
            if address + count > self.size:
                raise Errno(FAULT)

    def read(self, address: int, count: int) -> bytes:
        """Copy ``count`` bytes out; the caller has bounded ``count``."""
        if address + count > self.size:
            self.check(address, count)
        # SAFETY: the range lies in the guest's memory, which stays mapped while the guest is inside this call.
        return string_at(self.base + address, count)

    def write(self, address: int, data: bytes) -> None:
        """Copy ``data`` in."""
        if address + len(data) > self.size:
            self.check(address, len(data))
        # SAFETY: as in `read`; `data` is an immutable bytes object of that length.
        memmove(self.base + address, data, len(data))

    def write_u32(self, address: int, value: int) -> None:
        """Store 32 bits, little-endian."""
        self.write(address, value.to_bytes(4, "little"))

    def write_u64(self, address: int, value: int) -> None:
        """Store 64 bits, little-endian."""
        self.write(address, value.to_bytes(8, "little"))

    def iovecs(self, address: int, count: int) -> list[tuple[int, int]]:
        """(address, length) of each buffer of a vectored call, each checked; at most MAX_TRANSFER bytes in all."""
        if count == 1:
            start, length = _pair(self.read(address, 8))
            if length > MAX_TRANSFER:
                self.check(start, length)
                length = MAX_TRANSFER
            elif start + length > self.size:
                self.check(start, length)
            return [(start, length)]
        if count > MAX_IOVECS:
            raise Errno(INVAL)
        left = MAX_TRANSFER
        vectors = []
        for start, wanted in _pairs(self.read(address, 8 * count)):
            self.check(start, wanted)
            length = min(wanted, left)
            if length:
                vectors.append((start, length))
                left -= length
        return vectors

    def gather(self, address: int, count: int) -> bytes:
        """The bytes of a vectored write."""
        vectors = self.iovecs(address, count)
        if len(vectors) == 1:
            start, length = vectors[0]
            # SAFETY: `iovecs` checked the range and bounded the length.
            return string_at(self.base + start, length)
        base = self.base
        # SAFETY: as above, for each vector.
        return b"".join([string_at(base + start, length) for start, length in vectors])

    def scatter(self, vectors: list[tuple[int, int]], data: bytes | bytearray | memoryview, position: int) -> int:
        """Fill checked buffers from ``data`` at ``position``; returns the bytes moved."""
        total = 0
        size = len(data)
        for start, length in vectors:
            count = min(length, size - position)
            if count <= 0:
                break
            # SAFETY: `iovecs` checked the range and bounded the length, and the slice has `count` bytes.
            memmove(self.base + start, bytes(data[position : position + count]), count)
            position += count
            total += count
        return total

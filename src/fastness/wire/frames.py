"""
Frames of wire protocol version 1: a 12-byte header, a JSON head, a raw blob.

The header is ``version u8 | type u8 | flags u16 | head_len u32 | blob_len u32``, big-endian.  The caps on both lengths
are checked as soon as the header is there, before a byte of the body is stored on its account.

An engine process imports this module in an interpreter without site-packages and pays for every import at each
start, so it needs ``struct`` alone.  It knows nothing of what a head says: see ``messages``.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = 1

#: Host to guest.
START = 0x01
INVOKE = 0x02
INTERRUPT = 0x03
REPLY = 0x04
FAULT = 0x05
CANCEL = 0x06
STAGE = 0x07

#: Guest to host.
HELLO = 0x41
READY = 0x42
CALL = 0x43
DROP = 0x44
LOG = 0x45
EVENT = 0x46
ARTEFACT = 0x47
RESULT = 0x48
ERROR = 0x49
BYE = 0x4A

NAMES = {
    START: "start",
    INVOKE: "invoke",
    INTERRUPT: "interrupt",
    REPLY: "reply",
    FAULT: "fault",
    CANCEL: "cancel",
    STAGE: "stage",
    HELLO: "hello",
    READY: "ready",
    CALL: "call",
    DROP: "drop",
    LOG: "log",
    EVENT: "event",
    ARTEFACT: "artefact",
    RESULT: "result",
    ERROR: "error",
    BYE: "bye",
}

#: The types that each direction may carry.
HOST_TYPES = frozenset(kind for kind in NAMES if kind < HELLO)
GUEST_TYPES = frozenset(kind for kind in NAMES if kind >= HELLO)
ALL_TYPES = HOST_TYPES | GUEST_TYPES

#: Caps in bytes.  What comes from a guest is held to the smaller pair; larger things travel in pieces.
GUEST_MAX_HEAD = 64 << 10
GUEST_MAX_BLOB = 4 << 20
HOST_MAX_HEAD = 1 << 20
HOST_MAX_BLOB = 16 << 20

HEADER_SIZE = 12

_HEADER = struct.Struct(">BBHII")
_unpack = _HEADER.unpack_from
_pack = _HEADER.pack


class FrameError(Exception):
    """
    The byte stream is not a sequence of frames of this version; nothing after this point can be trusted.

    ``reason`` is one of ``version``, ``type``, ``flags``, ``head_size``, ``blob_size``.
    """

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        super().__init__(detail)


class Frame:
    """One frame as it came: ``type`` is a number of this module, ``head`` the undecoded JSON, ``blob`` raw bytes."""

    __slots__ = ("blob", "flags", "head", "type")

    def __init__(self, type: int, head: bytes, blob: bytes = b"", flags: int = 0) -> None:
        self.type = type
        self.head = head
        self.blob = blob
        self.flags = flags

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frame):
            return NotImplemented
        return (self.type, self.head, self.blob, self.flags) == (other.type, other.head, other.blob, other.flags)

    __hash__ = None  # type: ignore[assignment]  # mutable: a frame is not a key

    def __repr__(self) -> str:
        name = NAMES.get(self.type, self.type)
        return f"<Frame {name} head={len(self.head)} blob={len(self.blob)}>"


def encode(type: int, head: bytes, blob: bytes = b"", flags: int = 0) -> bytes:
    """The bytes of one frame.  The caller keeps to the receiver's caps; the receiver checks them."""
    return _pack(VERSION, type, flags, len(head), len(blob)) + head + blob


def encode_buffers(type: int, head: bytes, blobs: Iterable[bytes], flags: int = 0) -> list[bytes]:
    """One frame as buffers for ``sendmsg``: a blob of several parts is not copied together first."""
    parts = [part for part in blobs if part]
    size = 0
    for part in parts:
        size += len(part)
    return [_pack(VERSION, type, flags, len(head), size) + head, *parts]


class FrameParser:
    """
    Cuts a byte stream into frames.

    ``feed`` what was received, then take frames with ``next`` until it returns None.  As long as the caller does
    so, at most one frame (header, ``max_head`` and ``max_blob``) and the last chunk are held, and memory grows only
    as bytes arrive: a header that announces four mebibytes costs nothing until they come.

    ``types`` are the frame types that the other side may send; :func:`from_guest` and :func:`from_host` allow those of
    one direction.  After a :class:`FrameError` the parser stays broken
    and raises the same error again: a stream that lost its frame boundaries has no next frame.
    """

    __slots__ = ("_buf", "_end", "_error", "_fields", "_pos", "max_blob", "max_head", "types")

    def __init__(
        self,
        max_head: int = GUEST_MAX_HEAD,
        max_blob: int = GUEST_MAX_BLOB,
        types: frozenset[int] = ALL_TYPES,
    ) -> None:
        self.max_head = max_head
        self.max_blob = max_blob
        self.types = types
        self._buf: bytes | bytearray = b""
        self._pos = 0
        # (type, flags, head_len) of a header that passed its checks; _end is then the offset after its blob.
        self._fields: tuple[int, int, int] | None = None
        self._end = HEADER_SIZE
        self._error: FrameError | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes in; any split of the stream will do.  Raises the error of a broken parser again."""
        if self._error is not None:
            raise self._error
        buf = self._buf
        pos = self._pos
        if pos == len(buf):
            # The common case, a whole frame in one chunk, is cut out of the chunk itself.
            self._buf = bytes(data)
            self._end -= pos
            self._pos = 0
            return
        if type(buf) is not bytearray:
            buf = self._buf = bytearray(memoryview(buf)[pos:])
            self._end -= pos
            self._pos = 0
        elif pos:
            del buf[:pos]
            self._end -= pos
            self._pos = 0
        buf += data

    def next(self) -> Frame | None:
        """The next whole frame, or None when more bytes are needed.  Raises :class:`FrameError`."""
        buf = self._buf
        pos = self._pos
        fields = self._fields
        if fields is None:
            if self._error is not None:
                raise self._error
            if len(buf) - pos < HEADER_SIZE:
                return None
            fields = self._check_header(buf, pos)
        end = self._end
        if len(buf) < end:
            self._fields = fields
            return None
        kind, flags, head_len = fields
        start = pos + HEADER_SIZE
        middle = start + head_len
        if type(buf) is bytes:
            frame = Frame(kind, buf[start:middle], buf[middle:end], flags)
        else:
            with memoryview(buf) as view:
                frame = Frame(kind, bytes(view[start:middle]), bytes(view[middle:end]), flags)
        self._fields = None
        if end == len(buf):
            self._buf = b""
            self._pos = 0
            self._end = HEADER_SIZE
        else:
            self._pos = end
            self._end = end + HEADER_SIZE
        return frame

    def _check_header(self, buf: bytes | bytearray, pos: int) -> tuple[int, int, int]:
        version, kind, flags, head_len, blob_len = _unpack(buf, pos)
        if version != VERSION:
            raise self._broken("version", f"protocol version {version}; only version {VERSION} is spoken")
        if kind not in self.types:
            raise self._broken("type", f"frame type {NAMES.get(kind, hex(kind))} does not exist in this direction")
        if flags:
            raise self._broken("flags", f"flags {flags:#06x}; version {VERSION} defines none")
        if head_len > self.max_head:
            raise self._broken("head_size", f"a head of {head_len} bytes; at most {self.max_head} are taken")
        if blob_len > self.max_blob:
            raise self._broken("blob_size", f"a blob of {blob_len} bytes; at most {self.max_blob} are taken")
        self._end = pos + HEADER_SIZE + head_len + blob_len
        return kind, flags, head_len

    def _broken(self, reason: str, detail: str) -> FrameError:
        self._error = FrameError(reason, detail)
        self._buf = b""
        self._pos = 0
        self._end = HEADER_SIZE
        return self._error

    def needed(self) -> int:
        """
        How many bytes are missing from what ``next`` is waiting for: the header, then the whole frame.

        A reader that receives exactly this many never holds bytes of a later frame; one that receives more is
        served as well.  Never 0 after ``next`` has returned None.
        """
        return max(0, self._end - len(self._buf))

    def pending(self) -> int:
        """Bytes held that belong to no frame handed out yet; not 0 at end of stream means it was cut short."""
        return len(self._buf) - self._pos


def from_guest() -> FrameParser:
    """A parser for what a guest sends: the small caps."""
    return FrameParser(GUEST_MAX_HEAD, GUEST_MAX_BLOB, GUEST_TYPES)


def from_host() -> FrameParser:
    """A parser for what the host sends, for the guest's side of the channel."""
    return FrameParser(HOST_MAX_HEAD, HOST_MAX_BLOB, HOST_TYPES)

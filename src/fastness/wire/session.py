"""
The order of messages: both sides of a conversation, without I/O.

A conversation is ``hello start ready (stage* invoke | interrupt)* bye``, with one ``result`` or ``error`` for each
invoke.  ``call``, ``drop``, ``log``, ``event`` and ``artefact`` come only while an invoke is in flight.  Ids of
invokes rise, and so do ids of calls.  Anything else breaks the protocol: the session says what came and what was
expected, and takes nothing more.

The two directions cross on the wire, so some messages may come too late to mean anything: a cancel or interrupt of an
invoke that has ended, a drop of a call that was answered, an answer to a call that was dropped.  Those are let pass.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final

from fastness.errors import GuestProtocolError, HostProtocolError, ProtocolError
from fastness.wire import frames
from fastness.wire import messages as m

#: Bytes of an input file that one stage frame carries.
STAGE_PIECE: Final = 1 << 20


class State(enum.IntEnum):
    """Where a conversation stands."""

    HELLO = 0  #: the guest owes hello
    START = 1  #: the host owes start
    READY = 2  #: the guest owes ready
    IDLE = 3  #: the host may stage and invoke
    INVOKED = 4  #: an invoke is in flight
    OVER = 5  #: bye, a failed start, or the end of the stream
    BROKEN = 6  #: a side broke the protocol

    def __str__(self) -> str:
        return self.name.lower()


#: What a guest may send in each state.  An error without an invoke is its last word: it cannot start, or go on.
_FROM_GUEST: Final[dict[State, tuple[int, ...]]] = {
    State.HELLO: (frames.HELLO, frames.ERROR),
    State.START: (frames.ERROR,),
    State.READY: (frames.READY, frames.ERROR),
    State.IDLE: (frames.BYE, frames.ERROR),
    State.INVOKED: (
        frames.EVENT,
        frames.CALL,
        frames.RESULT,
        frames.ARTEFACT,
        frames.LOG,
        frames.DROP,
        frames.ERROR,
    ),
    State.OVER: (),
    State.BROKEN: (),
}

#: What the host may send in each state.  Interrupt, cancel and answers may cross with what ends their reason.
_FROM_HOST: Final[dict[State, tuple[int, ...]]] = {
    State.HELLO: (),
    State.START: (frames.START,),
    State.READY: (),
    State.IDLE: (frames.INVOKE, frames.STAGE, frames.INTERRUPT, frames.CANCEL, frames.REPLY, frames.FAULT),
    State.INVOKED: (frames.INTERRUPT, frames.CANCEL, frames.REPLY, frames.FAULT),
    # Work of the host's may end after the guest did; what it then says is dropped in `send`.
    State.OVER: (frames.INTERRUPT, frames.CANCEL, frames.REPLY, frames.FAULT),
    State.BROKEN: (frames.INTERRUPT, frames.CANCEL, frames.REPLY, frames.FAULT),
}


class _Pieces:
    """One file that comes in pieces: they follow each other and add up to the announced size."""

    __slots__ = ("left", "path", "size")

    def __init__(self) -> None:
        self.path: str | None = None
        self.size = 0
        self.left = 0

    def take(self, path: str, size: int, length: int, last: bool) -> str | None:
        """Account for one piece; returns what is wrong with it, or None."""
        if self.path is None:
            self.path, self.size, self.left = path, size, size
        elif path != self.path or size != self.size:
            return "a piece of another file before the last piece of the one begun"
        self.left -= length
        if self.left < 0:
            return f"{-self.left} bytes more than the {size} announced"
        if last:
            if self.left:
                return f"a last piece with {self.left} bytes missing"
            self.path = None
        elif not length:
            return "an empty piece that is not the last"
        return None


class _Side:
    """What both sides keep: the parser, the state, the ids, and the error that ended it."""

    _error_class: type[ProtocolError]
    _other: str

    def __init__(self, parser: frames.FrameParser) -> None:
        self.parser = parser
        self.state = State.HELLO
        self.invoke_id = 0  #: of the invoke in flight, or of the last one
        self._call_id = 0
        #: Calls without an answer: True, or False where the guest no longer wants one.
        self._calls: dict[int, bool] = {}
        self._pieces = _Pieces()
        self._error: ProtocolError | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.state} invoke={self.invoke_id} calls={len(self._calls)}>"

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes in; then call ``next_message`` until it returns None."""
        if self._error is not None:
            raise self._error
        try:
            self.parser.feed(data)
        except frames.FrameError as error:
            raise self._break(str(error)) from None

    def needed(self) -> int:
        """Bytes missing from the frame that is coming: a hint for the size of the next ``recv``."""
        return self.parser.needed()

    def eof(self) -> bool:
        """
        The other side closed the stream.  Returns whether it might: no frame cut short, nothing owed.

        False means that it was lost, not that it broke the protocol: a killed process stops anywhere.
        """
        clean = self.state in (State.IDLE, State.OVER) and not self.parser.pending() and self._pieces.path is None
        if self.state is not State.BROKEN:
            self.state = State.OVER
        return clean

    def _next_frame(self, allowed: dict[State, tuple[int, ...]]) -> frames.Frame | None:
        if self._error is not None:
            raise self._error
        try:
            frame = self.parser.next()
        except frames.FrameError as error:
            raise self._break(str(error)) from None
        if frame is not None and frame.type not in allowed[self.state]:
            raise self._unexpected(frame.type, allowed)
        return frame

    def _unexpected(self, kind: int, allowed: dict[State, tuple[int, ...]]) -> ProtocolError:
        expected = " or ".join(frames.NAMES[one] for one in allowed[self.state]) or "nothing"
        return self._break(f"{frames.NAMES[kind]} came while the conversation is {self.state}; expected {expected}")

    def _break(self, why: str) -> ProtocolError:
        self.state = State.BROKEN
        self._error = self._error_class(f"the {self._other} broke the wire protocol: {why}")
        return self._error

    def _decode(self, frame: frames.Frame) -> m.Message:
        try:
            return m.decode(frame)
        except ProtocolError as error:
            raise self._break(str(error)) from None


class HostSession(_Side):
    """
    The host's side.  What the guest sends is checked here; what the host sends wrongly is a bug of ours.

    ``calls_in_flight`` calls may be without an answer; then :attr:`paused` is true, ``next_message`` hands out
    nothing, and the host stops reading until it has answered one.  A call that the guest dropped counts until the
    host has settled it, since the work behind it may go on.
    """

    _error_class = GuestProtocolError
    _other = "guest"

    def __init__(
        self,
        calls_in_flight: int = 16,
        max_head: int = frames.GUEST_MAX_HEAD,
        max_blob: int = frames.GUEST_MAX_BLOB,
    ) -> None:
        super().__init__(frames.FrameParser(max_head, max_blob, frames.GUEST_TYPES))
        self.calls_in_flight = calls_in_flight
        self._cancelled = 0

    @property
    def paused(self) -> bool:
        """Whether so many calls are open that nothing more is to be read."""
        return len(self._calls) >= self.calls_in_flight

    @property
    def open_calls(self) -> tuple[int, ...]:
        """Ids of calls that the host has not settled, dropped ones included."""
        return tuple(self._calls)

    def next_message(self) -> tuple[m.GuestMessage, bytes] | None:
        """
        The guest's next message and its blob, or None when more bytes (or answers, see :attr:`paused`) are needed.

        Raises GuestProtocolError, from then on always.
        """
        while len(self._calls) < self.calls_in_flight:
            frame = self._next_frame(_FROM_GUEST)
            if frame is None:
                return None
            message = self._decode(frame)
            if self._accept(message, frame):
                return message, frame.blob  # type: ignore[return-value]  # the parser lets only the guest's types pass
        return None

    def _accept(self, message: m.Message, frame: frames.Frame) -> bool:
        """Check one message against the state and go on; False for one that came too late to mean anything."""
        kind = type(message)
        if kind is m.Event or kind is m.Log:
            return True
        if isinstance(message, m.Call):
            if message.id <= self._call_id:
                raise self._break(f"call {message.id} came after call {self._call_id}; ids must rise")
            self._call_id = message.id
            self._calls[message.id] = True
        elif isinstance(message, m.Result):
            self._end_invoke(message.id)
        elif isinstance(message, m.Drop):
            if message.id > self._call_id:
                raise self._break(f"drop {message.id} came and there was no such call")
            if message.id not in self._calls:
                return False
            if not self._calls[message.id]:
                raise self._break(f"drop {message.id} came twice")
            self._calls[message.id] = False
        elif isinstance(message, m.Artefact):
            if message.id != self.invoke_id:
                raise self._break(f"an artefact of invoke {message.id} came; expected invoke {self.invoke_id}")
            wrong = self._pieces.take(message.path, message.size, len(frame.blob), not message.more)
            if wrong:
                raise self._break(f"an artefact came with {wrong}")
        elif isinstance(message, m.Error):
            # A failing machine may leave a file half sent; its result is lost anyway.
            if message.id and self.state is not State.INVOKED:
                raise self._break(f"error {message.id} came with no invoke in flight; expected 0")
            self._pieces = _Pieces()
            self._end_invoke(message.id or self.invoke_id)
            if not message.id:
                self.state = State.OVER
        elif isinstance(message, m.Hello):
            if message.protocol != frames.VERSION:
                raise self._break(f"it speaks version {message.protocol}; expected {frames.VERSION}")
            self.state = State.START
        elif isinstance(message, m.Ready):
            self.state = State.IDLE
        else:
            self.state = State.OVER
        return True

    def _end_invoke(self, id: int) -> None:
        if id != self.invoke_id:
            raise self._break(f"an answer to invoke {id} came; expected invoke {self.invoke_id}")
        if self._pieces.path is not None:
            raise self._break("a result came before the last piece of an artefact")
        for call in self._calls:
            self._calls[call] = False
        self.state = State.IDLE

    def send(self, message: m.HostMessage, blob: bytes = b"") -> bytes:
        """
        The frame to send, or ``b""`` where there is nothing left to say: an answer to a call that the guest dropped,
        a cancel or interrupt of an invoke that has ended, a second cancel.

        Raises HostProtocolError where the conversation does not allow it or a cap is passed.
        """
        kind = m.TYPE_OF[type(message)]
        if kind not in _FROM_HOST[self.state]:
            expected = " or ".join(frames.NAMES[one] for one in _FROM_HOST[self.state]) or "nothing"
            raise HostProtocolError(
                f"{frames.NAMES[kind]} cannot be sent while the conversation is {self.state}; possible: {expected}"
            )
        head = m.encode_head(message)
        if len(head) > frames.HOST_MAX_HEAD or len(blob) > frames.HOST_MAX_BLOB:
            raise HostProtocolError(
                f"{frames.NAMES[kind]} with a head of {len(head)} and a blob of {len(blob)} bytes is too large; "
                f"at most {frames.HOST_MAX_HEAD} and {frames.HOST_MAX_BLOB} are taken"
            )
        if self._sent(message, len(blob)):
            return frames.encode(kind, head, blob)
        return b""

    def _sent(self, message: m.HostMessage, size: int) -> bool:
        if isinstance(message, (m.Reply, m.Fault)):
            if message.id not in self._calls:
                raise HostProtocolError(f"an answer to call {message.id}, which is not open")
            return self._calls.pop(message.id) and self.state is State.INVOKED
        if isinstance(message, m.Invoke):
            if message.id <= self.invoke_id:
                raise HostProtocolError(f"invoke {message.id} after invoke {self.invoke_id}; ids must rise")
            if self._pieces.path is not None:
                raise HostProtocolError(f"an invoke before the last piece of {self._pieces.path}")
            if message.code_len + message.stdin_len + message.context_len != size:
                raise HostProtocolError(f"an invoke that announces another blob than its {size} bytes")
            self.invoke_id = message.id
            self.state = State.INVOKED
        elif isinstance(message, m.Stage):
            wrong = self._pieces.take(message.path, message.size, size, message.last)
            if wrong:
                raise HostProtocolError(f"staging {message.path} with {wrong}")
        elif isinstance(message, m.Start):
            self.state = State.READY
        else:
            if message.id > self.invoke_id:
                raise HostProtocolError(f"there was no invoke {message.id}")
            if self.state is not State.INVOKED or message.id != self.invoke_id or self._cancelled == message.id:
                return False
            if isinstance(message, m.Cancel):
                self._cancelled = message.id
        return True

    def stage(self, path: str, data: bytes) -> Iterator[bytes]:
        """The frames that put one input file there for the next invoke."""
        size = len(data)
        view = memoryview(data)
        for start in range(0, max(size, 1), STAGE_PIECE):
            end = min(start + STAGE_PIECE, size)
            yield self.send(m.Stage(path, size, end == size), bytes(view[start:end]))


class GuestSession(_Side):
    """
    The guest's side, for tests and fakes: guests that run have their own few lines instead.

    Refuses to send what a :class:`HostSession` would refuse to take, as far as order goes.
    """

    _error_class = HostProtocolError
    _other = "host"

    def __init__(self) -> None:
        super().__init__(frames.from_host())

    def next_message(self) -> tuple[m.HostMessage, bytes] | None:
        """The host's next message and its blob, or None when more bytes are needed.  Raises HostProtocolError."""
        while True:
            frame = self._next_frame(_FROM_HOST)
            if frame is None:
                return None
            message = self._decode(frame)
            if self._accept(message, len(frame.blob)):
                return message, frame.blob  # type: ignore[return-value]  # the parser lets only the host's types pass

    def _accept(self, message: m.Message, size: int) -> bool:
        if isinstance(message, m.Invoke):
            if message.id <= self.invoke_id or self._pieces.path is not None:
                raise self._break(f"invoke {message.id} came after invoke {self.invoke_id} or amid a staged file")
            self.invoke_id = message.id
            self.state = State.INVOKED
        elif isinstance(message, m.Stage):
            wrong = self._pieces.take(message.path, message.size, size, message.last)
            if wrong:
                raise self._break(f"stage came with {wrong}")
        elif isinstance(message, m.Start):
            self.state = State.READY
        elif isinstance(message, (m.Interrupt, m.Cancel)):
            if message.id > self.invoke_id:
                raise self._break(f"there was no invoke {message.id}")
            return self.state is State.INVOKED and message.id == self.invoke_id
        elif isinstance(message, (m.Reply, m.Fault)):
            if message.id > self._call_id:
                raise self._break(f"an answer came and there was no call {message.id}")
            return self._calls.pop(message.id, False)
        return True

    def send(self, message: m.GuestMessage, blob: bytes = b"") -> bytes:
        """The frame to send.  Raises GuestProtocolError where the conversation does not allow it."""
        kind = m.TYPE_OF[type(message)]
        if kind not in _FROM_GUEST[self.state]:
            raise GuestProtocolError(f"{frames.NAMES[kind]} cannot be sent while the conversation is {self.state}")
        if isinstance(message, (m.Result, m.Error)):
            self.state = State.IDLE if message.id else State.OVER
            self._calls.clear()
        elif isinstance(message, m.Call):
            self._call_id = message.id
            self._calls[message.id] = True
        elif isinstance(message, m.Drop):
            self._calls.pop(message.id, None)
        elif isinstance(message, m.Hello):
            self.state = State.START
        elif isinstance(message, m.Ready):
            self.state = State.IDLE
        elif isinstance(message, m.Bye):
            self.state = State.OVER
        return m.encode(message, blob)

"""
The calls of one guest: frames that it writes go to the parent, and answers of the parent come back to it.

A guest finds one more descriptor, where its run was granted anything.  What it writes there is cut into frames with
the caps of a guest checked on each header; only ``call``, ``drop`` and ``log`` pass, and their heads are written anew
from what was understood of them, so that the parent reads what was judged here.  What it reads there are answers, and
it waits for them as it would sleep: a deadline, a cancel or the parent's end ends the wait.

Calls are numbered anew on the way out, over the whole life of an engine.  So an answer that comes too late belongs to
no call that is open, whichever guest runs by then, and is dropped.
"""

from __future__ import annotations

from fastness._wasi import tiny_json
from fastness._wasi.preview1_abi import RIGHTS_STREAM_IN, RIGHTS_STREAM_OUT
from fastness._wasi.preview1_memory import Fd
from fastness._wasi.stop import Stop
from fastness.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeGuard

    from fastness._wasi.engine_talk import Conversation
    from fastness._wasi.watch import Watch

#: The descriptor of a guest's calls.
NUMBER = 1002
#: Bytes of answers that wait for a guest which does not read them; beyond it they wait in the parent.
QUEUE_BYTES = 4 << 20
_TYPES = frozenset({frames.CALL, frames.DROP, frames.LOG})
_LEVELS = ("debug", "info", "warning", "error")
#: The protocol's own bounds, so that nothing is passed on that the parent would have to take for a broken engine.
_ID_MAX = 2**53
_NAME_MAX = 64
_TEXT_MAX = 8192
#: What a log line counts for beside its text.
_LINE = 32


class CallChannel:
    """
    The channel of one guest, for as long as it lives; :meth:`begin` and :meth:`end` stand around each invoke.

    Used by the runner thread only.  ``numbers`` is the engine's one counter of calls, in a list of its own.
    """

    __slots__ = (
        "_guest_ids",
        "_largest",
        "_last",
        "_left",
        "_log_left",
        "_numbers",
        "_open",
        "_parser",
        "_queue",
        "_queued",
        "_talk",
        "_watch",
    )

    def __init__(self, talk: Conversation, watch: Watch, numbers: list[int]) -> None:
        self._talk = talk
        self._watch = watch
        self._numbers = numbers
        #: The last id of the guest's, over all its invokes.
        self._last = 0
        self._largest = 0
        self._left = 0
        self._log_left = 0
        #: Open calls, both ways: our number to the guest's id, and back.
        self._open: dict[int, int] = {}
        self._guest_ids: dict[int, int] = {}
        self._queue: list[tuple[int, bytes, bytes]] = []
        self._queued = 0
        self._parser = frames.FrameParser(types=_TYPES)

    def begin(self, limits: dict[str, Any]) -> None:
        """An invoke begins: nothing of an earlier one is left to read or half written."""
        self.end()
        self._largest = limits.get("call_bytes", frames.GUEST_MAX_BLOB)
        self._left = limits.get("calls_in_flight", 16)
        self._log_left = limits.get("log_bytes", 0)

    def end(self) -> None:
        """An invoke is over: what is in flight is answered to nobody."""
        self._parser = frames.FrameParser(types=_TYPES)
        self._open.clear()
        self._guest_ids.clear()
        self._queue.clear()
        self._queued = 0

    # from the guest

    def write(self, data: bytes) -> None:
        """
        Take what the guest wrote.

        Waits while as many calls as may be are without an answer.  Raises ``Stop`` for what is no frame of a guest's,
        and when the run is to end.
        """
        parser = self._parser
        try:
            parser.feed(data)
            while (frame := parser.next()) is not None:
                # One write may hold a million frames.
                self._watch.check()
                self._pass(frame)
        except frames.FrameError as error:
            raise Stop("calls", f"the guest's calls are no frames: {error}") from None

    def _pass(self, frame: frames.Frame) -> None:
        head = _decode(frame.head)
        if frame.type == frames.LOG:
            self._log(head, frame)
            return
        id = head.get("id")
        if type(id) is not int or not 0 < id <= _ID_MAX:
            raise _broken(frame, "its id is none")
        if frame.type == frames.DROP:
            if id > self._last or len(head) != 1 or frame.blob:
                raise _broken(frame, "there was no such call")
            number = self._guest_ids.pop(id, 0)
            # One that was answered meanwhile needs no word.
            if number:
                del self._open[number]
                self._talk.send(frames.DROP, b'{"id":%d}' % number)
            return
        capability, operation = head.get("capability"), head.get("operation")
        if len(head) != 3 or not _is_name(capability) or not _is_name(operation):
            raise _broken(frame, "it names no operation of a capability")
        if id <= self._last:
            raise _broken(frame, f"call {id} came after call {self._last}; ids must rise")
        self._call(id, capability, operation, frame.blob)

    def call(self, capability: str, operation: str, arguments: bytes) -> None:
        """
        A call of a guest that numbers none.

        Waits and raises as :meth:`write` does.
        """
        self._watch.check()
        if not (0 < len(capability) <= _NAME_MAX and 0 < len(operation) <= _NAME_MAX):
            raise Stop("calls", "the guest made a call that names no operation of a capability")
        self._call(self._last + 1, capability, operation, arguments)

    def settle(self) -> None:
        """Wait until nothing is under way.  Raises ``Stop`` when the run is to end."""
        while self._open:
            self._hear(None)

    def _call(self, id: int, capability: str, operation: str, arguments: bytes) -> None:
        while len(self._open) >= self._left:
            self._hear(None)
        self._last = id
        if len(arguments) > self._largest:
            if self._queued >= QUEUE_BYTES:
                # It reads no answers, so there is no room for this one either: only the end of the run ends this.
                self._watch.wait_for_parent(None, deaf=True)
            fault = {"id": id, "code": "too_large", "message": f"arguments take {self._largest} bytes at most"}
            self._keep(frames.FAULT, fault, b"")
            return
        self._numbers[0] += 1
        number = self._numbers[0]
        self._open[number] = id
        self._guest_ids[id] = number
        told = {"id": number, "capability": capability, "operation": operation}
        self._talk.send(frames.CALL, tiny_json.dumps(told).encode(), arguments)

    def _log(self, head: dict[str, Any], frame: frames.Frame) -> None:
        level, text = head.get("level"), head.get("text")
        if len(head) != 2 or level not in _LEVELS or type(text) is not str or frame.blob:
            raise _broken(frame, "it is no line of a log")
        told = {"level": level, "text": text[:_TEXT_MAX]}
        data = tiny_json.dumps(told).encode("utf-8", "replace")
        self._log_left -= len(data) + _LINE
        if self._log_left >= 0:
            self._talk.send(frames.LOG, data)

    # to the guest

    @property
    def waiting(self) -> bool:
        """Whether an answer is there or may still come."""
        return bool(self._queue or self._open)

    def wait(self, seconds: float | None) -> bool:
        """
        Wait until there is an answer, ``seconds`` at most; whether there is.

        Returns at once where none will come.  Raises ``Stop`` when the run is to end.
        """
        while not self._queue:
            if not self._open or not self._hear(seconds):
                return False
        return True

    def ready(self) -> int:
        """Bytes of the next answer; -1 where it has yet to come, and 0 where none will."""
        if not self.wait(0.0):
            return -1 if self._open else 0
        _, head, blob = self._queue[0]
        return frames.HEADER_SIZE + len(head) + len(blob)

    def take(self) -> tuple[int, bytes, bytes] | None:
        """The next answer, as type, head and blob; waits for it.  None where none will come."""
        if not self.wait(None):
            return None
        found = self._queue.pop(0)
        self._queued -= len(found[1]) + len(found[2])
        return found

    def _hear(self, seconds: float | None) -> bool:
        """Take in one frame of the parent's; False where none came in time.  Raises ``Stop``."""
        # A guest that reads nothing must not make this process keep it all.
        full = self._queued >= QUEUE_BYTES
        while full or (frame := self._talk.received()) is None:
            if not self._watch.wait_for_parent(seconds, deaf=full):
                return False
            self._talk.read_some()
        if frame.type not in (frames.REPLY, frames.FAULT):
            raise RuntimeError(f"a frame of type {frame.type} came while a guest runs")
        head = tiny_json.loads(frame.head.decode())
        id = self._open.pop(head["id"], 0)
        if id:
            del self._guest_ids[id]
            head["id"] = id
            self._keep(frame.type, head, frame.blob)
        return True

    def _keep(self, kind: int, head: dict[str, Any], blob: bytes) -> None:
        text = tiny_json.dumps(head).encode()
        self._queue.append((kind, text, blob))
        self._queued += len(text) + len(blob)


class CallsFd(Fd):
    """The guest's descriptor: what it reads are answers as frames, one at a time, and it waits for them."""

    __slots__ = ("channel",)

    def __init__(self, channel: CallChannel) -> None:
        Fd.__init__(self, None, RIGHTS_STREAM_IN | RIGHTS_STREAM_OUT)
        self.channel: CallChannel = channel
        self.out = channel.write

    def content(self) -> bytes:
        """What is left of the present frame, or the next one; nothing where none will come."""
        if self.pos >= len(self.data):
            found = self.channel.take()
            self.data = b"" if found is None else self._text(found)
            self.pos = 0
        return self.data

    def _text(self, found: tuple[int, bytes, bytes]) -> bytes:
        """An answer as the guest reads it."""
        return frames.encode(*found)

    def ready(self) -> int:
        """Bytes that can be read at once; -1 where none can be yet, and 0 where none will come."""
        left = len(self.data) - self.pos
        return left if left > 0 else self.channel.ready()


def _decode(head: bytes) -> dict[str, Any]:
    try:
        found = tiny_json.loads(head.decode())
    except (ValueError, RecursionError) as error:
        raise Stop("calls", f"the guest sent a head that is no JSON: {error}"[:200]) from None
    if type(found) is not dict:
        raise Stop("calls", "the guest sent a head that is no JSON object")
    return found


def _is_name(value: object) -> TypeGuard[str]:
    if type(value) is not str or len(value) > _NAME_MAX:
        return False
    # A lone surrogate has no UTF-8, and the names of capabilities have none.
    return value.isascii()


def _broken(frame: frames.Frame, why: str) -> Stop:
    return Stop("calls", f"the guest sent a {frames.NAMES[frame.type]} that is none: {why}")

"""
What carries a container's conversation: a connection to its first process on one side, a guest's channels on the other.

A thread of its own moves bytes between the engine's attached stream and the socket and pipes that any native guest has,
so that whoever talks to guests need not know of containers.  Everything that comes over the stream may have been
written by a guest that has taken its container over: packets are bounded and their order is not relied on.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any

from fastness._container.parcel import BadParcel, Unpacker

#: What a packet is; as in ``guest/supervisor.py``.
CONTROL, TALK, OUT, ERR, FILES, STDIN = range(6)
_PIECE = 1 << 16
#: Bytes of one packet, and of what waits to be taken on either side.
_PACKET_CAP, _WAITING = 1 << 22, 1 << 20
_WORDS_CAP, _SAID_CAP = 1 << 12, 1 << 16


class Pump:
    """
    Carries one container.  ``ready`` is set once its first process has told that everything is as it was asked for, or
    why not; ``done`` once all that it will ever say has come.

    ``refused`` lists what it found different, ``broken`` says what went wrong in it, ``failed`` why files could not be
    put in; ``over`` is how the guest ended, ``usage`` what it used; ``words`` is what came on its error stream.
    ``received`` counts bytes of files.
    """

    def __init__(self, sock: socket.socket, rest: bytes, talk: socket.socket, out: int, err: int, life: int) -> None:
        self._sock = sock
        self._held = bytearray(rest)
        self._packets = bytearray()
        self._talk: socket.socket | None = talk
        self._ends = {OUT: out, ERR: err}
        self._life = life
        self._pending = {TALK: bytearray(), OUT: bytearray(), ERR: bytearray()}
        self._queue: collections.deque[bytes | Iterator[bytes]] = collections.deque()
        self._out = bytearray()
        self._wakes, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._lock = threading.Lock()
        self._closed = self._closing = self._hung_up = False
        self._gives_up = 0.0
        self._unpacker: Unpacker | None = None
        self._came = False
        self.received = 0
        self.ready = threading.Event()
        self.done = threading.Event()
        self.collected = threading.Event()
        self.facts: dict[str, Any] = {}
        self.refused: list[str] = []
        self.broken = self.failed = self.bad = ""
        self.over: dict[str, Any] | None = None
        self.usage: dict[str, Any] = {}
        self.words = b""
        self._thread = threading.Thread(target=self._work, name="fastness-container", daemon=True)

    def start(self, first: bytes) -> None:
        """Begin, with the first words to the container's process.  Raises ``RuntimeError`` where no thread is had."""
        self._out += first
        self._thread.start()

    # from other threads

    def post(self, channel: int, data: bytes) -> None:
        """Have something sent, in the order of calls.  Never waits."""
        self._post(_packet(channel, data))

    def say(self, what: str, **fields: object) -> None:
        """Have the container's first process do something."""
        self.post(CONTROL, json.dumps({"do": what, **fields}).encode())

    def stream(self, channel: int, pieces: Iterator[bytes]) -> None:
        """Have pieces sent as there is room for them; they are made in this object's thread."""
        self._post(_packet(channel, piece) for piece in pieces)

    def collect(self, folder: int, max_bytes: int, max_files: int) -> None:
        """Put the files that will come below an open, empty folder."""
        self.collected.clear()
        self._came = False
        self._unpacker = Unpacker(folder, max_bytes, max_files)
        if self.done.is_set():
            self.collected.set()

    def uncollect(self) -> None:
        """The folder is not to be written to any more."""
        with self._lock:
            unpacker, self._unpacker = self._unpacker, None
        if unpacker is not None:
            self._came = unpacker.done
            unpacker.close()

    @property
    def beyond(self) -> str:
        """A path that did not fit, or nothing."""
        return self._unpacker.beyond if self._unpacker is not None else ""

    @property
    def skipped(self) -> int:
        """How many entries the other side could not send."""
        return self._unpacker.skipped if self._unpacker is not None else 0

    @property
    def whole(self) -> bool:
        """Whether all files have come."""
        return self._unpacker.done if self._unpacker is not None else self._came

    def give_up(self, seconds: float) -> None:
        """Where the guest is not over within so many seconds, the engine or the container does not answer: hang up."""
        ends = time.monotonic() + seconds
        with self._lock:
            self._gives_up = min(self._gives_up, ends) if self._gives_up else ends
        self._wake()

    def stop(self) -> None:
        """Hang up, which ends the container; blocks until the thread has ended.  Idempotent."""
        with self._lock:
            self._closed = True
        self._wake()
        if self._thread.ident is not None:
            self._thread.join()
        else:
            self._end()
        for fd in (self._wakes, self._waker):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._waker = -1

    def _post(self, item: bytes | Iterator[bytes]) -> None:
        with self._lock:
            self._queue.append(item)
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._waker, b"x")

    # the thread

    def _work(self) -> None:
        try:
            while not self._closed:
                self._deliver()
                self._fill()
                if self._hung_up and not any(self._pending.values()):
                    break
                self._turn()
        except Exception as error:  # noqa: BLE001  # a fault here is told by whoever waits for this container
            self.broken = self.broken or f"{type(error).__name__}: {error}"
        finally:
            self._end()

    def _end(self) -> None:
        self._sock.close()
        self._close_guest()
        if self._unpacker is not None:
            self._unpacker.close()
        # In this order: who begins to wait for files meanwhile looks at the end.
        for event in (self.ready, self.done, self.collected):
            event.set()

    def _turn(self) -> None:
        """Wait until something can be moved, and move it."""
        poller = select.poll()
        poller.register(self._wakes, select.POLLIN)
        full = max(len(waiting) for waiting in self._pending.values()) > _WAITING
        if not self._hung_up:
            poller.register(self._sock, (0 if full else select.POLLIN) | (select.POLLOUT if self._out else 0))
        if self._talk is not None:
            events = select.POLLOUT if self._pending[TALK] else 0
            if len(self._out) < _WAITING and not self._closing:
                events |= select.POLLIN
            if events:
                poller.register(self._talk, events)
        for channel, fd in self._ends.items():
            if self._pending[channel]:
                poller.register(fd, select.POLLOUT)
        pending = isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() and not full
        ready = dict(poller.poll(0 if pending else self._patience()))
        if self._wakes in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakes, 4096)
        what = ready.get(self._sock.fileno(), 0) if not self._hung_up else 0
        if what & select.POLLOUT:
            self._send()
        if pending or (what & (select.POLLIN | select.POLLHUP | select.POLLERR) and not full):
            self._receive()
        elif what & (select.POLLHUP | select.POLLERR) and full:
            # Nothing more can be taken now; what is there is read once there is room.
            select.select([], [], [], 0.005)
        if self._talk is not None and ready.get(self._talk.fileno(), 0) & (select.POLLIN | select.POLLHUP):
            self._from_host()

    def _patience(self) -> float | None:
        """Milliseconds until there is something to be given up; hangs up where that is now."""
        # That our own side has nothing more to say is no reason to wait for the other.
        if not self._gives_up or self.over is not None or self._hung_up:
            return None
        left = self._gives_up - time.monotonic()
        if left > 0:
            return left * 1000 + 1
        for waiting in self._pending.values():
            waiting.clear()
        self.broken = self.broken or "it did not answer, and was not waited for"
        self._lost()
        return 0

    def _fill(self) -> None:
        """Take what is next in the queue while there is room."""
        while len(self._out) < _WAITING:
            with self._lock:
                if not self._queue:
                    return
                item = self._queue[0]
                if isinstance(item, bytes):
                    self._queue.popleft()
            if isinstance(item, bytes):
                self._out += item
                continue
            piece = next(item, None)
            if piece is None:
                with self._lock:
                    self._queue.popleft()
            else:
                self._out += piece

    def _send(self) -> None:
        try:
            sent = self._sock.send(memoryview(self._out)[:_PIECE])
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return
        except OSError:
            self._lost()
            return
        del self._out[:sent]

    def _receive(self) -> None:
        try:
            data = self._sock.recv(_PIECE)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        self._held += data
        # Each piece says which of the container's two streams it is of.
        while len(self._held) >= 8:
            stream, size = self._held[0], int.from_bytes(self._held[4:8], "big")
            if size > _PACKET_CAP:
                self._spoilt("the engine's stream is none")
                return
            if len(self._held) < 8 + size:
                break
            piece = bytes(self._held[8 : 8 + size])
            del self._held[: 8 + size]
            if stream == 1:
                self._packets += piece
            else:
                self.words = (self.words + piece)[-_WORDS_CAP:]
        self._unpack()

    def _unpack(self) -> None:
        while len(self._packets) >= 5 and not self._closed:
            channel, size = self._packets[0], int.from_bytes(self._packets[1:5], "big")
            if size > _PACKET_CAP or channel > FILES:
                self._spoilt("it sent a packet that there is not")
                return
            if len(self._packets) < 5 + size:
                return
            data = bytes(self._packets[5 : 5 + size])
            del self._packets[: 5 + size]
            if channel in self._pending:
                if not self._closing:
                    self._pending[channel] += data
            elif channel == FILES:
                self._files(data)
            else:
                self._said(data)

    def _files(self, data: bytes) -> None:
        with self._lock:
            unpacker = self._unpacker
        if unpacker is None or self.bad:
            return
        self.received += len(data)
        try:
            unpacker.feed(data)
        except BadParcel as error:
            self.bad = str(error)
        except OSError as error:
            self.bad = f"its files could not be written here: {error.strerror}"

    def _said(self, data: bytes) -> None:
        """Words of the container's first process, which may be a guest's by now."""
        try:
            said = json.loads(data) if len(data) <= _SAID_CAP else None
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            self._spoilt("it sent words that are none")
            return
        if "refused" in said and not self.ready.is_set():
            self.refused = [str(one)[:300] for one in said["refused"]][:16] if isinstance(said["refused"], list) else []
            self.refused = self.refused or ["it did not say what"]
        elif "ready" in said and not self.ready.is_set():
            self.facts = said
            self.ready.set()
        elif "broken" in said:
            self.broken = self.broken or str(said["broken"])[:500]
        elif "failed" in said:
            self.failed = self.failed or str(said.get("why"))[:200]
            self._closing = True
        elif "over" in said and self.over is None:
            self.over = self.usage = said
            self._closing = True
        elif "cpu" in said and self.over is None:
            self.usage = said
        elif "done" in said:
            self.collected.set()

    def _from_host(self) -> None:
        """What our own side of the conversation says to the guest."""
        assert self._talk is not None
        try:
            data = self._talk.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            with self._lock:
                # After whatever was posted before it.
                self._queue.append(_packet(TALK, data))
        else:
            self._closing = True

    def _deliver(self) -> None:
        """Hand over what has come to whoever reads it here."""
        for channel, fd in list(self._ends.items()):
            waiting = self._pending[channel]
            while waiting:
                try:
                    del waiting[: os.write(fd, memoryview(waiting)[:_PIECE])]
                except BlockingIOError:
                    break
                except OSError:
                    # Nobody reads any more.
                    waiting.clear()
        # What was written before a word is there before the word.
        waiting = self._pending[TALK]
        while waiting and self._talk is not None:
            try:
                del waiting[: self._talk.send(memoryview(waiting)[:_PIECE])]
            except BlockingIOError:
                break
            except OSError:
                waiting.clear()
        if self._closing and not any(self._pending.values()):
            self._close_guest()

    def _close_guest(self) -> None:
        """The guest is over: its side of everything is closed, its life last."""
        for fd in self._ends.values():
            os.close(fd)
        self._ends.clear()
        for waiting in self._pending.values():
            waiting.clear()
        if self._talk is not None:
            self._talk.close()
            self._talk = None
        if self._life >= 0:
            os.close(self._life)
            self._life = -1

    def _spoilt(self, why: str) -> None:
        self.bad = self.bad or why
        self._lost()

    def _lost(self) -> None:
        self._hung_up = self._closing = True


def _packet(channel: int, data: bytes) -> bytes:
    return bytes((channel,)) + len(data).to_bytes(4, "big") + data

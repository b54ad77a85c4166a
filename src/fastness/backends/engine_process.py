"""
The parent's side of one engine process: start it, talk to it, and be sure that it is gone.

The engine is started with ``exec`` in a clean environment with only the descriptors that it needs.  Every byte that
it sends is treated as hostile: parsed with caps, decoded typed, held to the order of the protocol.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from fastness.backends.lasting_thread import spawn_in_lasting_thread
from fastness.backends.own_files import source_root
from fastness.errors import BackendError, GuestProtocolError
from fastness.wire import messages as m
from fastness.wire.session import HostSession

if TYPE_CHECKING:
    from fastness.backends.calling import Calling
    from fastness.waiting import Waiting

#: Seconds from exec to ready; far above what is measured, so that only a hang meets it.
START_S = 30.0
#: Seconds past a run's deadline after which the parent ends the engine itself: the second, independent timeout.
GRACE_S = 0.25
_BOOT = "import sys;sys.path.insert(0,sys.argv[2]);from fastness._wasi.engine import main;main()"
_CHUNK = 1 << 18
#: Seconds of one wait where only a limit ends it.
_PATIENCE_S = 3600.0
_STDERR_CAP = 4096


class EngineLost(Exception):
    """The engine process ended or was ended; ``why`` is a short text, ``timed_out`` tells our own kill apart."""

    def __init__(self, why: str, timed_out: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.timed_out = timed_out


class EngineProcess:
    """One engine.  Made by :meth:`start`; one invoke at a time."""

    def __init__(
        self, process: subprocess.Popen[bytes], talk: socket.socket, control: socket.socket, waiting: Waiting
    ) -> None:
        self._waiting = waiting
        self.process = process
        self._talk = talk
        self._control = control
        self._session = HostSession()
        self._next = 0
        self.runs = 0
        self.born = time.monotonic()
        self.idle_since = self.born
        self.ready: m.Ready = m.Ready()
        self.start_ms = 0.0
        self.dead = False
        self._words = ""
        #: What has yet to be sent of answers to a guest's calls: whole frames, the first perhaps in part.
        self._outbox: deque[memoryview] = deque()
        self._waiter: select.epoll | None = None
        self._wants = (0, 0)

    @classmethod
    def spawn(cls, descriptors: list[int], waiting: Waiting) -> EngineProcess:
        """
        Start the process; it waits for ``start``.  Raises BackendError.

        An engine asks the kernel to end it when the *thread* that started it ends, so a thread that lives as long as
        this process does it, whoever asks.
        """
        return spawn_in_lasting_thread(lambda: cls._spawn(descriptors, waiting))

    @classmethod
    def _spawn(cls, descriptors: list[int], waiting: Waiting) -> EngineProcess:
        began = time.monotonic()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        control, their_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, str(their_control.fileno()), source_root()],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(their_control.fileno(), *descriptors),
                env={},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            for one in (ours, theirs, control, their_control):
                one.close()
            raise BackendError("starting an engine process", error, "free memory or process slots") from error
        theirs.close()
        their_control.close()
        ours.setblocking(False)
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        engine = cls(process, ours, control, waiting)
        engine.born = began
        return engine

    async def start(self, runtime: str, options: dict[str, Any]) -> None:
        """Hand over the options and wait until the engine has confined itself.  Raises BackendError."""
        try:
            with self._waiting.limit(START_S):
                await self._expect(m.Hello)
                await self._send(self._session.send(m.Start(runtime, options)))
                self.ready = await self._expect(m.Ready)
        except TimeoutError:
            self.kill()
            raise BackendError(
                "starting an engine", f"not ready after {START_S:g} s", "see the machine's load"
            ) from None
        except EngineLost as lost:
            raise BackendError("starting an engine", lost.why, "run: fastness doctor") from None
        except GuestProtocolError as error:
            # No guest has run yet, so this is a fault of ours or of the machine.
            self.kill()
            raise BackendError("starting an engine", error, "please report this") from None
        except BaseException:
            self.kill()
            raise
        self.start_ms = (time.monotonic() - self.born) * 1e3

    async def _expect(self, kind: type[Any]) -> Any:
        message, _ = await self.receive()
        if isinstance(message, m.Error):
            self.kill()
            raise EngineLost(f"{message.where}: {message.message}")
        if not isinstance(message, kind):
            self.kill()
            raise EngineLost(f"it sent {type(message).__name__.lower()} where {kind.__name__.lower()} was due")
        return message

    # talking

    async def _send(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            sent = 0
            try:
                sent = self._talk.send(view)
            except BlockingIOError:
                pass
            except OSError as error:
                raise self._lost(str(error)) from None
            if not sent:
                # Waited for outside the handler: an interrupt there must not drag this along as its context.
                await self._waiting.writable(self._talk)
            view = view[sent:]

    async def receive(self, calling: Calling | None = None) -> tuple[m.GuestMessage, bytes]:
        """
        The engine's next message and its blob.  Raises EngineLost, GuestProtocolError (the engine is ended).

        With ``calling``, answers to the guest's calls are sent as they come meanwhile.
        """
        session = self._session
        while True:
            try:
                found = session.next_message()
            except GuestProtocolError:
                self.kill()
                raise
            if found is not None:
                return found
            if calling is not None:
                await self._answer(calling)
            data = None
            try:
                data = self._talk.recv(_CHUNK)
            except BlockingIOError:
                pass
            except OSError as error:
                raise self._lost(str(error)) from None
            if data is None:
                # As above: outside the handler.
                if calling is None:
                    await self._waiting.readable(self._talk)
                continue
            if not data:
                raise self._lost("")
            session.receive(data)

    async def _answer(self, calling: Calling) -> None:
        """Send answers as they come, as far as the engine takes them, until there is something to read from it."""
        talk, bell = self._talk.fileno(), calling.fileno()
        if self._waiter is None:
            self._waiter = select.epoll()
            self._waiter.register(talk, select.EPOLLIN)
            self._waiter.register(bell, select.EPOLLIN)
            self._wants = (select.EPOLLIN, select.EPOLLIN)
        # What was answered at once needs no second look; while the engine takes it, the broker has a moment to itself.
        waited = self._session.paused
        while not self._outbox and (found := calling.answers()):
            self._outbox.extend(map(memoryview, found))
            self._push()
        if waited and not self._session.paused:
            # It may have said more in the same breath.
            return
        while True:
            # More answers are fetched when those before have left, so that what is not read waits where it is counted;
            # and an engine that lets more calls through than it may is not read until one of them is answered.
            wants = (
                (0 if self._session.paused else select.EPOLLIN) | (select.EPOLLOUT if self._outbox else 0),
                0 if self._outbox else select.EPOLLIN,
            )
            if wants != self._wants:
                self._waiter.modify(talk, wants[0])
                self._waiter.modify(bell, wants[1])
                self._wants = wants
            come = dict(await self._waiting.events(self._waiter, _PATIENCE_S))
            if bell in come:
                self._outbox.extend(map(memoryview, calling.answers()))
            self._push()
            if come.get(talk, 0) & ~select.EPOLLOUT:
                return

    @property
    def taken(self) -> bool:
        """Whether the engine has taken every answer that was sent to it."""
        return not self._outbox

    def give(self, frame: bytes) -> None:
        """Send an answer as far as the engine takes it; nothing where it is empty."""
        if frame:
            self._outbox.append(memoryview(frame))
            self._push()

    def _push(self) -> None:
        """Send of the outbox what goes without waiting."""
        while self._outbox:
            first = self._outbox[0]
            try:
                sent = self._talk.send(first)
            except BlockingIOError:
                break
            except OSError:
                # It is gone; what it said before that is still to be read.
                self._outbox.clear()
                break
            if sent == len(first):
                self._outbox.popleft()
            else:
                self._outbox[0] = first[sent:]

    async def finish_answers(self) -> None:
        """The guest is over: send the rest of an answer that was sent in part, and none besides."""
        if self._waiter is not None:
            self._waiter.close()
            self._waiter = None
        if self._outbox:
            rest = self._outbox[0]
            whole = isinstance(rest.obj, bytes) and len(rest) == len(rest.obj)
            self._outbox.clear()
            if not whole:
                await self._send(rest)

    @property
    def session(self) -> HostSession:
        """The order of messages with this engine."""
        return self._session

    def next_id(self) -> int:
        """The id for the next invoke."""
        self._next += 1
        return self._next

    async def stage(self, files: dict[str, bytes]) -> None:
        """Send input files for the next invoke."""
        for path, data in files.items():
            for frame in self._session.stage(path, data):
                await self._send(frame)

    async def invoke(self, message: m.Invoke, blob: bytes) -> None:
        """Start an invoke; its messages follow from :meth:`receive`."""
        self.runs += 1
        await self._send(self._session.send(message, blob))

    def cancel(self, invoke: int) -> None:
        """Tell the engine to end this invoke.  Never blocks, never raises; a late cancel is harmless."""
        try:
            data = self._session.send(m.Cancel(invoke))
            if data:
                self._control.send(data, socket.MSG_DONTWAIT)
        except (OSError, BackendError):
            pass

    # ending

    def _lost(self, cause: str) -> EngineLost:
        """The engine closed its end: reap it and say how it ended."""
        self.kill()
        code = self.process.returncode
        words = self._words
        if code is not None and code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = str(-code)
            return EngineLost(f"the engine process was ended by {name}")
        return EngineLost(
            f"the engine process ended with status {code}" + (f": {words or cause}" if words or cause else "")
        )

    def _last_words(self) -> str:
        stderr = self.process.stderr
        if stderr is None or stderr.closed:
            return ""
        try:
            data = os.read(stderr.fileno(), _STDERR_CAP)
        except OSError:
            return ""
        return data.decode("utf-8", "replace").strip()[-500:]

    def kill(self) -> None:
        """
        End the process now and reap it.  Idempotent.

        SIGKILL cannot be refused and the engine has no children, so the wait is short; it is bounded all the same.
        """
        if self.dead:
            return
        self.dead = True
        if self.process.poll() is None:
            self.process.kill()
        for one in (self._talk, self._control, *([self._waiter] if self._waiter is not None else ())):
            one.close()
        self._waiter = None
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:  # pragma: no cover  # a process in uninterruptible sleep
            return
        finally:
            self._words = self._last_words()
            if self.process.stderr is not None:
                self.process.stderr.close()

    def close(self) -> None:
        """End an idle engine: it holds nothing worth a goodbye."""
        self.kill()

    @property
    def alive(self) -> bool:
        """Whether the process runs, as far as is known without waiting."""
        return not self.dead and self.process.poll() is None

    @property
    def quiet(self) -> bool:
        """Whether an idle engine is as it should be: alive, and with nothing to say that nobody asked for."""
        if not self.alive or self._outbox or self._session.parser.pending():
            return False
        try:
            self._talk.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

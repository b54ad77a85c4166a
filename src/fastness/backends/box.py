"""
The host's side of one native guest: a process, its conversation, its output, and the certainty that it has ended.

A guest is confined before it says its first word.  Every byte that it sends is treated as hostile: parsed with caps,
decoded typed, held to the order of the protocol, and read so that descriptors which come with it are thrown away.
"""

from __future__ import annotations

import array
import contextlib
import os
import resource
import select
import signal
import socket
import time
from typing import TYPE_CHECKING, Any, Protocol

from fastness.backends.inbox import Inbox
from fastness.backends.outbox import Outbox
from fastness.backends.process_numbers import memory_of, process_of
from fastness.errors import BackendError, GuestProtocolError
from fastness.wire import brief
from fastness.wire import messages as m
from fastness.wire.session import HostSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastness.waiting import Waiting

#: Seconds from birth to ready; far above what is measured, so that only a hang meets it.
START_S = 20.0
_CHUNK = 1 << 16
#: Plain numbers: to work with flags of the enum takes as long as a call of the kernel.
_CLOEXEC, _CUT = int(socket.MSG_CMSG_CLOEXEC), int(socket.MSG_CTRUNC)
#: Seconds after which what a zygote tells is taken in while a guest of it is waited for.
_LISTEN_S = 0.05
#: Bytes of an invoke that is sent before its guest is ready.
_EARLY_CAP = 1 << 15


_START = m.Start("python", {})


class BoxLost(Exception):
    """The guest's process has ended without a word that was due."""


class Box:
    """
    One guest process.  ``talk`` is the conversation; ``out`` and ``err`` are pipes that end with the guest.

    ``process`` is a process descriptor, ``work`` a descriptor of the guest's work folder; both are -1 until
    :meth:`adopt` has been told of them.  ``pid`` is its number as this process sees it.
    """

    def __init__(self, name: str, talk: socket.socket, out: int, err: int, waiting: Waiting) -> None:
        self.name = name
        self.talk = talk
        self.out = out
        self.err = err
        self.process = -1
        self.work = -1
        self.pid = 0
        #: The work folder as this side has made it, where it is on this side; then nobody else's word is taken for it.
        self.own_work = -1
        self.born = time.monotonic()
        self.waiting = waiting
        self.session = HostSession()
        self.ready: m.Ready = m.Ready()
        self.closed = False
        #: An invoke that was sent before the guest was ready.
        self.early: tuple[m.Invoke, bytes] | None = None
        #: When it was told its work and how many seconds of processor time it had used then, where that was before it
        #: was ready; 0 and None where it was not.
        self.told_at = 0.0
        self.cpu_then: float | None = None
        #: Frames that the guest has not taken yet.
        self.outbox = Outbox(talk)
        self.inbox = Inbox(talk)
        self._open = [out, err]
        self._told_to_end = False
        self._invoke = 0
        #: A descriptor of the process's own numbers, until somebody takes it.
        self._numbers: list[int] = []

    def adopt(self, process: int, work: int, parent: int = 0) -> None:
        """
        Take over the descriptors that tell of the guest's life and hold its files.

        They come from a process that may have run foreign code.  With ``parent`` the guest must be a child of the
        process of that number: who may end it and read its numbers decides that here.  Raises GuestProtocolError.
        """
        self._open += [fd for fd in (process, work) if fd >= 0]
        self.pid, above = process_of(process)
        if parent and self.pid and above != parent:
            self.pid = 0
            raise GuestProtocolError("the process that came with it is none of its zygote's children")
        self.process = process
        self.work = self.own_work if self.own_work >= 0 else work

    def holds(self, fd: int) -> None:
        """Close this descriptor with the rest."""
        self._open.append(fd)

    def owns(self, work: int) -> None:
        """``work`` is a descriptor of the guest's work folder that this side has opened; closed with the rest."""
        self.holds(work)
        self.own_work = work

    # talking

    def begin(self) -> None:
        """Leave the first word in the conversation before there is a guest, which saves it a wait."""
        self.talk.send(m.encode(_START))

    def send_early(self, message: m.Invoke, blob: bytes, fds: tuple[int, ...] = ()) -> bool:
        """
        Leave an invoke in the conversation of a guest that is still giving up its rights; False where it is too large.

        It reads no word before it has given up all of them.
        """
        data = brief.encode_invoke(message, blob)
        if len(data) > _EARLY_CAP:
            return False
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            # Far below what a socket holds, so it is taken whole.
            if self.talk.sendmsg([data], rights) != len(data):
                raise BoxLost("the guest takes no more")
        except OSError as error:
            raise BoxLost(str(error.strerror)) from None
        self.early = (message, blob)
        return True

    async def send(self, message: m.HostMessage, blob: bytes = b"", fds: tuple[int, ...] = ()) -> None:
        """Send a frame, with descriptors where ``fds`` names any.  Raises BoxLost."""
        view = memoryview(self.outbox.take() + self.session.send(message, blob))
        carried = array.array("i", fds)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, carried)] if fds else []
        while view:
            sent = 0
            try:
                sent = self.talk.sendmsg([view], rights)
                rights = []
            except BlockingIOError:
                pass
            except OSError as error:
                raise BoxLost(str(error.strerror)) from None
            if not sent:
                await self.waiting.writable(self.talk)
            view = view[sent:]

    def next_message(self, *, again: bool = False) -> tuple[m.GuestMessage, bytes] | None:
        """
        A message that has come, or None.  Raises BoxLost at the end of the stream, GuestProtocolError.

        With ``again`` the socket is not asked once more where it had no more to give the last time.
        """
        while True:
            found = self.session.next_message() if self.session.parser.pending() else None
            if found is not None:
                return found
            if self.session.paused or (again and self.inbox.dry):
                # So many calls are open that nothing more is taken from the guest, or there is nothing.
                return None
            try:
                data = self.inbox.read()
            except BlockingIOError:
                return None
            except OSError as error:
                raise BoxLost(str(error.strerror)) from None
            if not data:
                raise BoxLost("the guest has ended")
            again = True
            self.session.receive(data)

    async def expect(self, kind: type[Any], origin: Origin | None = None) -> Any:
        """The next message, which must be of this kind.  Raises BoxLost, GuestProtocolError."""
        while (found := self.next_message()) is None:
            await _readable(self, origin)
        message = found[0]
        if isinstance(message, m.Error):
            raise BackendError(f"the guest ({message.where})", message.message, "run: fastness doctor")
        if not isinstance(message, kind):
            raise GuestProtocolError(f"{type(message).__name__.lower()} came where {kind.__name__.lower()} was due")
        return message

    def next_id(self) -> int:
        """A number for an invoke."""
        self._invoke += 1
        return self._invoke

    # limits

    def limit(self, what: int, value: int, hard: int | None = None) -> None:
        """Set a limit of the guest from outside, before its code runs (``prlimit(2)``).  Raises ``OSError``."""
        if self.pid <= 0:
            # To the kernel the number 0 is the caller itself.
            raise BoxLost("the guest has ended")
        hard = value if hard is None else hard
        try:
            resource.prlimit(self.pid, what, (value, hard))
        except PermissionError:
            # Only somebody with power can raise a hard limit, and one that is lower already is as good.
            most = resource.prlimit(self.pid, what)[1]
            if not 0 <= most < hard:
                raise
            resource.prlimit(self.pid, what, (min(value, most), most))

    def cpu_s(self) -> float:
        """Seconds of processor time that the process has used; 0 where it is gone."""
        if self.pid <= 0:
            # To the kernel the number 0 is the caller itself.
            return 0.0
        try:
            # The clock of another process (clock_getcpuclockid(3)): the number's complement, and 2 for all its time.
            return time.clock_gettime((~self.pid << 3) | 2)
        except OSError:
            return 0.0

    def memory(self) -> tuple[int, int, int]:
        """Bytes of address space, of resident memory and of data of the process now; zeros where it is gone."""
        return memory_of(self.pid)

    def look_ahead(self) -> None:
        """Open what :meth:`peak` reads while there is time for it: by when it is asked, somebody waits."""
        with contextlib.suppress(OSError):
            self._numbers.append(os.open(f"/proc/{self.pid}/status", os.O_RDONLY | os.O_CLOEXEC))
        if self.closed:
            self._drop_numbers()

    def _drop_numbers(self) -> None:
        # Who takes one off the list, whichever thread that is, is the one who closes it.
        with contextlib.suppress(IndexError):
            while True:
                os.close(self._numbers.pop())

    def peak(self) -> int:
        """Bytes of resident memory of the process at their most so far (``VmHWM`` of proc(5)); 0 where it is gone."""
        try:
            fd = self._numbers.pop()
        except IndexError:
            try:
                fd = os.open(f"/proc/{self.pid}/status", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return 0
        try:
            # What is true now, and not when it was opened.
            text = os.read(fd, 4096)
        except OSError:
            return 0
        finally:
            os.close(fd)
        found = text.find(b"VmHWM:")
        return int(text[found + 6 :].split(None, 1)[0]) << 10 if found >= 0 else 0

    # ending

    def signal(self, number: int) -> bool:
        """
        Signal the process, and never another one; nothing where it has ended.

        False where there is no process yet, or none that this one may signal.
        """
        if self.process < 0 or self.closed:
            return False
        try:
            signal.pidfd_send_signal(self.process, number)
        except ProcessLookupError:
            pass
        except PermissionError:
            return False
        return True

    def ask_to_end(self, grace_s: float) -> None:
        """Tell the guest to end (``SIGTERM``).  Whoever asks sees to its end after ``grace_s`` seconds."""
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the guest.  In ``isolated`` this is the first process of its namespace, so all of it ends."""
        # Once is enough: nothing takes it back.
        self._told_to_end = self._told_to_end or self.signal(signal.SIGKILL)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process >= 0 and not self.closed and not self.wait(0)

    def wait(self, seconds: float) -> bool:
        """Block until the process has ended; False where it has not by then."""
        if self.process < 0 or self.closed:
            return True
        poller = select.poll()
        poller.register(self.process, select.POLLIN)
        return bool(poller.poll(max(0.0, seconds) * 1000))

    def last_words(self) -> str:
        """The last line that a guest, none of whose foreign code has run yet, wrote to its error stream."""
        if self.closed:
            return ""
        try:
            text = os.read(self.err, _CHUNK).decode("utf-8", "replace")
        except OSError:
            return ""
        return (text.strip().splitlines() or [""])[-1][:500]

    def close(self) -> None:
        """Close every descriptor.  Idempotent.  The process must have been killed."""
        if self.closed:
            return
        self.closed = True
        self._drop_numbers()
        self.talk.close()
        for fd in self._open:
            os.close(fd)


def receive_first(talk: socket.socket) -> tuple[int, int] | bool:
    """
    The guest's two descriptors, which come with its first byte; True where it says why there is none, False at the end.

    It is written before foreign code runs, and it is the only thing that is read with descriptors.
    Raises ``BlockingIOError`` where it has not come.
    """
    data, rights, flags, _ = talk.recvmsg(1, socket.CMSG_SPACE(32), _CLOEXEC)
    fds = array.array("i")
    for level, kind, content in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) // 4 * 4])
    if data == b"+" and len(fds) == 2 and not flags & _CUT:
        return fds[0], fds[1]
    for fd in fds:
        os.close(fd)
    return data == b"!"


async def _readable(box: Box, origin: Origin | None) -> None:
    """Wait for what a new guest says; meanwhile nobody whose work that takes waits for us to listen."""
    while not await box.waiting.readable(box.talk, _LISTEN_S if origin is not None else None):
        if origin is not None:
            origin.pump()


class Origin(Protocol):
    """Where guests come from: the process ``number`` of who forks them, and what it tells, taken in by ``pump``."""

    number: int

    def pump(self) -> bool:
        """Take in what has come."""
        ...


async def become_ready(box: Box, confirm: Callable[[Box], None], origin: Origin | None = None) -> None:
    """
    Bring a new guest from its birth to where it waits for an invoke.

    ``confirm`` is called once its process is known and before it hears from us: the place to put it into a control
    group.  ``origin`` is who has been asked for it.  Raises BackendError, BoxLost.
    """
    try:
        with box.waiting.limit(START_S):
            while True:
                # Who has just been asked for a guest needs this processor, so nothing is tried before.
                await _readable(box, origin)
                try:
                    first = receive_first(box.talk)
                    break
                except BlockingIOError:
                    pass
                except ConnectionError:
                    # The kernel says so where a guest ends before it has read what was left for it.
                    first = False
                    break
            if first is False:
                raise BoxLost("the guest has ended")
            if not isinstance(first, bool):
                box.adopt(*first, 0 if origin is None else origin.number)
                try:
                    confirm(box)
                except BoxLost:
                    # It has said why before it ended, if it could.
                    await box.expect(m.Hello, origin)
                    raise
            await box.expect(m.Hello, origin)
            # It was sent before there was a guest; saying so here is what the order of the protocol asks for.
            box.session.send(_START)
            box.ready = await box.expect(m.Ready, origin)
            if box.early is not None:
                # As above: it is on its way already.
                box.session.send(*box.early)
    except TimeoutError:
        raise BackendError("starting a guest", f"not ready after {START_S:g} s", "see the machine's load") from None
    except GuestProtocolError as error:
        # No foreign code has run yet, so this is a fault of ours.
        raise BackendError("starting a guest", error, "please report this") from None

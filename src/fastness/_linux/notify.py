"""
Refused calls of guests, told to a supervisor before they are answered (``seccomp_unotify(2)``).

A filter's variant with a supervisor stops each refused call until whoever holds the filter's *listener* has answered
it.  The answer here is always an error, or success for calls that are left undone on purpose; a call is never let
through after all, since what its pointers lead to could be changed between the look at it and its run.  For the same
reason nothing of the guest's memory is read: a record has what is in registers.

A guest chooses how often it is refused, so a box has at most :data:`MAX_ROWS` rows and :data:`MAX_NOTIFICATIONS`
notifications.  With the last one its listener is closed, and the kernel refuses on its own (``ENOSYS``).
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct

from fastness._linux.details import detail
from fastness._linux.seccomp import notification_sizes
from fastness._linux.syscalls import NUMBERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

#: Rows that are kept for one box.  The call after the last distinct one is refused without a record.
MAX_ROWS = 64
#: Refused calls of one box that are recorded; the last of them is answered by the kernel already.
MAX_NOTIFICATIONS = 4096

# `struct seccomp_notif`: id, pid, flags, then `struct seccomp_data`: nr, arch, instruction pointer, six arguments.
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
# `struct seccomp_notif_resp`: id, return value, error, flags.
_ANSWER = struct.Struct("=QqiI")

_RECV = 0xC0502100
_SEND = 0xC0182101

#: What :func:`notification_sizes` said, once it was asked.
_sizes: list[tuple[int, int]] = []

_NAMES = {number: name for name, number in NUMBERS.items()}


class Refused:
    """One call that waits for its answer: ``id`` names it to the kernel, ``args`` are its six registers."""

    __slots__ = ("args", "id", "name", "number", "pid")

    def __init__(self, id: int, pid: int, number: int, args: tuple[int, ...]) -> None:
        self.id = id
        #: The caller's number as this process sees it; 0 where it cannot see it.
        self.pid = pid
        self.number = number
        self.name = _NAMES.get(number, f"call {number}")
        self.args = args


class Row:
    """Refused calls of one box that look the same: the call, a short detail such as a signal number, how often."""

    __slots__ = ("count", "detail", "name")

    def __init__(self, name: str, detail: str) -> None:
        self.name = name
        self.detail = detail
        self.count = 0


class Listener:
    """
    The listener ``fd`` of a filter, which it owns from here on.

    ``gone`` is true once the last process under the filter has ended, or :meth:`close` was called.
    """

    __slots__ = ("_answer", "_buffer", "_empty", "_poll", "fd", "gone")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.gone = False
        # Most guests are never refused anything, so what a refusal takes is made with the first.
        self._buffer = self._answer = bytearray()
        self._empty = b""
        self._poll: select.poll | None = None

    def _prepare(self) -> select.poll:
        if not _sizes:
            _sizes.append(notification_sizes())
        sizes = _sizes[0]
        self._buffer = bytearray(max(sizes[0], _NOTIFICATION.size))
        self._empty = bytes(self._buffer)
        self._answer = bytearray(max(sizes[1], _ANSWER.size))
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)
        return self._poll

    def receive(self) -> Refused | None:
        """The next call that waits, or None where there is none just now.  Does not block.  Raises ``OSError``."""
        if self.gone:
            return None
        # The kernel's own receive has no way not to block.
        events = (self._poll or self._prepare()).poll(0)
        if not events:
            return None
        if not events[0][1] & select.POLLIN:
            # Anything else than the end says that the kernel could not look just now.
            self.gone = bool(events[0][1] & select.POLLHUP)
            return None
        self._buffer[:] = self._empty
        try:
            # SAFETY: the buffer has the size that this kernel gave for a notification, and is zero as it demands.
            fcntl.ioctl(self.fd, _RECV, self._buffer, True)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return None  # the caller was killed, or interrupted, in between
            raise
        id, pid, _, number, _, _, *args = _NOTIFICATION.unpack_from(self._buffer)
        return Refused(id, pid, number, tuple(args))

    def answer(self, id: int, error: int) -> None:
        """
        Let the call ``id`` return ``error``, or 0 for success, without having been run.

        A caller that has ended meanwhile needs no answer.  Raises ``OSError``.
        """
        _ANSWER.pack_into(self._answer, 0, id, 0, -error, 0)
        try:
            # SAFETY: the buffer has the size that this kernel gave for an answer, with zeros after the known fields.
            fcntl.ioctl(self.fd, _SEND, self._answer, False)
        except OSError as problem:
            if problem.errno != errno.ENOENT:
                raise

    def close(self) -> None:
        """Give the listener up: the kernel answers ``ENOSYS`` to calls that wait and to all later ones."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
        self.gone = True


class _Box:
    __slots__ = ("answers", "default", "key", "left", "listener", "rows")

    def __init__(self, key: Hashable, listener: Listener, answers: tuple[int, Mapping[int, int]]) -> None:
        self.key = key
        self.listener = listener
        self.default, self.answers = answers
        self.left = MAX_NOTIFICATIONS
        self.rows: dict[tuple[str, str], Row] = {}


class Supervisor:
    """
    Answers the refused calls of many boxes from one thread.

    ``on_row(box, row)`` is called for each refused call, with its row counted up, before the call is answered: a
    record is never later than what the guest does next.  ``on_end(box, reason)`` is called once for each box, before
    its listener is closed: ``ended`` where no process is left under the filter, ``full`` where it reached a limit, or
    ``failed: ...`` where the kernel would not go on.
    """

    def __init__(
        self, on_row: Callable[[Hashable, Row], object], on_end: Callable[[Hashable, str], object] | None = None
    ) -> None:
        self._on_row = on_row
        self._on_end = on_end
        self._poll = select.poll()
        self._boxes: dict[int, _Box] = {}
        self._watched: dict[int, Callable[[int], object]] = {}

    def add(self, fd: int, box: Hashable, answers: tuple[int, Mapping[int, int]] = (errno.EPERM, {})) -> None:
        """
        Serve the listener ``fd`` for ``box``; the descriptor is the supervisor's from here on.

        ``answers`` is what :func:`fastness._linux.profiles.answers` says for the box's program.  Raises ``OSError``.
        """
        self._boxes[fd] = _Box(box, Listener(fd), answers)
        self._poll.register(fd, select.POLLIN)

    def watch(self, fd: int, function: Callable[[int], object]) -> None:
        """Call ``function`` with the poll events whenever the other descriptor ``fd`` is readable or hung up."""
        self._watched[fd] = function
        self._poll.register(fd, select.POLLIN)

    def unwatch(self, fd: int) -> None:
        """Forget ``fd``; call it before the descriptor is closed."""
        del self._watched[fd]
        self._poll.unregister(fd)

    def step(self, timeout: float | None = None) -> bool:
        """
        Wait up to ``timeout`` seconds, None for ever, and serve what is ready; False where nothing was.

        At most one call of each box is answered, so that one that is refused all the time delays no other.
        """
        ready = self._poll.poll(None if timeout is None else max(0, timeout * 1000))
        for fd, events in ready:
            served = self._boxes.get(fd)
            if served is not None and events & (select.POLLIN | select.POLLHUP) == select.POLLHUP:
                # Nothing waits, and nobody is left who could call.
                self._end(served, "ended")
            elif served is not None:
                self._serve(served)
            elif (function := self._watched.get(fd)) is not None:
                function(events)
        return bool(ready)

    def _serve(self, box: _Box) -> None:
        try:
            refused = box.listener.receive()
            if refused is None:
                if box.listener.gone:
                    self._end(box, "ended")
                return
            key = (refused.name, detail(refused.name, refused.args))
            row = box.rows.get(key)
            if row is None:
                if len(box.rows) >= MAX_ROWS:
                    self._end(box, "full")
                    return
                row = box.rows[key] = Row(*key)
            row.count += 1
            box.left -= 1
            self._on_row(box.key, row)
            if not box.left:
                # Instead of an answer, after which the guest would go on: the kernel refuses this one too.
                self._end(box, "full")
                return
            box.listener.answer(refused.id, box.answers.get(refused.number, box.default))
        except OSError as error:
            self._end(box, f"failed: {error}")

    def _end(self, box: _Box, reason: str) -> None:
        fd = box.listener.fd
        if self._boxes.pop(fd, None) is None:
            return
        self._poll.unregister(fd)
        try:
            # Before the guest can go on, so that it is never told of later than what the guest does next.
            if self._on_end is not None:
                self._on_end(box.key, reason)
        finally:
            box.listener.close()

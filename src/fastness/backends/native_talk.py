"""
One invoke with a native guest, from its frames and its pipes to its end.

The guest's process is in the hands of foreign code, so nothing that it says decides anything but its own answer: time,
memory, output and files are read off the kernel.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import TYPE_CHECKING

from fastness.backends.base import Sink
from fastness.backends.box import Box, BoxLost
from fastness.backends.calling import Calling
from fastness.backends.telling import CallbackRaised, Gathered
from fastness.errors import GuestProtocolError
from fastness.runs import OutcomeKind, RunRequest
from fastness.wire import messages as m

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastness.backends.zygote_process import ZygoteProcess
    from fastness.brokered import Calls

_CHUNK = 1 << 16
#: The most that a pipe can be made to hold by its user.
_PIPE = 1 << 20
#: Messages of a guest that are taken in before others get their turn, and claims of one invoke.
_MESSAGES = 32
_EVENTS_MAX = 4096
#: Seconds between looks at what the kernel does not bound by itself.
_WATCH_S = 0.05
#: Seconds in which most runs are over.
_SOON_S = 0.003
#: Seconds for a process to end that has closed everything.
_CLOSING_S = 0.2
_CPUS = os.cpu_count() or 1
#: Bytes of answers that a guest may leave unread before nothing more is heard of it.
_UNREAD = 1 << 20
#: Bytes of claims that are kept.
_CLAIMS_CAP = 1 << 15


class Talk:
    """
    One invoke under way.

    ``reason`` is set by whoever ends the run before its own end, and becomes its outcome; ``watch`` is asked now and
    then and may return such a reason.  ``bystander`` is a zygote whose words are taken in meanwhile, so that it never
    waits for somebody to listen.  ``gone`` is true where the guest's process ended by itself; ``cancel_grace_s`` is for
    :meth:`cancel`.
    """

    def __init__(self, box: Box, request: RunRequest, sink: Sink | None, calls: Calls | None = None) -> None:
        self.box = box
        self.calling: Calling | None = None
        if calls is not None:
            box.session.calls_in_flight = request.limits.calls_in_flight
            self.calling = Calling(calls, box.session, request, sink)
        self._interest = select.EPOLLIN
        self.request = request
        self.sink = sink
        self.gathered = Gathered(request)
        self._output_left = request.limits.output_total_bytes
        self.written = {"stdout": 0, "stderr": 0}
        #: Whether the last look into each pipe found anything.
        self._more = {box.out: False, box.err: False}
        self.reason: tuple[OutcomeKind, str] | None = None
        self.result: m.Result | None = None
        self.payload = b""
        self.claims = b""
        self.gone = self.closed = False
        self.began = 0.0
        self.wall_s = self.cpu_s = 0.0
        self.memory = 0
        self.watch: Callable[[], tuple[OutcomeKind, str] | None] | None = None
        self.bystander: ZygoteProcess | None = None
        #: Bytes of memory that the guest has used at most.
        self.peak: Callable[[], int] = box.peak
        #: Seconds of processor time that the guest has used.
        self.clock: Callable[[], float] = box.cpu_s
        self.cpu_before = 0.0
        self.cancel_grace_s = 0.0
        #: When a guest that was asked to end has no more time for it; 0 where it was not.
        self.asked_until = 0.0
        #: When something may be over its limit at the earliest.
        self._until = 0.0
        self._next_look = 0.0
        self._events = 0

    def end(self, kind: OutcomeKind, detail: str = "") -> None:
        """End the guest now, for this reason unless there is one already.  Callable from any thread."""
        if self.reason is None:
            self.reason = (kind, detail)
            # What was used cannot be read off a process that is gone.
            self.memory = self.peak()
        self.box.kill()

    def cancel(self) -> None:
        """
        End the run as cancelled.  Callable from any thread.

        With ``cancel_grace_s`` the guest is asked to end first, and ended so many seconds later.  That needs a
        ``watch``, for its looks are when the end of the grace is seen.
        """
        if not self.cancel_grace_s:
            self.end(OutcomeKind.CANCELLED)
            return
        if self.reason is None:
            self.reason = (OutcomeKind.CANCELLED, "")
            self._ask(self.cancel_grace_s)

    def _ask(self, grace_s: float) -> None:
        # What was used cannot be read off a process that is gone.
        self.memory = self.peak()
        self.asked_until = time.monotonic() + grace_s
        self._until = 0.0
        self.box.ask_to_end(grace_s)

    async def run(
        self, head: m.Invoke, blob: bytes, fds: tuple[int, ...] = (), grace_s: float = 0.0, *, sent: bool = False
    ) -> None:
        """
        Send the invoke, unless it was ``sent``, and take everything in until its result has come or the guest is gone.

        With ``grace_s`` a guest that is out of time is asked to end first.  Raises CallbackRaised; what a cancelled
        task leaves is an ended guest.
        """
        box = self.box
        try:
            # From when the guest was told, where that was before this.
            self.began = box.told_at or time.monotonic()
            self.cpu_before = self.clock() if box.cpu_then is None else box.cpu_then
            try:
                if not sent:
                    await self._send(head, blob, fds)
                if not await self._answers_soon(head.session):
                    await self._take_all(grace_s)
            except BoxLost:
                self.gone = True
                if not await self._ends():
                    self.closed = True
                    self.end(OutcomeKind.PROTOCOL, "the guest closed its conversation")
            except GuestProtocolError as error:
                self.end(OutcomeKind.PROTOCOL, str(error))
        except (Exception, CallbackRaised):
            box.kill()
            raise
        except BaseException:
            # The caller's task was cancelled, or the caller interrupted: nobody hears of the end.
            self.cancel()
            raise
        finally:
            if self.calling is not None:
                self.calling.abandon()
                box.outbox.recall()
            self._account()

    async def _send(self, head: m.Invoke, blob: bytes, fds: tuple[int, ...]) -> None:
        """Hand the invoke over, within the time of the run: a guest of a session may have stopped to listen."""
        try:
            with self.box.waiting.limit(self.request.limits.wall_s):
                await self.box.send(head, blob, fds)
        except TimeoutError:
            self.end(OutcomeKind.TIMEOUT, "the guest did not take what it was sent")

    async def _ends(self) -> bool:
        """Whether the guest ends by itself, now that its conversation has: a process closes that just before."""
        try:
            with self.box.waiting.limit(_CLOSING_S):
                await self.box.waiting.readable(self.box.process)
        except TimeoutError:
            return False
        return True

    async def _answers_soon(self, session: int) -> bool:
        """
        Wait a moment for the result and for nothing else; False where it has not come.

        Most runs are over before anything else matters: what they write finds room in the pipes, and nobody waits to be
        told of it.  To be woken for it would take a guest's processor away where there are few.
        """
        box = self.box
        if self.calling is not None or self.sink is not None or (session and self.watch is not None):
            # A guest that has run before may be over a limit already that is only looked at.
            return False
        end = self.began + min(_SOON_S, self.request.limits.wall_s)
        while (left := end - time.monotonic()) > 0:
            # Whoever comes back late from waiting looks at the clocks before anything is heard.
            if (heard := self._hear()) is not False:
                return heard is None
            if not await box.waiting.readable(box.talk, left):
                return False
            if box.closed:
                raise BoxLost("the guest was taken away")
        return False

    async def _take_all(self, grace_s: float) -> None:
        box = self.box
        waiter = select.epoll(4)
        try:
            for fd in (box.talk.fileno(), box.out, box.err, box.process):
                waiter.register(fd, select.EPOLLIN)
            self._interest = select.EPOLLIN
            if self.calling is not None:
                waiter.register(self.calling.fileno(), select.EPOLLIN)
            if self.bystander is not None:
                # Of all runs that wait, one is woken.
                with contextlib.suppress(OSError, ValueError):  # any thread may have ended the zygote
                    waiter.register(self.bystander.control_fd, select.EPOLLIN | select.EPOLLEXCLUSIVE)
            await self._take(waiter, grace_s)
        finally:
            waiter.close()

    async def _take(self, waiter: select.epoll, grace_s: float) -> None:
        box = self.box
        talk, process = box.talk.fileno(), box.process
        # What came while the guest became ready was taken in with that, and no descriptor tells of it any more.  It is
        # heard as all that comes later is, for it may be calls, after which the guest waits.
        more: bool | None = True
        heard = self.bystander.control_fd if self.bystander is not None else -1
        bell = self.calling.fileno() if self.calling is not None else -1
        alone = {talk}
        while more is not None:
            if box.closed:
                # Its descriptors tell of nothing any more, and their numbers may be another guest's.
                raise BoxLost("the guest was taken away")
            # Whatever a guest says and however fast, the clock is looked at and others get their turn.
            events = await box.waiting.events(waiter, 0.0 if more else self._patience())
            if time.monotonic() >= self._next_look or not (events or more):
                self._next_look = time.monotonic() + _WATCH_S
                self._look(grace_s)
            ready = {fd for fd, _ in events}
            if box.session.paused and any(fd == talk and what & select.EPOLLHUP for fd, what in events):
                # Nothing more is taken from it, and it can be given nothing.
                raise BoxLost("the guest has ended")
            if ready != alone:
                for name, fd in (("stdout", box.out), ("stderr", box.err)):
                    if fd in ready and not self.take_piece(name, fd):
                        waiter.unregister(fd)
                if self.bystander is not None and heard in ready and not self.bystander.pump():
                    with contextlib.suppress(OSError):
                        # It may have been closed by now, and with that it is off the list.
                        waiter.unregister(heard)
            # Answers come with the bell; else there are only those that the guest has not taken yet.
            answered = self.calling is not None and (bell in ready or box.outbox.size > 0) and self._answer(waiter)
            if more or answered or talk in ready or process in ready:
                # What a guest said before it ended is still in the socket and the pipes.
                more = self._hear()
                if self.calling is not None and more is not None:
                    # Answers that were there at once need no second look; a guest that was not heard for want of them
                    # may have said more in the same breath.
                    waited = box.session.paused
                    if self._answer(waiter) or (waited and not box.session.paused):
                        more = True
            if process in ready and more is False:
                raise BoxLost("the guest has ended")

    def _answer(self, waiter: select.epoll) -> bool:
        """Give the guest what answers there are; True where it may be heard again, after a time in which it was not."""
        assert self.calling is not None
        box = self.box
        self._deliver()
        # While it takes them, the broker has a moment for what it still has to write of them.
        while frames := self.calling.answers():
            for frame in frames:
                box.outbox.post(frame)
            self._deliver()
        interest = 0 if box.session.paused or box.outbox.size > _UNREAD else select.EPOLLIN
        wanted = interest | (select.EPOLLOUT if box.outbox.size else 0)
        if wanted == self._interest:
            return False
        resumed = bool(interest) and not self._interest & select.EPOLLIN
        self._interest = wanted
        waiter.modify(box.talk.fileno(), wanted)
        return resumed

    def _deliver(self) -> None:
        try:
            self.box.outbox.deliver()
        except OSError as error:
            raise BoxLost(str(error.strerror)) from None

    def _hear(self) -> bool | None:
        """Take some of what has come; None after the last message of the invoke, True where there may be more."""
        if self.box.outbox.size > _UNREAD:
            # It does not take the answers to what it asked: nothing more is asked until it does.
            return False
        for number in range(_MESSAGES):
            found = self.box.next_message(again=number > 0)
            if found is None:
                return False
            if self._heard(*found):
                return None
        return True

    def _heard(self, message: m.GuestMessage, blob: bytes) -> bool:
        """Take one message; True for the last one of the invoke."""
        if isinstance(message, m.Result):
            self.result = message
            self.payload = blob[message.stdout_len + message.stderr_len :][: message.payload_len]
            self._read_on()
            return True
        if isinstance(message, m.Event) and message.name == "claims":
            self._events += 1
            if self._events > _EVENTS_MAX:
                raise GuestProtocolError(f"more than {_EVENTS_MAX} claims in one invoke")
            self.claims += blob[: _CLAIMS_CAP - len(self.claims)]
            return False
        if self.calling is not None and isinstance(message, (m.Call, m.Drop, m.Log)):
            outbox = self.box.outbox
            if frame := self.calling.take(message, blob, at_once=not outbox.size):
                outbox.post(frame)
                self._deliver()
            if self.calling.over:
                self.end(OutcomeKind.CALL_LIMIT, f"more than {self.request.limits.calls} calls of the host")
            return False
        raise GuestProtocolError(f"{type(message).__name__.lower()} has no meaning for this guest")

    def take_piece(self, name: str, fd: int, late: list[tuple[str, bytes]] | None = None) -> bool:
        """One piece of a pipe, which goes on ``late`` where it is to be told of later; False at its end."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            self._more[fd] = False
            return True
        self._more[fd] = bool(data)
        if not data:
            return False
        if len(data) > self._output_left:
            # What is past the cap was not allowed to be written, so it is not told as written either.
            data = data[: self._output_left]
            self.end(OutcomeKind.OUTPUT_LIMIT)
        self._output_left -= len(data)
        self.written[name] += len(data)
        self.gathered.take(name, data)
        if late is None:
            self.gathered.tell(name, data, self.sink)
        elif self.sink is not None:
            late.append((name, data))
        return True

    def _read_on(self) -> None:
        """Take in what was written before the result; it may have come after the last look."""
        for name, fd in (("stdout", self.box.out), ("stderr", self.box.err)):
            # A pipe holds no more than this, and what a guest goes on writing is not waited for.
            for _ in range(_PIPE // _CHUNK + 1):
                if not self.take_piece(name, fd) or not self._more[fd]:
                    break

    # time

    def _patience(self) -> float:
        now = time.monotonic()
        if now >= self._until:
            limits = self.request.limits
            left = self.asked_until - now if self.asked_until else limits.wall_s - (now - self.began)
            cpu_left = limits.cpu_s - (self.clock() - self.cpu_before)
            step = min(left, max(cpu_left / _CPUS, 0.005))
            # The guest's clock is asked anew when the time that it had left then, on all processors, has passed.
            self._until = now + (min(step, _WATCH_S) if self.watch is not None else step)
        return max(0.001, self._until - now)

    def _look(self, grace_s: float) -> None:
        """Something may be over its limit: time, processor time, or what ``watch`` knows."""
        limits = self.request.limits
        now = time.monotonic()
        if self.asked_until:
            if now >= self.asked_until:
                self.box.kill()
                return
        elif now - self.began >= limits.wall_s:
            if grace_s <= 0:
                self.end(OutcomeKind.TIMEOUT)
            elif self.reason is None:
                self.reason = (OutcomeKind.TIMEOUT, "")
                self._ask(grace_s)
            return
        # In its grace it is under the other limits still.
        if self.clock() - self.cpu_before >= limits.cpu_s:
            self.end(OutcomeKind.CPU)
        elif self.watch is not None and (found := self.watch()) is not None:
            self.end(*found)

    def _account(self) -> None:
        self.wall_s = time.monotonic() - self.began
        self.cpu_s = max(0.0, self.clock() - self.cpu_before)
        self.memory = max(self.memory, self.peak())

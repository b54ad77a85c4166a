"""
One invoke with a native guest, from its frames, its pipes and its end to a report.

The guest's process is in the hands of foreign code, so nothing that it says decides anything but its own answer: time,
memory, output and files are read off the kernel.
"""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING, Any

from fastness.backends.base import Report, Sink
from fastness.backends.box import Box, BoxLost
from fastness.backends.native_endings import denial, signalled
from fastness.backends.telling import CallbackRaised, Gathered, answered, claimed, exited
from fastness.errors import GuestProtocolError
from fastness.runs import Outcome, OutcomeKind, RunRequest, Usage
from fastness.wire import messages as m
from fastness.wire.payload import GuestPayload, decode_claims, decode_payload

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastness.backends.zygote_process import ZygoteProcess
    from fastness.runner.collect import Collected

#: Errors that say that a tree or a file is as large as it may be: EFBIG, ENOSPC, EDQUOT.
_FULL = frozenset({27, 28, 122})
_ENOMEM = 12
_CHUNK = 1 << 16
#: The most that a pipe can be made to hold by its user.
_PIPE = 1 << 20
#: Messages of a guest that are taken in before others get their turn, and claims of one invoke.
_MESSAGES = 32
_EVENTS_MAX = 4096
#: Seconds between looks at what the kernel does not bound by itself.
_WATCH_S = 0.05
#: Seconds for a process to end that has closed everything.
_CLOSING_S = 0.2
_CPUS = os.cpu_count() or 1
#: Bytes of claims that are kept.
_CLAIMS_CAP = 1 << 15
#: Rows of refusals that a result has; the rest is counted.
_DENIALS_MAX = 64


class Talk:
    """
    One invoke under way.

    ``reason`` is set by whoever ends the run before its own end, and becomes its outcome; ``watch`` is asked now and
    then and may return such a reason.  ``bystander`` is a zygote whose words are taken in meanwhile, so that it never
    waits for somebody to listen.  ``gone`` is true where the guest's process ended by itself; ``cancel_grace_s`` is for
    :meth:`cancel`.
    """

    def __init__(self, box: Box, request: RunRequest, sink: Sink | None) -> None:
        self.box = box
        self.request = request
        self.sink = sink
        self.gathered = Gathered(request)
        self._output_left = request.limits.output_total_bytes
        self._written = {"stdout": 0, "stderr": 0}
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
        self._cpu_before = 0.0
        self.cancel_grace_s = 0.0
        #: When a guest that was asked to end has no more time for it; 0 where it was not.
        self.asked_until = 0.0
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
        waiter = select.epoll(4)
        try:
            for fd in (box.talk.fileno(), box.out, box.err, box.process):
                waiter.register(fd, select.EPOLLIN)
            if self.bystander is not None:
                # Of all runs that wait, one is woken.
                waiter.register(self.bystander.control_fd, select.EPOLLIN | select.EPOLLEXCLUSIVE)
            self.began = time.monotonic()
            self._cpu_before = self.clock()
            try:
                if not sent:
                    await self._send(head, blob, fds)
                await self._take(waiter, grace_s)
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
            waiter.close()
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
                await self.box.waiting.readable(self.box.process)  # type: ignore[arg-type]  # a descriptor does as well
        except TimeoutError:
            return False
        return True

    async def _take(self, waiter: select.epoll, grace_s: float) -> None:
        box = self.box
        talk, process = box.talk.fileno(), box.process
        # What came while the guest became ready was taken in with that, and no descriptor tells of it any more.
        more = self._hear()
        while more is not None:
            # Whatever a guest says and however fast, the clock is looked at and others get their turn.
            events = await box.waiting.events(waiter, 0.0 if more else self._patience())
            if time.monotonic() >= self._next_look or not (events or more):
                self._next_look = time.monotonic() + _WATCH_S
                self._look(grace_s)
            ready = {fd for fd, _ in events}
            for name, fd in (("stdout", box.out), ("stderr", box.err)):
                if fd in ready and not self._read(name, fd):
                    waiter.unregister(fd)
            if self.bystander is not None and self.bystander.control_fd in ready and not self.bystander.pump():
                waiter.unregister(self.bystander.control_fd)
            if more or talk in ready or process in ready:
                # What a guest said before it ended is still in the socket and the pipes.
                more = self._hear()
            if process in ready and more is False:
                raise BoxLost("the guest has ended")

    def _hear(self) -> bool | None:
        """Take some of what has come; None after the last message of the invoke, True where there may be more."""
        for _ in range(_MESSAGES):
            found = self.box.next_message()
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
        raise GuestProtocolError(f"{type(message).__name__.lower()} has no meaning for this guest")

    def _read(self, name: str, fd: int) -> bool:
        """One piece of a pipe; False at its end."""
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
        self._written[name] += len(data)
        self.gathered.output(name, data, self.sink)
        return True

    def _read_on(self) -> None:
        """Take in what was written before the result; it may have come after the last look."""
        for name, fd in (("stdout", self.box.out), ("stderr", self.box.err)):
            # A pipe holds no more than this, and what a guest goes on writing is not waited for.
            for _ in range(_PIPE // _CHUNK + 1):
                if not self._read(name, fd) or not self._more[fd]:
                    break

    # time

    def _patience(self) -> float:
        limits = self.request.limits
        left = limits.wall_s - (time.monotonic() - self.began)
        if self.asked_until:
            left = self.asked_until - time.monotonic()
        cpu_left = limits.cpu_s - (self.clock() - self._cpu_before)
        step = min(left, max(cpu_left / _CPUS, 0.005))
        return max(0.001, min(step, _WATCH_S) if self.watch is not None else step)

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
        if self.clock() - self._cpu_before >= limits.cpu_s:
            self.end(OutcomeKind.CPU)
        elif self.watch is not None and (found := self.watch()) is not None:
            self.end(*found)

    def _account(self) -> None:
        self.wall_s = time.monotonic() - self.began
        self.cpu_s = max(0.0, self.clock() - self._cpu_before)
        self.memory = max(self.memory, self.peak())

    def drain(self, seconds: float, over: int = -1) -> None:
        """
        Read what is left in the pipes of a guest that was ended; bounded, for nobody may hold them for ever.

        ``over`` is a descriptor that has something to read as soon as there is no use in waiting.
        """
        end = time.monotonic() + seconds
        left = {self.box.out: "stdout", self.box.err: "stderr"}
        poller = select.poll()
        for fd in left:
            poller.register(fd, select.POLLIN)
        if over >= 0:
            poller.register(over, select.POLLIN)
        while left and time.monotonic() < end:
            for fd, _ in poller.poll(max(0.0, end - time.monotonic()) * 1000):
                if fd == over:
                    return
                if not self._read(left[fd], fd):
                    poller.unregister(fd)
                    del left[fd]

    # telling

    def report(
        self,
        *,
        ended: dict[str, Any] | None,
        collected: Collected,
        records: list[dict[str, Any]],
        out_of_memory: bool,
        layers: dict[str, str],
        session: bool,
        queued: float,
    ) -> Report:
        """
        The report of this invoke.

        ``ended`` is how the kernel says that the process ended, where it did so by itself; ``records`` are refused
        system calls; ``out_of_memory`` is whether the kernel killed for memory.
        """
        answer: GuestPayload | None = None
        broken = ""
        if self.payload:
            try:
                answer = decode_payload(self.payload)
            except GuestProtocolError as error:
                broken = str(error)
        kind, detail, code, number = self._outcome(answer, broken, ended, out_of_memory)
        if kind is OutcomeKind.OK and collected.over:
            # Where the kernel has no such cap, or a file is mostly holes, it shows only at the end.
            kind, detail = OutcomeKind.DISK, collected.over
        good = answer is not None and kind is OutcomeKind.OK
        claims = answer.claims if answer is not None else decode_claims(self.claims) if self.claims else ()
        gathered = self.gathered
        dropped = gathered.out.dropped + gathered.err.dropped
        kept = session and self.result is not None and self.reason is None
        out, err = gathered.out.bytes(), gathered.err.bytes()
        denials = (*map(denial, records), *collected.denials, *claimed(claims))
        more = max(0, len(denials) - _DENIALS_MAX)
        return Report(
            outcome=Outcome(kind, detail[:2000], number, dropped),
            value=answer.value if good and answer is not None else None,
            value_repr=answer.value_repr if good and answer is not None else None,
            stdout=out,
            stderr=err,
            exit_code=code,
            files=collected.files,
            changes=collected.changes,
            denials=denials[:_DENIALS_MAX],
            usage=Usage(
                wall_s=self.wall_s,
                cpu_s=self.cpu_s or (ended or {}).get("cpu", 0.0),
                queue_s=queued,
                memory=self.memory or 1024 * (ended or {}).get("rss", 0),
                stdout_bytes=self._written["stdout"],
                stderr_bytes=self._written["stderr"],
                file_bytes=collected.total_bytes,
                files=collected.total_files,
                denials_dropped=more + collected.refused_dropped + (answer.claims_dropped if answer is not None else 0),
            ),
            layers=layers,
            state="none" if not session else "kept" if kept else "lost",
            collected=collected,
        )

    def _outcome(
        self, answer: GuestPayload | None, broken: str, ended: dict[str, Any] | None, out_of_memory: bool
    ) -> tuple[OutcomeKind, str, int | None, int | None]:
        """Kind, detail, exit code and signal."""
        # The kernel may take its time to end all that a group holds, and closes what they have open first.
        if self.reason is not None and not (self.closed and out_of_memory):
            return *self.reason, None, None
        if out_of_memory and (answer is None or answer.kind != "ok"):
            return OutcomeKind.MEMORY, "the kernel ended it at its memory limit", None, 9
        if broken:
            return OutcomeKind.PROTOCOL, broken, None, None
        if self.result is not None:
            if self.result.ending == "exit":
                return *exited(self.result.exit_code or 0), None
            if self.result.ending == "trap":
                return signalled(self.result.trap.removeprefix("signal "))
            if answer is None:
                return OutcomeKind.PROTOCOL, "the guest returned without an answer", None, None
            if answer.kind == "exception" and answer.errno == _ENOMEM:
                # What the kernel says where the interpreter says MemoryError.
                return OutcomeKind.MEMORY, f"{answer.error_type}: {answer.error_message}", 1, None
            return *answered(answer, answer.errno in _FULL), None
        if ended is None:
            return OutcomeKind.CRASHED, "the guest's process ended and nobody saw how", None, None
        status = ended["status"]
        if os.WIFSIGNALED(status):
            return signalled(str(os.WTERMSIG(status)))
        return *exited(os.WEXITSTATUS(status)), None

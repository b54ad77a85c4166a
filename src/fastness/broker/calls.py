"""
The brokered calls of one run, from the guest's words to the answer.

Each call is decided, recorded, done, recorded again and answered, in this order.  What the guest sent is inert by the
time it is looked at: decoded with bounds into a type of the operation's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from fastness.broker import portal
from fastness.broker.announced import Announced, told_of
from fastness.broker.asked import TEXT_MAX, Asker, Invalid, described
from fastness.broker.counts import Counts
from fastness.broker.failures import failure
from fastness.broker.gate import Allowed, Gate, Refused
from fastness.broker.leavings import Leavings
from fastness.broker.lookout import Lookout
from fastness.broker.outcomes import Outcomes
from fastness.broker.refusals import Refusals
from fastness.broker.trail import Intent, Trail
from fastness.brokered import Answer, Granted, TooManyCalls
from fastness.capability import CallContext, Later
from fastness.errors import BackendError, QuotaExceeded
from fastness.limits import Limits
from fastness.runs import Denial, DenialCode
from fastness.wire import values

if TYPE_CHECKING:
    import msgspec

    from fastness.metering.meter import Meter

#: Seconds that cancelled calls have to come to rest, and that this and the end of what they left open takes.
_REST_S, _CLOSE_S = 5.0, 9.0


class RunCalls:
    """
    The calls of one run: ``fastness.brokered.Calls``.

    ``calls`` may be made in all; an answer's value is at most ``value_bytes``; each call has until ``deadline``, a
    ``time.monotonic()``, or where none is known for ``seconds`` from the first call on.  ``limits`` are the policy's.

    While calls are in flight it looks every 50 ms whether the grant behind them still stands, and cancels them where it
    does not: whoever revoked it may be another process.  Close it when the run is over.

    Calls are served in the broker's loop.  With ``here``, those whose adapter and trail wait for nobody are served on
    the thread that submits them, which must be one that may take a tenth of a millisecond for it.

    ``meter`` counts what is used, and refuses calls that a quota does not leave.
    """

    def __init__(
        self,
        gate: Gate,
        trail: Trail,
        *,
        run: str,
        plugin: str,
        owner: str,
        calls: int,
        value_bytes: int,
        deadline: float | None = None,
        seconds: float = 60.0,
        limits: Limits | None = None,
        here: bool = False,
        meter: Meter | None = None,
    ) -> None:
        self._gate = gate
        self._trail = trail
        self._counts = Counts(gate, meter)
        self._outcomes = Outcomes(trail)
        self._quick = self._outcomes.quick
        #: Whether calls may be served where they are submitted; those that a thread serves just now.
        self._submits = here and self._quick is not None
        self._serving: set[int] = set()
        self._asker = Asker(run, plugin, owner, limits or Limits(), deadline, seconds)
        self._leavings = Leavings(self._asker, trail, self._counts)
        self._left = calls
        self._value_bytes = value_bytes
        self._lookout = Lookout(gate, lambda: bool(self._tasks) and not self._closed, self._cut_short)
        self._lock = threading.Lock()
        self._answers: deque[Answer] = deque()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        #: Calls that were handed to the loop and have not begun, and those dropped before they had.
        self._waiting: set[int] = set()
        self._dropped: set[int] = set()
        self._refusals = Refusals()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closed = False
        #: Why everything that is in flight is being cancelled.
        self._why = DenialCode.CANCELLED

    # fastness.brokered.Calls

    @property
    def granted(self) -> tuple[Granted, ...]:
        """What the guest's ctx has."""
        return tuple(described(kind, operation) for kind, operation in self._gate.operations())

    def submit(self, id: int, capability: str, operation: str, arguments: bytes) -> None:
        """Take a call; never waits.  Raises TooManyCalls."""
        with self._lock:
            if self._closed:
                return
            if self._left <= 0:
                raise TooManyCalls
            self._left -= 1
            self._waiting.add(id)
            if self._submits:
                self._serving.add(id)
        if self._submits:
            try:
                if self._served(id, capability, operation, arguments):
                    return
            finally:
                self._serving.discard(id)
        portal.soon(self._begin, id, capability, operation, arguments)

    def drop(self, id: int) -> None:
        """The guest has no more use for the answer."""
        portal.soon(self._drop, id)

    def fileno(self) -> int:
        """Readable while there are answers."""
        return self._bell

    def answers(self) -> list[Answer]:
        """Answers since the last time."""
        with self._lock:
            if self._closed:
                return []
            found = list(self._answers)
            self._answers.clear()
            if not (found and self._outcomes and self._submits):
                # With answers to give it stays rung, so that this is asked again when they have been given.
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._bell)
        if not found and self._outcomes and self._submits:
            self._outcomes.settle(wait=False)
        return found

    @property
    def cost(self) -> int:
        """What the calls cost that are over, in billionths of the operator's currency."""
        return self._counts.cost

    def denials(self) -> tuple[tuple[Denial, ...], int]:
        """Refusals so far, and how many did not fit."""
        return self._refusals.rows()

    def close(self) -> None:
        """Cancel what is in flight and wait for its rest.  Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._outcomes.settle(wait=True)
        with self._lock:
            # A run that called nothing has woken no loop.
            idle = not (self._waiting or self._tasks or self._serving or self._asker.opened)
        if not idle:
            portal.wait(self._rest(), _CLOSE_S)
        with self._lock:
            os.close(self._bell)

    # of the host

    def revoke(self, why: DenialCode = DenialCode.REVOKED) -> None:
        """What is in flight is cancelled; what was done by then is done, and its record says so.  Any thread."""
        self._why = why
        portal.soon(self._cancel_all)
        portal.soon(self._leavings.end_soon)

    @property
    def in_flight(self) -> tuple[int, ...]:
        """Calls that have neither been answered nor come to rest."""
        with self._lock:
            return tuple(sorted({*self._waiting, *self._tasks}))

    # on the thread that submits, or in the loop

    def _served(self, id: int, capability: str, operation: str, arguments: bytes) -> bool:
        """Serve a call here; False, and nothing done, where anything of it may have to wait or is to be refused."""
        assert self._quick is not None
        decided = self._gate.decide(capability, operation)
        if isinstance(decided, Refused) or decided.at_once is None or decided.operation.leaves:
            return False
        try:
            given, intent = self._asker.understood(decided, capability, operation, arguments)
        except Invalid:
            return False
        context = self._asker.context(decided)
        if self._outcomes:
            self._outcomes.settle(wait=False)
        if not self._counts.take():
            return False
        number = self._quick.intend_at_once(intent)
        if number is None:
            self._counts.give_back()
            return False
        self._do_here(id, number, intent, decided, given, context)
        return True

    def _do_here(
        self, id: int, number: int, intent: Intent, decided: Allowed, given: msgspec.Struct, context: CallContext
    ) -> None:
        began = time.monotonic_ns()
        code, message, value = "", "", b""
        try:
            self._gate.stand(intent.target)
            if context.deadline <= time.monotonic():
                raise TimeoutError
            value = values.encode(decided.at_once(intent.operation, given, context), self._value_bytes)
        except Later:
            # It is recorded as about to happen, and happens in the loop.
            portal.soon(self._begin_recorded, id, number, intent, decided.adapter, given, context)
            return
        except Exception as error:  # noqa: BLE001  # an adapter may be anybody's
            code, message, noted = failure(error)
            if noted is not None:
                self._refusals.note(intent, noted)
        self._counts.over(intent.capability, code, context)
        self._outcomes.owe(number, intent, **told_of(code, (time.monotonic_ns() - began) // 1000, context))
        with self._lock:
            self._waiting.discard(id)
            closed = self._closed
            if not closed:
                self._answers.append(Answer(id, value, code, message[:TEXT_MAX]))
                os.eventfd_write(self._bell, 1)
        if closed:
            self._outcomes.settle(wait=True)

    # in the loop

    def _begin_recorded(self, id: int, number: int, *of: Any) -> None:
        with self._lock:
            self._waiting.discard(id)
            if not self._closed and id not in self._dropped:
                self._start(id, self._do(id, number, *of))
                return
            self._dropped.discard(id)
        self._counts.over(of[0].capability, self._why.value)
        self._outcomes.record(number, of[0], {"code": self._why.value, "micros": 0, "bytes_in": 0, "bytes_out": 0})

    def _begin(self, id: int, capability: str, operation: str, arguments: bytes) -> None:
        with self._lock:
            over = self._closed or id in self._dropped
            if over:
                self._waiting.discard(id)
                self._dropped.discard(id)
            else:
                self._serving.add(id)
        if over:
            return
        try:
            if self._quick is not None and self._served(id, capability, operation, arguments):
                # While the guest takes the answer.
                self._outcomes.settle(wait=True)
                return
        finally:
            self._serving.discard(id)
        with self._lock:
            self._waiting.discard(id)
            if not self._closed:
                self._start(id, self._serve(id, capability, operation, arguments))

    def _start(self, id: int, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[id] = task
        self._lookout.begin(task.get_loop())
        task.add_done_callback(lambda _: self._rested(id))

    def _cut_short(self, why: DenialCode) -> None:
        self._why = why
        self._cancel_all()

    def _rested(self, id: int) -> None:
        with self._lock:
            self._tasks.pop(id, None)

    def _drop(self, id: int) -> None:
        with self._lock:
            task = self._tasks.get(id)
            if task is None and id in self._waiting:
                self._dropped.add(id)
        if task is not None:
            self._cancel(task)

    def _cancel_all(self) -> None:
        with self._lock:
            tasks = list(self._tasks.values())
        for task in tasks:
            self._cancel(task)

    @staticmethod
    def _cancel(task: asyncio.Task[None]) -> None:
        # A task that is cancelled before its first step never takes it: nobody would record or answer its call.  What
        # was scheduled before this is done before this.
        task.get_loop().call_soon(task.cancel)

    async def _rest(self) -> None:
        self._cancel_all()
        with self._lock:
            tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=_REST_S)
        ends = time.monotonic() + _REST_S
        # What another thread serves just now takes no longer than this.
        while self._serving and time.monotonic() < ends:  # noqa: ASYNC110  # as above: it is no task
            await asyncio.sleep(0.001)
        await self._leavings.end()

    async def _serve(self, id: int, capability: str, operation: str, arguments: bytes) -> None:
        intent = self._asker.intent(capability, operation)
        try:
            self._counts.admit(capability)
        except QuotaExceeded as error:
            self._refusals.note(intent, DenialCode.QUOTA)
            self._tell(id, intent, DenialCode.QUOTA.value, str(error))
            return
        except BackendError:
            self._answer(Answer(id, code="failed", message="the call could not be counted, so nothing was done"))
            return
        decided = self._gate.decide(capability, operation)
        if isinstance(decided, Refused):
            self._refusals.note(intent, decided.code)
            self._fail(id, intent, decided.code.value, "")
            return
        try:
            given, intent = self._asker.understood(decided, capability, operation, arguments)
        except Invalid as error:
            self._fail(id, intent, "invalid", str(error))
            return
        context = self._asker.context(decided)
        try:
            number = self._trail.intend(intent)
        except BackendError:
            # What cannot be recorded does not happen.
            self._counts.over(capability, "failed")
            self._answer(Answer(id, code="failed", message="the call could not be recorded, so nothing was done"))
            return
        await self._do(id, number, intent, decided.adapter, given, context)

    async def _do(
        self, id: int, number: int, intent: Intent, adapter: Any, given: msgspec.Struct, context: CallContext
    ) -> None:
        began = time.monotonic_ns()
        code, message, value = "", "", b""
        cancelled = False
        announced = Announced(self._gate, self._trail, intent, number)
        context.before, context.note = announced.before, announced.note
        try:
            self._gate.stand(intent.target)
            async with asyncio.timeout(max(0.0, context.deadline - time.monotonic())):
                result = await adapter.call(intent.operation, given, context)
            value = values.encode(result, self._value_bytes)
        except asyncio.CancelledError:
            # It may have happened by now: the record says that nobody waited for the end.
            cancelled = True
            code = self._why.value
        except Exception as error:  # noqa: BLE001  # an adapter may be anybody's
            code, message, noted = failure(error)
            if noted is not None:
                self._refusals.note(intent, noted)
        self._counts.over(intent.capability, code, context)
        if not announced.done(told_of(code, (time.monotonic_ns() - began) // 1000, context)):
            code, message, value = "failed", "how the call ended could not be recorded", b""
        if cancelled and self._why is DenialCode.CANCELLED:
            return
        if cancelled:
            self._refusals.note(intent, self._why)
        self._answer(Answer(id, value, code, message[:TEXT_MAX]))

    def _fail(self, id: int, intent: Intent, code: str, message: str) -> None:
        self._counts.over(intent.capability, code)
        self._tell(id, intent, code, message)

    def _tell(self, id: int, intent: Intent, code: str, message: str) -> None:
        with contextlib.suppress(BackendError):  # nothing has happened that would go unrecorded
            self._trail.refused(intent, code=code)
        self._answer(Answer(id, code=code, message=message[:TEXT_MAX]))

    def _answer(self, answer: Answer) -> None:
        with self._lock:
            if self._closed:
                return
            self._answers.append(answer)
            os.eventfd_write(self._bell, 1)

"""
The brokered calls of one run, from the guest's words to the answer.

Each call is decided, recorded, done, recorded again and answered, in this order.  What the guest sent is inert by the
time it is looked at: decoded with bounds into a type of the operation's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from fastness.broker import portal
from fastness.broker.account import Account, told_of
from fastness.broker.answers import Answers
from fastness.broker.asked import TEXT_MAX, Asker, Invalid, described
from fastness.broker.counts import Counts
from fastness.broker.failures import failure
from fastness.broker.gate import Gate, Refused
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

#: Seconds that cancelled calls have to come to rest, and those that the loop has, which may wait for the trail.
_REST_S, _LOOP_S = 1.0, 5.0
#: No answer: the call was recorded, and goes on in the loop.
_LATER = Answer(0)


class RunCalls:
    """
    The calls of one run: ``fastness.brokered.Calls``.

    ``calls`` may be made in all; an answer's value is at most ``value_bytes``; each call has until ``deadline``, a
    ``time.monotonic()``, or where none is known for ``seconds`` from the first call on.  ``limits`` are the policy's.

    While calls are in flight it looks every 50 ms whether the grant behind them still stands, and cancels them where it
    does not: whoever revoked it may be another process.  Close it when the run is over.

    Calls are served in the broker's loop.  With ``here``, those whose adapter and trail wait for nobody are served on
    the thread that submits them, which must be one that may take a tenth of a millisecond for it.  ``meter`` counts
    what is used, and refuses calls that a quota does not leave.
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
        self._answers = Answers()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        #: Calls that were handed to the loop and have not begun, and those dropped before they had.
        self._waiting: set[int] = set()
        self._dropped: set[int] = set()
        self._refusals = Refusals()
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
        answer = self.ask(id, capability, operation, arguments)
        if answer is not None:
            self._answers.put(answer)

    def ask(self, id: int, capability: str, operation: str, arguments: bytes) -> Answer | None:
        """Take a call; its answer, where it was there at once.  Raises TooManyCalls."""
        with self._lock:
            if self._closed:
                return None
            if self._left <= 0:
                raise TooManyCalls
            self._left -= 1
            (self._serving if self._submits else self._waiting).add(id)
        if self._submits:
            try:
                answer = self._served(id, capability, operation, arguments)
                if answer is None or answer is _LATER:
                    self._waiting.add(id)
            finally:
                self._serving.discard(id)
            if answer is not None:
                return None if answer is _LATER else answer
        portal.soon(self._begin, id, capability, operation, arguments)
        return None

    def drop(self, id: int) -> None:
        """The guest has no more use for the answer."""
        portal.soon(self._drop, id)

    def fileno(self) -> int:
        """Readable while there are answers."""
        return self._answers.fileno()

    def answers(self) -> list[Answer]:
        """Answers since the last time."""
        owed = self._submits and bool(self._outcomes)
        # With outcomes to record this is asked again when the answers have been given.
        found = self._answers.take(again=owed)
        if owed and not found:
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
        self._answers.close()
        self._outcomes.settle(wait=True)
        with self._lock:
            # A run that called nothing has woken no loop.
            idle = not (self._waiting or self._tasks or self._serving or self._asker.opened)
        if not idle:
            portal.rest(self._rest(), _REST_S + _LOOP_S)

    # of the host

    def revoke(self, why: DenialCode = DenialCode.REVOKED, *, over: bool = False) -> None:
        """What is in flight is cancelled, what was done is done; with ``over`` all else is refused.  Any thread."""
        self._gate.over = why if over else self._gate.over
        self._why = why
        portal.soon(self._cancel_all)

    @property
    def in_flight(self) -> tuple[int, ...]:
        """Calls that have neither been answered nor come to rest."""
        with self._lock:
            return tuple(sorted({*self._waiting, *self._tasks}))

    # on the thread that submits, or in the loop

    def _served(self, id: int, capability: str, operation: str, arguments: bytes) -> Answer | None:
        """
        The answer to a call that is served here.

        None, and nothing was done, where anything of it may have to wait or is to be refused; :data:`_LATER` where it
        is recorded as about to happen, and happens in the loop.
        """
        assert self._quick is not None
        decided = self._gate.decide(capability, operation)
        if isinstance(decided, Refused) or decided.at_once is None or decided.operation.leaves:
            return None
        try:
            given, intent = self._asker.understood(decided, capability, operation, arguments)
        except Invalid:
            return None
        context = self._asker.context(decided)
        if self._outcomes:
            self._outcomes.settle(wait=False)
        if not self._counts.take():
            return None
        number = self._quick.intend_at_once(intent)
        if number is None:
            self._counts.give_back()
            return None
        began = time.monotonic_ns()
        code, message, value = "", "", b""
        try:
            self._gate.stand(intent.target)
            if context.deadline * 1e9 <= began:
                raise TimeoutError
            value = values.encode(decided.at_once(operation, given, context), self._value_bytes)
        except Later:
            portal.soon(self._begin_recorded, id, number, intent, decided.adapter, given, context)
            return _LATER
        except Exception as error:  # noqa: BLE001  # an adapter may be anybody's
            code, message, noted = failure(error)
            if noted is not None:
                self._refusals.note(intent, noted)
        self._counts.over(capability, code, context)
        self._outcomes.owe(number, intent, **told_of(code, (time.monotonic_ns() - began) // 1000, context))
        if self._closed:
            # Whoever closed may have looked for what is owed before this was.
            self._outcomes.settle(wait=True)
        return Answer(id, value, code, message[:TEXT_MAX])

    # in the loop

    def _begin_recorded(self, id: int, number: int, intent: Intent, *of: Any) -> None:
        with self._lock:
            self._waiting.discard(id)
            if not self._closed and id not in self._dropped:
                self._start(id, self._do(id, number, intent, *of))
                return
            self._dropped.discard(id)
        self._counts.over(intent.capability, self._why.value)
        self._outcomes.record(number, intent, {"code": self._why.value, "micros": 0, "bytes_in": 0, "bytes_out": 0})

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
            answer = self._served(id, capability, operation, arguments) if self._quick is not None else None
            if answer is not None:
                if answer is not _LATER:
                    with self._lock:
                        self._waiting.discard(id)
                    self._answers.put(answer)
                # While the guest takes the answer.
                self._outcomes.settle(wait=True)
                return
        finally:
            self._serving.discard(id)
        recorded = self._recorded(id, capability, operation, arguments)
        if recorded is not None:
            self._begin_recorded(id, *recorded)
            return
        with self._lock:
            self._waiting.discard(id)

    def _start(self, id: int, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._held(id, work))
        self._tasks[id] = task
        self._lookout.begin(task.get_loop())

    async def _held(self, id: int, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        finally:
            # Here and not in a callback, which would come a turn of the loop later.
            with self._lock:
                self._tasks.pop(id, None)

    def _cut_short(self, why: DenialCode) -> None:
        self._why = why
        self._cancel_all()

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
        self._leavings.end_soon()

    @staticmethod
    def _cancel(task: asyncio.Task[None]) -> None:
        # A task that is cancelled before its first step never takes it: nobody would record or answer its call.  What
        # was scheduled before this is done before this.
        task.get_loop().call_soon(task.cancel)

    async def _rest(self) -> None:
        self._cancel_all()
        with self._lock:
            tasks = list(self._tasks.values())
        ends = time.monotonic() + _REST_S
        if tasks:
            await asyncio.wait(tasks, timeout=_REST_S)
        # What another thread serves just now takes no longer than this.
        while self._serving and time.monotonic() < ends:  # noqa: ASYNC110  # as above: it is no task
            await asyncio.sleep(0.001)
        await self._leavings.end()

    def _recorded(
        self, id: int, capability: str, operation: str, arguments: bytes
    ) -> tuple[int, Intent, Any, msgspec.Struct, CallContext] | None:
        """What there is to do of a call, recorded as about to happen; None where it is answered, and nothing is."""
        intent = self._asker.intent(capability, operation)
        try:
            self._counts.admit(capability)
        except QuotaExceeded as error:
            self._refusals.note(intent, DenialCode.QUOTA)
            self._tell(id, intent, DenialCode.QUOTA.value, str(error))
            return None
        except BackendError:
            self._answers.put(Answer(id, code="failed", message="the call could not be counted, so nothing was done"))
            return None
        decided = self._gate.decide(capability, operation)
        if isinstance(decided, Refused):
            self._refusals.note(intent, decided.code)
            self._fail(id, intent, decided.code.value, "")
            return None
        try:
            given, intent = self._asker.understood(decided, capability, operation, arguments)
        except Invalid as error:
            self._fail(id, intent, "invalid", str(error))
            return None
        context = self._asker.context(decided)
        try:
            number = self._trail.intend(intent)
        except BackendError:
            # What cannot be recorded does not happen.
            self._counts.over(capability, "failed")
            self._answers.put(Answer(id, code="failed", message="the call could not be recorded, so nothing was done"))
            return None
        return number, intent, decided.adapter, given, context

    async def _do(
        self, id: int, number: int, intent: Intent, adapter: Any, given: msgspec.Struct, context: CallContext
    ) -> None:
        account = Account(self._gate, self._trail, number, intent, context)
        code, message, value = "", "", b""
        refused: DenialCode | None = None
        cancelled = False
        try:
            self._gate.stand(intent.target)
            left = max(0.0, context.deadline - time.monotonic())
            async with asyncio.timeout(None if left == math.inf else left):
                result = await adapter.call(intent.operation, given, context)
            value = values.encode(result, self._value_bytes)
        except asyncio.CancelledError:
            # It may have happened by now.
            cancelled = context.effect = True
            refused, code = self._why, self._why.value
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  # an adapter may be anybody's
            code, message, refused = failure(error)
        self._counts.over(intent.capability, code, context)
        unheard = cancelled and refused is DenialCode.CANCELLED
        if refused is not None and not unheard:
            self._refusals.note(intent, refused, effect=account.effect)
        if not account.end(code, refused=refused):
            code, message, value = "failed", "how the call ended could not be recorded", b""
        if unheard:
            return
        self._answers.put(Answer(id, value, code, message[:TEXT_MAX]))

    def _fail(self, id: int, intent: Intent, code: str, message: str) -> None:
        self._counts.over(intent.capability, code)
        self._tell(id, intent, code, message)

    def _tell(self, id: int, intent: Intent, code: str, message: str) -> None:
        with contextlib.suppress(BackendError):  # nothing has happened that would go unrecorded
            self._trail.refused(intent, code=code)
        self._answers.put(Answer(id, code=code, message=message[:TEXT_MAX]))

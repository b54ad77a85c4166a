"""
A session of the tier ``worker``: one worker that keeps its variables, imports and files over several executes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastness.backends import worker_process
from fastness.backends.base import BackendSession, Report, Sink, Staged
from fastness.backends.calling import close_calls
from fastness.backends.native_talk import Talk
from fastness.backends.session_turn import CLOSED, Turn
from fastness.backends.telling import CallbackRaised
from fastness.backends.worker_process import Worker
from fastness.brokered import Calls
from fastness.runs import Outcome, OutcomeKind, RunRequest

if TYPE_CHECKING:
    from fastness.backends.worker import WorkerBackend
    from fastness.backends.worker_stock import Kind


class WorkerSession(BackendSession):
    """A worker that nothing else uses, for several executes."""

    def __init__(self, backend: WorkerBackend, worker: Worker, kind: Kind, calls: Calls | None) -> None:
        self._backend = backend
        self._calls = calls
        self._worker = worker
        self._kind = kind
        self._turn = Turn()
        self._talk: Talk | None = None
        self._lost = False

    async def execute(self, request: RunRequest, staged: Staged, sink: Sink | None) -> Report:
        """Run once more in the same worker."""
        cancels = self._backend.cancels
        self._turn.take()
        try:
            if self._lost:
                return Report(
                    outcome=Outcome(OutcomeKind.CRASHED, "an earlier run lost the session's state; open a new session"),
                    state="lost",
                )
            talk = self._talk = Talk(self._worker, request, sink, self._calls)
            if self._turn.closed:
                talk.end(OutcomeKind.CANCELLED, CLOSED)
            worker_process.bound_time(self._worker, request.limits)
            await self._backend.fill(self._worker, staged)
            self._lost = True
            report = await self._backend.talk(talk, staged, 1, cancels=cancels)
            self._lost = report.state != "kept"
            return report
        except CallbackRaised as raised:
            raise raised.error from None
        finally:
            self._talk = None
            if self._turn.leave():
                await self._backend.done(self._worker, self._kind)

    @property
    def alive(self) -> bool:
        """Whether the worker runs."""
        return not self._turn.closed and self._worker.alive

    async def aclose(self) -> None:
        """End the worker; an execute that is under way ends as cancelled, and gives the worker back.  Idempotent."""
        if self._turn.close():
            await self._backend.done(self._worker, self._kind)
        elif (talk := self._talk) is not None:
            talk.end(OutcomeKind.CANCELLED, CLOSED)
        await close_calls(self._calls, self._backend._waiting)

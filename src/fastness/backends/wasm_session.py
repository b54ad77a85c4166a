"""
A session of the ``wasm`` tier: a live instance in an engine that nothing else uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fastness.backends.base import BackendSession, Report, Sink, Staged
from fastness.backends.calling import close_calls
from fastness.backends.conversation import converse
from fastness.backends.engine_process import EngineLost, EngineProcess
from fastness.backends.session_turn import CLOSED, Turn
from fastness.brokered import Calls
from fastness.errors import StagingError
from fastness.runner.pool import Pool
from fastness.runs import Outcome, OutcomeKind, RunRequest

if TYPE_CHECKING:
    from fastness.backends.wasm import WasmBackend


class WasmSession(BackendSession):
    """A live instance in an engine that nothing else uses."""

    def __init__(
        self, backend: WasmBackend, pool: Pool[EngineProcess], engine: EngineProcess, calls: Calls | None
    ) -> None:
        self._backend = backend
        self._pool = pool
        self._engine = engine
        self._calls = calls
        self._opened = False
        self._lost = False
        self._turn = Turn()

    async def execute(self, request: RunRequest, staged: Staged, sink: Sink | None) -> Report:
        """Run once more in the same guest; the first makes it."""
        self._turn.take()
        try:
            report = await self._execute(request, staged, sink)
        finally:
            if self._turn.leave():
                self._give_back()
        if self._turn.closed and report.outcome.kind is OutcomeKind.CRASHED:
            # However the end of the engine looked from here, it was this that ended it.
            return msgspec.structs.replace(report, outcome=Outcome(OutcomeKind.CANCELLED, CLOSED))
        return report

    async def _execute(self, request: RunRequest, staged: Staged, sink: Sink | None) -> Report:
        if self._lost:
            return Report(
                outcome=Outcome(OutcomeKind.CRASHED, "an earlier run lost the session's state; open a new session"),
                state="lost",
            )
        engine = self._engine
        invoke = engine.next_id()
        self._backend._running[engine] = invoke
        operation = "execute" if self._opened else "open"
        self._lost = True
        try:
            talk = await converse(
                engine, self._backend._waiting, invoke, request, staged, sink, operation, session=1, calls=self._calls
            )
            self._opened = True
            self._lost = talk.report is None or talk.report.state != "kept"
            assert talk.report is not None
            return talk.report
        except EngineLost as lost:
            return Report(outcome=Outcome(OutcomeKind.CRASHED, lost.why), state="lost")
        except StagingError:
            # The files did not fit, so nothing ran and the guest is as it was.
            self._lost = not engine.alive
            raise
        finally:
            self._backend._running.pop(engine, None)

    @property
    def alive(self) -> bool:
        """Whether the engine runs."""
        return not self._turn.closed and self._engine.alive

    async def aclose(self) -> None:
        """End the engine, and what its guest has called; an execute that is under way ends as cancelled."""
        if self._turn.close():
            self._give_back()
        else:
            # An execute that is under way sees the end of its stream and cleans up.
            self._engine.process.kill()
        await close_calls(self._calls, self._backend._waiting)

    def _give_back(self) -> None:
        self._backend._sessions.discard(self)
        # The engine has held this session's secrets; ending it is the simplest way to be sure of all of them.
        self._pool.release(self._engine, False)

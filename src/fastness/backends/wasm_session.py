"""
A session of the ``wasm`` tier: a live instance in an engine that nothing else uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastness.backends.base import BackendSession, Report, Sink, Staged
from fastness.backends.calling import close_calls
from fastness.backends.conversation import converse
from fastness.backends.engine_process import EngineLost, EngineProcess
from fastness.brokered import Calls
from fastness.errors import BackendError, ConfigurationError, StagingError
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
        self._ended = False
        self._lost = False
        self._busy = False

    async def execute(self, request: RunRequest, staged: Staged, sink: Sink | None) -> Report:
        """Run once more in the same guest; the first makes it."""
        if self._ended:
            raise BackendError("executing in a session", "the session is closed", "open a new one")
        if self._busy:
            raise ConfigurationError("session", "busy with another execute", "one execute at a time")
        if self._lost:
            return Report(
                outcome=Outcome(OutcomeKind.CRASHED, "an earlier run lost the session's state; open a new session"),
                state="lost",
            )
        engine = self._engine
        invoke = engine.next_id()
        self._backend._running[engine] = invoke
        operation = "execute" if self._opened else "open"
        self._lost = self._busy = True
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
            self._busy = False
            self._backend._running.pop(engine, None)

    async def aclose(self) -> None:
        """End the engine, and what its guest has called."""
        if not self._ended:
            self._ended = True
            self._backend._sessions.discard(self)
            # The engine has held this session's secrets; ending it is the simplest way to be sure of all of them.
            self._pool.release(self._engine, False)
            await close_calls(self._calls, self._backend._waiting)

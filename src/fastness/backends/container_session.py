"""
A session of the tier ``container``: one container that keeps its guest's variables, imports and files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastness.backends.base import BackendSession, Report, Sink, Staged
from fastness.backends.calling import close_calls
from fastness.backends.container_box import ContainerBox
from fastness.backends.native_talk import Talk
from fastness.backends.session_turn import CLOSED, Turn
from fastness.backends.telling import CallbackRaised
from fastness.brokered import Calls
from fastness.runs import Outcome, OutcomeKind, RunRequest

if TYPE_CHECKING:
    from fastness.backends.container import ContainerBackend


class ContainerSession(BackendSession):
    """A container that nothing else uses, for several executes."""

    def __init__(self, backend: ContainerBackend, box: ContainerBox, calls: Calls | None) -> None:
        self._backend = backend
        self._calls = calls
        self._box = box
        self._turn = Turn()
        self._talk: Talk | None = None
        self._lost = False

    async def execute(self, request: RunRequest, staged: Staged, sink: Sink | None) -> Report:
        """Run once more in the same container."""
        cancels = self._backend.cancels
        self._turn.take()
        try:
            if self._lost:
                detail = "an earlier run lost the session's state; open a new session"
                return Report(outcome=Outcome(OutcomeKind.CRASHED, detail), state="lost")
            talk = self._talk = Talk(self._box, request, sink, self._calls)
            if self._turn.closed:
                talk.end(OutcomeKind.CANCELLED, CLOSED)
            self._lost = True
            report = await self._backend.talk(talk, staged, 1, cancels=cancels)
            self._lost = report.state != "kept"
            return report
        except CallbackRaised as raised:
            raise raised.error from None
        finally:
            self._talk = None
            if self._turn.leave():
                self._backend.done(self._box)

    @property
    def alive(self) -> bool:
        """Whether the guest is not known to be over."""
        return not self._lost and self._box.alive

    async def aclose(self) -> None:
        """End the container; an execute that is under way ends as cancelled, and gives it back.  Idempotent."""
        if self._turn.close():
            self._backend.done(self._box)
        elif (talk := self._talk) is not None:
            talk.end(OutcomeKind.CANCELLED, CLOSED)
        await close_calls(self._calls, self._backend._waiting)

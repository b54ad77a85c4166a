"""
A session of a native tier: one guest that keeps its variables, imports and files over several executes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastness.backends.base import BackendSession, Report, Sink, Staged
from fastness.backends.box import BoxLost
from fastness.backends.native_family import Family, Guest
from fastness.backends.native_talk import CallbackRaised, Talk
from fastness.errors import BackendError, ConfigurationError
from fastness.runs import Outcome, OutcomeKind, RunRequest

if TYPE_CHECKING:
    from fastness.backends.native import NativeBackend


class NativeSession(BackendSession):
    """A guest that nothing else uses, for several executes."""

    def __init__(self, backend: NativeBackend, family: Family, guest: Guest) -> None:
        self._backend = backend
        self._family = family
        self._guest = guest
        self._ended = False
        self._lost = False
        self._busy = False

    async def execute(self, request: RunRequest, staged: Staged, sink: Sink | None) -> Report:
        """Run once more in the same guest."""
        if self._ended:
            raise BackendError("executing in a session", "the session is closed", "open a new one")
        if self._busy:
            raise ConfigurationError("session", "busy with another execute", "one execute at a time")
        if self._lost:
            return Report(
                outcome=Outcome(OutcomeKind.CRASHED, "an earlier run lost the session's state; open a new session"),
                state="lost",
            )
        backend, guest = self._backend, self._guest
        self._busy = True
        try:
            await backend.fill(guest, staged)
            self._lost = True
            talk = Talk(guest.box, request, sink)
            report = await backend.talk(guest, talk, request, staged, "execute", 1, 0.0)
            self._lost = report.state != "kept"
            return report
        except CallbackRaised as raised:
            raise raised.error from None
        except BoxLost as lost:
            return Report(outcome=Outcome(OutcomeKind.CRASHED, str(lost)), state="lost")
        finally:
            self._busy = False

    async def aclose(self) -> None:
        """End the guest.  Idempotent."""
        if not self._ended:
            self._ended = True
            self._backend.done(self._family, self._guest)

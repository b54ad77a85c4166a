"""
A session of a native tier: one guest that keeps its variables, imports and files over several executes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from fastness.backends.base import BackendSession, Report, Sink, Staged
from fastness.backends.box import BoxLost
from fastness.backends.calling import close_calls
from fastness.backends.native_family import Family
from fastness.backends.native_guest import Guest
from fastness.backends.native_talk import Talk
from fastness.backends.session_turn import CLOSED, Turn
from fastness.backends.telling import CallbackRaised
from fastness.brokered import Calls
from fastness.errors import StagingError
from fastness.runner.entries import Entry
from fastness.runner.staging import DOES_NOT_FIT
from fastness.runs import Denial, Outcome, OutcomeKind, RunRequest

if TYPE_CHECKING:
    from fastness.backends.native import NativeBackend


_LOST = "an earlier run lost the session's state"


class NativeSession(BackendSession):
    """A guest that nothing else uses, for several executes."""

    def __init__(
        self, backend: NativeBackend, family: Family, guest: Guest, request: RunRequest, calls: Calls | None
    ) -> None:
        self._backend = backend
        self._calls = calls
        self._family = family
        self._guest = guest
        self._turn = Turn()
        self._talk: Talk | None = None
        self._lost = ""
        self._kind = OutcomeKind.CRASHED
        #: Seconds of processor time that the guest may use between two executes, and what it had used after the last.
        self._idle_s = request.limits.cpu_s
        self._used = 0.0
        #: The work folder as the last execute left it, which the next one's changes are told against.
        self._before: dict[str, Any] = {}
        self._refused: dict[tuple[str, str], int] = {}
        backend.mind(self._look)

    async def execute(self, request: RunRequest, staged: Staged, sink: Sink | None) -> Report:
        """Run once more in the same guest."""
        cancels = self._backend.cancels
        self._turn.take()
        try:
            return await self._execute(request, staged, sink, cancels)
        except CallbackRaised as raised:
            raise raised.error from None
        except BoxLost as lost:
            return Report(outcome=Outcome(OutcomeKind.CRASHED, str(lost)), state="lost")
        finally:
            self._talk = None
            self._used, self._idle_s = self._guest.box.cpu_s(), request.limits.cpu_s
            if self._turn.leave():
                self._give_back()

    async def _execute(self, request: RunRequest, staged: Staged, sink: Sink | None, cancels: int) -> Report:
        if self._lost:
            return Report(outcome=Outcome(self._kind, f"{self._lost}; open a new session"), state="lost")
        backend, guest = self._backend, self._guest
        self._check_room(request, staged)
        talk = self._talk = Talk(guest.box, request, sink, self._calls)
        if self._turn.closed:
            talk.end(OutcomeKind.CANCELLED, CLOSED)
        await backend.fill(guest, staged)
        self._before |= staged.files
        self._lost = _LOST
        before = Staged(files=self._before)
        report = await backend.talk(guest, talk, request, before, "execute", 1, cancels=cancels)
        self._lost = "" if report.state == "kept" else _LOST
        self._note(report)
        return msgspec.structs.replace(report, denials=self._new(report.denials))

    def _look(self) -> None:
        """What runs on between two executes is under the limit of one: nobody else looks at it meanwhile."""
        self._turn.idly(self._look_at_time)

    def _look_at_time(self) -> None:
        if not self._lost and self._guest.box.cpu_s() - self._used >= self._idle_s:
            self._lost, self._kind = "what ran on between two runs used up its processor time", OutcomeKind.CPU
            self._guest.box.kill()

    def _check_room(self, request: RunRequest, staged: Staged) -> None:
        """
        Raise StagingError where the new files, with what the last execute left, are more than there may be.

        The tree of ``confined`` is a folder of the host's, whose file system does not know of these limits.
        """
        if not staged.files:
            return
        there = self._before | staged.files
        size = sum(len(content) for content in there.values() if isinstance(content, bytes))
        limits = request.limits
        if size > limits.file_bytes or len(there) > limits.files:
            why = f"with what is there it would be {len(there)} files of {size} bytes, and {limits.files} of"
            raise StagingError(next(iter(staged.files)), f"{why} {limits.file_bytes} may be", DOES_NOT_FIT)

    def _new(self, denials: tuple[Denial, ...]) -> tuple[Denial, ...]:
        """Refused system calls are counted over the guest's life: what has come since the last execute."""
        rows = []
        for row in denials:
            if row.layer == "seccomp":
                key = row.operation, row.target
                before, self._refused[key] = self._refused.get(key, 0), row.count
                if row.count == before:
                    continue
                rows.append(msgspec.structs.replace(row, count=row.count - before))
            else:
                rows.append(row)
        return tuple(rows)

    def _note(self, report: Report) -> None:
        for path in report.changes.deleted:
            self._before.pop(path, None)
        for path, target in report.changes.links.items():
            self._before[path] = Entry(kind="link", target=target)
        for path, file in report.files.items():
            self._before[path] = file.read()

    @property
    def alive(self) -> bool:
        """Whether the guest's process runs."""
        return not self._turn.closed and self._guest.box.alive

    async def aclose(self) -> None:
        """End the guest; an execute that is under way ends as cancelled, and gives the guest back.  Idempotent."""
        if self._turn.close():
            self._give_back()
        elif (talk := self._talk) is not None:
            talk.end(OutcomeKind.CANCELLED, CLOSED)
        await close_calls(self._calls, self._backend._waiting)

    def _give_back(self) -> None:
        self._backend.let_be(self._look)
        self._backend.done(self._family, self._guest)

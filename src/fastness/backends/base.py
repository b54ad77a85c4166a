"""
What a backend is: the mechanism that keeps a tier's promise on this host.

One file per backend.  A backend runs what it is handed; it neither grants nor falls back, and it serves a tier only
where its probe has proved every guarantee by making it deny something.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import msgspec

from fastness.brokered import Calls
from fastness.runs import Changes, Denial, Files, Outcome, RunRequest, Usage
from fastness.tier import Probe, Tier

#: Called with ("stdout" | "stderr", bytes) as output comes, and with other names and plain data for progress.
Sink = Callable[[str, Any], None]


class Staged(msgspec.Struct, frozen=True):
    """
    What a guest finds in its work folder, read and checked before anything runs.

    ``files``: path below it to content.  ``project``: of a command's run, the ``runner.project.Project`` to copy in.
    """

    files: dict[str, bytes] = {}
    project: Any = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """
    What came of a run, as a backend tells it; the runner makes a ``RunResult`` of it.

    ``lacks``: guarantees of the tier that this run was asked to go without.
    ``collected``: of a run on a project, the ``runner.collect.Collected`` that the result can be applied from.
    """

    outcome: Outcome
    value: Any = None
    value_repr: str | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = None
    files: Files = msgspec.field(default_factory=Files)
    changes: Changes = Changes()
    denials: tuple[Denial, ...] = ()
    usage: Usage = Usage()
    layers: dict[str, str] = {}
    lacks: tuple[str, ...] = ()
    state: str = "none"
    collected: Any = None


class BackendSession(abc.ABC):
    """A guest that keeps its state over several runs.  One run at a time."""

    @abc.abstractmethod
    async def execute(self, request: RunRequest, staged: Staged, sink: Sink | None) -> Report:
        """Run once more in the same guest."""

    @property
    def alive(self) -> bool:
        """Whether the guest's process runs, as far as is known without waiting."""
        return True

    @abc.abstractmethod
    async def aclose(self) -> None:
        """End the guest.  Idempotent; safe under cancellation."""


class Backend(abc.ABC):
    """One mechanism.  Instances belong to one sandbox and hold its warm guests."""

    #: Name of the mechanism, as results show it.
    name: str
    #: The tier it serves.
    tier: Tier
    #: The runtimes it can run.
    runtimes: frozenset[str]
    #: Whether there is any isolation at all.
    sandboxed: bool = True

    @abc.abstractmethod
    async def probe(self, *, afresh: bool = False) -> Probe:
        """
        Find out by trying what holds here.  Bounded in time; cached by the caller.

        A backend may keep a verdict that cannot have changed; with ``afresh`` it tries again all the same.
        """

    @abc.abstractmethod
    async def run(self, request: RunRequest, staged: Staged, sink: Sink | None, calls: Calls | None = None) -> Report:
        """
        Run one request in a clean guest.

        With ``calls`` the guest finds a ctx with what they grant; they are closed when this returns or raises.
        What the guest did is in the report.  Raises ``BackendError`` for what the host could not do.
        """

    @abc.abstractmethod
    async def open_session(self, request: RunRequest, calls: Calls | None = None) -> BackendSession:
        """
        Take a guest that keeps its state.

        ``calls`` are of the whole session: closed with it, or when this raises.
        """

    @abc.abstractmethod
    async def aclose(self) -> None:
        """End every guest.  Idempotent; safe under cancellation."""

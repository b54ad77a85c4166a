"""
What the audit trail says of plugins themselves: installs, grants, revocations, tiers, invocations and misbehaviour.

What gives power is recorded, and on disk, before it is given.  What takes power away is done first: a trail that cannot
be written must not keep a plugin alive.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from functools import partial

from fastness import owed
from fastness.audit import reading
from fastness.audit.log import AuditLog
from fastness.errors import BackendError, FastnessError
from fastness.plugins.shown import InFlight
from fastness.runner.trail import open_trail

__all__ = ["Events"]

#: The capability that rows about plugins themselves are of.
_CAPABILITY = "plugin"


class Events:
    """Rows about plugins in the trail of this home.  Methods raise BackendError where nothing can be recorded."""

    def __init__(self) -> None:
        self._trail: AuditLog | None = None

    @property
    def trail(self) -> AuditLog:
        """The trail; it is opened at its first record."""
        if self._trail is None:
            # Looking for it anew each time would look at every folder above it.
            self._trail = open_trail()
        return self._trail

    @contextlib.contextmanager
    def before(self, op: str, plugin: str, *, owner: str = "", target: str = "") -> Iterator[None]:
        """Recorded before the block, which gives power; and once more, as failed, and why, where the block raises."""
        owed.settle()
        event = partial(self.trail.event, op=op, capability=_CAPABILITY, plugin=plugin, owner=owner, sync=True)
        event(target=target)
        try:
            yield
        except BaseException as error:
            # What the error of a stranger's class says is not looked at.
            why = str(error) if isinstance(error, FastnessError) else type(error).__name__
            with contextlib.suppress(BackendError):
                event(code="failed", target=why)
            raise

    def after(self, op: str, plugin: str, *, owner: str = "", target: str = "") -> None:
        """
        Recorded after what takes power away.

        Where that fails BackendError says that it is done, and it is recorded before the next record of this process.
        """
        owed.settle()
        try:
            self.trail.event(
                op=op, capability=_CAPABILITY, plugin=plugin, owner=owner, target=target, sync=True, keep=True
            )
        except BackendError as error:
            cause = f"{op} of {plugin} is done, and will be recorded with what this process records next: {error.cause}"
            raise BackendError(error.step, cause, error.hint) from error

    def settle(self) -> None:
        """Record what could not be recorded when it was done, where that can be by now."""
        if self._trail is not None:
            self._trail.settle()

    def invoked(self, plugin: str, owner: str, method: str, run: str) -> None:
        """A method is about to be called, in the run of this id."""
        self.trail.event(op="invoke", capability=_CAPABILITY, plugin=plugin, owner=owner, target=method, run=run)

    def sent(self, owner: str, topic: str) -> None:
        """The program sends a signal of its own."""
        self.trail.event(op="publish", capability="signals", owner=owner, target=topic)

    def led(self, plugin: str, owner: str, topic: str, sender: str, hop: int, run: str) -> None:
        """A signal is about to lead to the run of this id."""
        target = f"{topic} from {sender or 'the program'}, hop {hop}"
        self.trail.event(op="deliver", capability="signals", plugin=plugin, owner=owner, target=target, run=run)

    def unheard(self, plugin: str, owner: str, topic: str, code: str) -> None:
        """Signals were dropped, as their plugin may not be called or did not run; that is so without a record too."""
        with contextlib.suppress(BackendError):
            self.trail.event(
                op="deliver", capability="signals", plugin=plugin, owner=owner, target=topic,
                decision="refused", code=code,
            )  # fmt: skip

    def ended(self, plugin: str, owner: str, method: str, run: str, how: str) -> None:
        """
        How the call of a method ended, in a word: that of its outcome, or ``failed`` where it came to none.

        It has happened: where it cannot be recorded, a warning says so.
        """
        try:
            self.trail.event(
                op="end", capability=_CAPABILITY, plugin=plugin, owner=owner, target=method, run=run, code=how
            )
        except BackendError as error:
            logging.getLogger("fastness").warning("the end of a call of %s was not recorded: %s", plugin, error)

    def fired(self, plugin: str, owner: str, target: str) -> None:
        """What was scheduled is about to be called.  What cannot be recorded is not."""
        self.trail.event(op="fire", capability=_CAPABILITY, plugin=plugin, owner=owner, target=target)

    def refused(self, op: str, plugin: str, owner: str, target: str, code: str, *, run: str = "") -> None:
        """Something was not let through, or should not have been tried.  What is refused is refused without it too."""
        with contextlib.suppress(BackendError):
            self.trail.event(
                op=op, capability=_CAPABILITY, plugin=plugin, owner=owner, target=target, run=run,
                decision="refused", code=code,
            )  # fmt: skip

    def in_flight(self, plugin: str, owner: str | None, before: float) -> tuple[InFlight, ...]:
        """Calls of any process that were announced before this time, in seconds since 1970, and have no outcome."""
        return tuple(
            InFlight(
                run=row.run,
                owner=row.owner,
                capability=row.capability,
                operation=row.op,
                target=row.target,
                at=row.at,
            )
            for row in reading.waiting(self.trail.path, plugin, owner)
            if row.at <= before
        )

"""
What the host of a guest sees of the broker: a place to hand a guest's calls to, and to fetch answers from.

A backend cannot grant and a broker cannot spawn; this is all that they know of each other.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from fastness.runs import Denial

__all__ = ["Answer", "Calls", "Granted", "TooManyCalls"]


class TooManyCalls(Exception):
    """A guest has made more calls than its run may: the run ends as ``call_limit``."""


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """
    An operation that a run's guest finds in its ctx.

    ``parameters`` are names, each with whether it may be left out; ``signature`` and ``summary`` are for whoever reads
    the guest's documentation.
    """

    capability: str
    operation: str
    parameters: tuple[tuple[str, bool], ...] = ()
    signature: str = ""
    summary: str = ""


class Answer(msgspec.Struct, frozen=True):
    """
    The answer to a call: ``value`` is plain data as :mod:`fastness.wire.values` encodes it.

    Where ``code`` is not empty it is a refusal or a failure, and ``message`` a text fit for the guest.
    """

    id: int
    value: bytes = b""
    code: str = ""
    message: str = ""


class Calls(Protocol):
    """The brokered calls of one run."""

    @property
    def granted(self) -> tuple[Granted, ...]:
        """What the guest's ctx has; what is not here is absent there."""
        ...

    def submit(self, id: int, capability: str, operation: str, arguments: bytes) -> None:
        """Take a call; never waits.  ``id`` rises.  Raises TooManyCalls."""
        ...

    def ask(self, id: int, capability: str, operation: str, arguments: bytes) -> Answer | None:
        """As ``submit``; where the answer is there at once it is returned, and does not come with the others."""
        ...

    def drop(self, id: int) -> None:
        """The guest has no more use for this call's answer: it is cancelled where it can be."""
        ...

    def fileno(self) -> int:
        """Readable while there are answers to fetch."""
        ...

    def answers(self) -> list[Answer]:
        """Answers since the last time, in the order of their coming; empty where there are none."""
        ...

    def denials(self) -> tuple[tuple[Denial, ...], int]:
        """Refusals so far, equal ones merged, and how many did not fit."""
        ...

    def close(self) -> None:
        """The run has ended: cancel what is in flight, and wait until nothing of it goes on.  Idempotent."""
        ...

"""
Between the words of guests and the types of the host: what is offered, and what was asked.
"""

from __future__ import annotations

import functools
import math
import time

import msgspec

from fastness.broker.gate import Allowed, arguments_of
from fastness.broker.trail import Intent
from fastness.brokered import Granted
from fastness.capability import CallContext, Opened, Operation
from fastness.errors import GuestProtocolError
from fastness.limits import Limits
from fastness.wire import values

__all__ = ["TEXT_MAX", "Asker", "Invalid", "described"]

#: Characters of a target that are recorded, and of a text that a guest is told.
TEXT_MAX = 500


# Looking at a type's fields takes longer than a small run does, and operations are frozen data.
@functools.lru_cache(1024)
def described(kind: str, operation: Operation) -> Granted:
    """An operation as a guest finds it in its ctx."""
    fields = msgspec.structs.fields(operation.arguments)
    return Granted(
        capability=kind,
        operation=operation.name,
        parameters=tuple((field.name, not field.required) for field in fields),
        signature=operation.signature,
        summary=operation.documentation or operation.summary,
    )


class Invalid(Exception):
    """What a guest sent are no arguments of this operation; the message is fit for the guest."""


class Asker:
    """
    On whose behalf the calls of one run are made, as the host knows it.

    Each has until ``deadline``, a ``time.monotonic()``, or where that is None for ``seconds`` from the first call on.
    """

    def __init__(
        self, run: str, plugin: str, owner: str, limits: Limits, deadline: float | None, seconds: float
    ) -> None:
        self.run = run
        self.plugin = plugin
        self.owner = owner
        self._limits = limits
        self._deadline = math.inf if deadline is None else deadline
        self._seconds = seconds if deadline is None else 0.0
        self._spent: dict[str, int] = {}
        #: What calls have left open, by the adapter's numbers.
        self.opened: dict[int, Opened] = {}

    def intent(self, capability: str, operation: str, target: str = "", leaves: bool = False) -> Intent:
        """What is recorded of a call."""
        return Intent(
            run=self.run,
            plugin=self.plugin,
            owner=self.owner,
            capability=capability,
            operation=operation,
            target=target,
            leaves=leaves,
        )

    def understood(
        self, decided: Allowed, capability: str, operation: str, arguments: bytes
    ) -> tuple[msgspec.Struct, Intent]:
        """
        What a guest sent, as the operation's own type, and what is recorded of it.

        Raises Invalid.
        """
        try:
            plain = values.decode(arguments) if arguments else {}
            given = arguments_of(decided.operation, plain)
        except GuestProtocolError as error:
            raise Invalid(f"the arguments cannot be read: {error}") from error
        except msgspec.ValidationError as error:
            raise Invalid(str(error)) from error
        target = decided.operation.target(given)[:TEXT_MAX]
        return given, self.intent(capability, operation, target, decided.operation.leaves)

    def context(self, decided: Allowed) -> CallContext:
        """What an adapter is told of a call."""
        seconds = self._seconds
        if seconds:
            # Two threads that make a first call each come to much the same.
            self._deadline = time.monotonic() + seconds
            self._seconds = 0.0
        return CallContext(
            plugin=self.plugin,
            owner=self.owner,
            run=self.run,
            scope=decided.scope,
            deadline=self._deadline,
            spent=self._spent,
            limits=self._limits,
            opened=self.opened,
        )

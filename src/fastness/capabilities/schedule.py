"""
The capability ``schedule``: have a method of one's own called later, once or again and again.

Whose it is comes from the host alone, and so does what it may do then: a schedule keeps a method and its arguments, and
no policy.  Whoever fires it (:mod:`fastness.plugins.timer`) calls the plugin as anybody would at that moment.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Annotated, Any

import msgspec

from fastness.capabilities._forged import FORGED, without_forged
from fastness.capabilities._schedule_store import Scheduled, Store
from fastness.capabilities._schedule_times import instant, micros, shown
from fastness.capabilities._threads import Stop, Stopped, whole
from fastness.capability import CallContext, Operation, Scope, Spec
from fastness.database import busy, full
from fastness.errors import AdapterError, BackendError, CapabilityError, Denied
from fastness.runs import DenialCode
from fastness.wire import values

__all__ = ["ARGS_BYTES", "GRACE_S", "SPEC", "Schedule", "ScheduleScope"]

#: Seconds by which what is called once may be late, as no host was there to call it; later than that it is missed.
GRACE_S = 3600.0
#: Bytes of the arguments of one, as they are kept.
ARGS_BYTES = 16 << 10
_DAY_S = 86_400.0
_AHEAD_S = 3660 * _DAY_S
_MOST = 10_000
_MOST_LISTED = 100
_MOST_ARGS = 256
_NUMBER_MAX = 1 << 53

_Method = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
_When = Annotated[str, msgspec.Meta(max_length=100)] | float
_Number = Annotated[int, msgspec.Meta(ge=1, le=_NUMBER_MAX)]


class ScheduleScope(Scope, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="schedule"):
    """
    How much a plugin may schedule for an owner: ``standing`` at once, by default nothing.

    ``interval_s`` is the least time in seconds between two calls of one, and how long one that was called once still
    counts: so no more than ``standing`` are called in it.  ``ahead_s`` is how far ahead a time may be, in seconds.
    """

    standing: Annotated[int, msgspec.Meta(ge=0, le=_MOST)] = 0
    interval_s: Annotated[float, msgspec.Meta(ge=1, le=_AHEAD_S)] = 60.0
    ahead_s: Annotated[float, msgspec.Meta(ge=1, le=_AHEAD_S)] = 31 * _DAY_S


class At(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``at``: seconds since 1970, or a text of ISO 8601 with its offset from UTC."""

    when: _When
    method: _Method
    args: dict[str, Any] = {}


class Every(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``every``: ``first`` is as ``when`` of ``at``, and without it the first time is a step ahead."""

    seconds: float
    method: _Method
    args: dict[str, Any] = {}
    first: _When | None = None


class Which(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``cancel``."""

    id: _Number


class Listing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``list``: those with numbers above ``after``."""

    after: Annotated[int, msgspec.Meta(ge=0, le=_NUMBER_MAX)] = 0


def _meet(asked: ScheduleScope, allowed: ScheduleScope) -> ScheduleScope | None:
    standing = min(asked.standing, allowed.standing)
    if not standing:
        return None
    return ScheduleScope(
        standing=standing,
        interval_s=max(asked.interval_s, allowed.interval_s),
        ahead_s=min(asked.ahead_s, allowed.ahead_s),
    )


def _exceeds(asked: ScheduleScope, allowed: ScheduleScope) -> list[str]:
    if not asked.standing:
        return []
    found = []
    if asked.standing > allowed.standing:
        found.append(f"have up to {asked.standing} calls of itself scheduled for each owner")
    if asked.interval_s < allowed.interval_s:
        found.append(f"be called every {_span(asked.interval_s)}")
    if asked.ahead_s > allowed.ahead_s:
        found.append(f"be called up to {_span(asked.ahead_s)} from when it asks")
    return found


def _risk(scope: ScheduleScope) -> str:
    if not scope.standing:
        return "It can schedule nothing."
    times = "once" if scope.standing == 1 else f"up to {scope.standing} times"
    return (
        f"It is called again when nobody asks for it: {times} in {_span(scope.interval_s)}, up to "
        f"{_span(scope.ahead_s)} ahead, for as long as you allow it; and then does whatever else you allow it."
    )


def _span(seconds: float) -> str:
    """A length of time, in the largest unit that it is whole in."""
    for size, name in ((_DAY_S, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {name}{'' if seconds == size else 's'}"
    return f"{seconds:g} second{'' if seconds == 1 else 's'}"


def _learn(calls: Sequence[tuple[str, Any]]) -> ScheduleScope:
    steps, ahead, standing, now = [], [1.0], 0, micros(time.time())
    for _, given in calls:
        if not isinstance(given, (At, Every)):
            continue
        standing += 1
        when = given.when if isinstance(given, At) else given.first
        if isinstance(given, Every) and 1 <= given.seconds <= _AHEAD_S:
            steps.append(given.seconds)
            if when is None:
                ahead.append(given.seconds)
        if when is not None:
            # Time has passed since it was asked for: up to the next whole minute.
            with contextlib.suppress(CapabilityError):
                ahead.append(math.ceil((instant(when, now, _AHEAD_S) - now) / 60e6) * 60.0)
    least = {"interval_s": min(steps)} if steps else {}
    return ScheduleScope(standing=min(max(1, standing), _MOST), ahead_s=min(max(ahead), _AHEAD_S), **least)


SPEC = Spec(
    kind="schedule",
    scope=ScheduleScope,
    operations=(
        Operation(
            name="at",
            arguments=At,
            target=lambda a: f"{a.method} at {shown(a.when)}",
            summary="Have a method called once at a time; gives its number.",
        ),
        Operation(
            name="every",
            arguments=Every,
            target=lambda a: f"{a.method} every {a.seconds:g} s",
            summary="Have a method called again and again, so many seconds apart; gives its number.",
        ),
        Operation(
            name="cancel",
            arguments=Which,
            target=lambda a: str(a.id),
            summary="Take one off the schedule; False where there is none.",
        ),
        Operation(
            name="list",
            arguments=Listing,
            target=lambda a: "",
            summary=f"What stands, {_MOST_LISTED} at most: a dict with schedules and more.",
        ),
    ),
    meet=_meet,
    exceeds=_exceeds,
    risk=_risk,
    learn=_learn,
    enforced=(
        "A plugin schedules methods of its own manifest, for the owner that it runs for, who is named by the host.",
        "What it may do when it is called is decided then, by the policy of that moment; none is kept with a schedule.",
        "A plugin that may not be called then, or not schedule any more, is not called, and that is on record.",
        f"Fields {', '.join(sorted(FORGED))} are dropped from its arguments at every depth, and counted on record.",
        "How many may stand holds for all processes and runs together, and bounds how many are called in an interval.",
        "Times are instants: a number, or a text with its offset from UTC; a local time without one is refused.",
        "What is due is claimed in one transaction before it is called, so that of several hosts one calls it.",
        "What a killed host had claimed is not called again, since nobody knows how far it came; that is on record.",
        f"What is called once is called up to {_span(GRACE_S)} late; later than that it is missed, which is on record.",
        "What is called every so often is called once for all times that were missed, and goes on in step.",
    ),
)

_OPERATIONS = frozenset(one.name for one in SPEC.operations)


class Schedule:
    """
    The adapter of ``schedule``, in the database file ``path``; its folder exists and is private to this user.

    ``methods`` gives the methods of a plugin's manifest; it may raise AdapterError.  Several adapters and processes may
    share a file.  It calls nobody: see :class:`fastness.plugins.timer.Timer`.
    """

    spec = SPEC

    def __init__(
        self, path: str, methods: Callable[[str], Collection[str]], *, clock: Callable[[], float] = time.time
    ) -> None:
        self.store = Store(path)
        self._methods = methods
        self._clock = clock
        #: Called after each change, in any thread.
        self.changed: list[Callable[[], object]] = []

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Do it.  Raises Denied, QuotaExceeded and AdapterError."""
        scope: ScheduleScope = context.scope
        if operation not in _OPERATIONS:
            raise Denied(DenialCode.UNSUPPORTED, operation)
        if not scope.standing:
            raise Denied(DenialCode.NOT_GRANTED, "")
        args = b"" if operation in ("cancel", "list") else _encoded(arguments.args, context)
        try:
            # In a thread: another process may have to be waited for.
            return await whole(lambda stop: self._do(operation, arguments, args, context, stop))
        except (sqlite3.Error, BackendError, OSError) as error:
            raise _failed(error) from error

    def _do(self, operation: str, given: Any, args: bytes, context: CallContext, stop: Stop) -> Any:
        def halt() -> None:
            if stop:
                raise Stopped

        whose, now = (context.plugin, context.owner), micros(self._clock())
        if operation == "list":
            found, more = self.store.those(whose, given.after, _MOST_LISTED)
            return {"schedules": [_told(one) for one in found], "more": more}
        if operation == "cancel":
            made: int | bool = self.store.cancel(whose, given.id, now, halt)
        else:
            made = self._add(operation, given, args, context, now, halt)
        for tell in list(self.changed):
            tell()
        return made

    def _add(
        self, operation: str, given: Any, args: bytes, context: CallContext, now: int, halt: Callable[[], None]
    ) -> int:
        scope: ScheduleScope = context.scope
        if given.method not in self._methods(context.plugin):
            raise Denied(DenialCode.ABSENT, given.method)
        every, stepping = 0, False
        if operation == "every":
            # In this form, so that what is no number is refused too.
            if not given.seconds >= scope.interval_s:
                raise Denied(DenialCode.RATE, f"every {given.seconds:g} s; {scope.interval_s:g} s at least")
            if given.seconds > scope.ahead_s:
                raise Denied(DenialCode.OUTSIDE, f"every {given.seconds:g} s")
            every, stepping = micros(given.seconds), given.first is None
        when = given.when if operation == "at" else given.first
        due = now + every if when is None else instant(when, now, scope.ahead_s)
        return self.store.add(
            (context.plugin, context.owner),
            given.method,
            args,
            due=due,
            every=every,
            stepping=stepping,
            most=scope.standing,
            now=now,
            halt=halt,
        )

    async def aclose(self) -> None:
        """Close the database; another call opens it again."""
        self.store.close()

    async def forget(self, plugin: str) -> None:
        """Take off all that a plugin scheduled, for every owner.  Raises AdapterError where it cannot be."""
        try:
            await whole(lambda _: self.store.forget(plugin))
        except (sqlite3.Error, BackendError, OSError) as error:
            raise _failed(error) from error

    # of the operator

    def standing(self, plugin: str | None = None, owner: str | None = None) -> Iterator[Scheduled]:
        """What stands, of all or of one plugin or owner.  Blocks.  Raises AdapterError."""
        try:
            yield from self.store.standing(plugin, owner)
        except (sqlite3.Error, BackendError, OSError) as error:
            raise _failed(error) from error

    def cancel(self, plugin: str, owner: str, number: int) -> bool:
        """Take one off, whoever asks; False where there is none.  Blocks.  Raises AdapterError."""
        try:
            return self.store.cancel((plugin, owner), number, micros(self._clock()))
        except (sqlite3.Error, BackendError, OSError) as error:
            raise _failed(error) from error


def _failed(error: BaseException) -> AdapterError:
    """Words that name no path."""
    if busy(error):
        return AdapterError("the schedule is in use; try again")
    return AdapterError("there is no room to keep this" if full(error) else "the schedule cannot be used")


def _encoded(given: dict[str, Any], context: CallContext) -> bytes:
    args, context.dropped = without_forged(given)
    if len(args) > _MOST_ARGS or not all(name.isidentifier() for name in args):
        raise AdapterError(f"args are {_MOST_ARGS} at most, each under the name of a parameter")
    try:
        found = values.encode(args, ARGS_BYTES)
    except values.NotPlain as error:
        if error.type_name.startswith(("too many bytes", "more than")):
            raise Denied(DenialCode.TOO_LARGE, "args") from None
        raise AdapterError(f"args are not plain data at {error.path}: {error.type_name}") from None
    context.bytes_out = len(found)
    return found


def _told(one: Scheduled) -> dict[str, Any]:
    return {"id": one.id, "method": one.method, "due": one.due, "every": one.every, "fired": one.fired}

"""
What a plugin host does with what plugins scheduled: shows it, takes it off, and where it is asked to, calls it in time.

What is due is called as anybody would call it at that moment: nothing is left of what stood when it was scheduled but
a method's name and its arguments.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from fastness._wasi import home
from fastness.capabilities._schedule_store import Due, Scheduled
from fastness.capabilities._schedule_times import micros, shown
from fastness.errors import (
    BackendError,
    ConfigurationError,
    FastnessError,
    GrantError,
    PackageChanged,
    PolicyError,
    QuotaExceeded,
)
from fastness.grant import check_owner
from fastness.plugins.core import Core
from fastness.plugins.states import State
from fastness.runner.runner import Runner
from fastness.runs import DenialCode, RunResult
from fastness.waiting import ThreadWaiting, Waiting, drive
from fastness.wire import values

if TYPE_CHECKING:
    from fastness.plugins.host import AsyncPluginHost
    from fastness.plugins.timer import Timer

__all__ = ["Fired", "OnFired", "Scheduling"]

_KIND = "schedule"


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """
    What came of a call that was due.

    ``due`` is when, in seconds since 1970, and ``at`` when it was called or given up.  ``result`` is that of the run,
    None where nothing ran; then ``code`` says why, as the audit trail does: ``missed``, ``killed``, ``not_granted``,
    ``rate``, ``quota`` and the like.
    """

    plugin: str
    owner: str
    id: int
    method: str
    due: float
    at: float
    code: str = ""
    result: RunResult | None = None


OnFired = Callable[[Fired], object]


class Scheduling:
    """A part of :class:`fastness.plugins.host.AsyncPluginHost`."""

    _core: Core
    _waiting: Waiting
    _on_fired: OnFired | None = None
    _firing: _Firing | None = None

    def schedules(self, *, plugin: str | None = None, owner: str | None = None) -> list[Scheduled]:
        """What stands on the schedule, of all or of one plugin or owner, in that order.  Raises AdapterError."""
        return list(self._core.adapters.schedules().standing(plugin, owner))

    async def cancel_schedule(self, plugin: str, id: int, *, owner: str) -> bool:
        """Take off what a plugin scheduled for an owner; False where there is none.  Raises AdapterError."""
        return await self._waiting.call(partial(self._cancel, plugin, id, owner))

    def _cancel(self, plugin: str, id: int, owner: str) -> bool:
        check_owner(owner)
        if type(id) is not int or not 0 < id < 1 << 53:
            raise ConfigurationError("id", id, "the number of one that stands")
        gone = self._core.adapters.schedules().cancel(plugin, owner, id)
        if gone:
            self._core.events.after("unschedule", plugin, owner=owner, target=str(id))
        return gone

    def start_schedule(self) -> None:
        """
        Call what plugins scheduled when it is due, from now on until this host is closed, in threads of its own.

        Any number of hosts, in any number of processes, may do so at once: each call is made by one of them.
        Idempotent.  Raises ConfigurationError where the adapter of ``schedule`` is the caller's own.
        """
        if self._firing is None:
            host: Any = self
            self._firing = _Firing(host, self._on_fired)

    def _stop_schedule(self) -> None:
        if self._firing is not None:
            self._firing.stop()

    def _end_schedule(self) -> None:
        if self._firing is not None:
            self._firing.end()
            self._firing = None


class _Firing:
    """The timer of one host, and what it does with what is due."""

    def __init__(self, host: AsyncPluginHost, on_fired: OnFired | None) -> None:
        from fastness.plugins.timer import Timer

        self._core = host._core
        self._on_fired = on_fired
        self._own = not host._waiting.blocks
        self._host = _blocking(host) if self._own else host
        #: Policies, by plugin and owner, under which no more stand than may.
        self._within: dict[tuple[str, str], str] = {}
        self._schedule = self._core.adapters.schedules()
        self._timer: Timer = Timer(
            self._schedule.store, home.place("data", "schedule-timers"), self._fire, self._not_fired
        )
        self._schedule.changed.append(self._timer.wake)
        self._timer.start()

    def stop(self) -> None:
        """Call nothing more."""
        if self._timer.wake in self._schedule.changed:
            self._schedule.changed.remove(self._timer.wake)
        self._timer.stop()
        if self._own:
            # Whoever waits for a guest gets its end.
            drive(self._host._runner.aclose())

    def end(self) -> None:
        """Wait until nothing is called any more."""
        self.stop()
        self._timer.join()

    # in threads of the timer's

    def _fire(self, due: Due) -> int:
        core = self._core
        target = _target(due)
        code, result, frees, at = "", None, 0, time.time()
        try:
            # Before anything is looked at: what was claimed leaves a record, whatever comes of it.
            core.events.fired(due.plugin, due.owner, target)
            frees, code = self._may(due)
            if not code:
                args = values.decode(due.args)
                result = drive(self._host.invoke(due.plugin, due.method, args, owner=due.owner))
        except FastnessError as error:
            code = self._code(due.plugin, error)
            logging.getLogger("fastness").info("%s was due and not called: %s", due.plugin, error)
        if code:
            core.events.refused("fire", due.plugin, due.owner, target, code)
        self._told(due, at, code, result)
        return frees

    def _may(self, due: Due) -> tuple[int, str]:
        """Until when it counts, and why it may not be called though its plugin may be, or an empty text."""
        _, policy = self._core.may(due.plugin, due.owner, due.method)
        scope: Any = policy.scopes.get(_KIND)
        if scope is None or not scope.standing:
            return 0, DenialCode.NOT_GRANTED.value
        if due.every and due.every < micros(scope.interval_s):
            return 0, DenialCode.RATE.value
        # Of more than may stand, which a smaller grant makes them, those that were there first are called.  Under the
        # same policy they become no more.
        if self._within.get(due.whose) != policy.digest:
            count, now = self._schedule.store.count, micros(time.time())
            if count(due.whose, due.id, scope.standing, now) >= scope.standing:
                return 0, DenialCode.QUOTA.value
            if count(due.whose, 1 << 62, scope.standing + 1, now) <= scope.standing:
                self._within[due.whose] = policy.digest
        return micros(time.time() + scope.interval_s), ""

    def _code(self, plugin: str, error: FastnessError) -> str:
        if isinstance(error, PolicyError):
            return "expired" if error.field == "grant" else "not_permitted"
        if isinstance(error, GrantError):
            return DenialCode.NOT_GRANTED.value
        if isinstance(error, QuotaExceeded):
            return DenialCode.QUOTA.value
        if isinstance(error, PackageChanged):
            return "changed"
        if isinstance(error, ConfigurationError):
            try:
                known = self._core.store.plugin(plugin)
            except BackendError:
                return "failed"
            if known is not None and known.state in (State.DISABLED, State.QUARANTINED):
                return known.state.value
            return DenialCode.ABSENT.value
        return "failed"

    def _not_fired(self, due: Due, why: str) -> None:
        self._core.events.refused("fire", due.plugin, due.owner, _target(due), why)
        self._told(due, time.time(), why, None)

    def _told(self, due: Due, at: float, code: str, result: RunResult | None) -> None:
        if self._on_fired is None:
            return
        fired = Fired(
            plugin=due.plugin,
            owner=due.owner,
            id=due.id,
            method=due.method,
            due=due.due / 1e6,
            at=at,
            code=code,
            result=result,
        )
        try:
            self._on_fired(fired)
        except Exception:
            logging.getLogger("fastness").exception("on_fired failed")


def _blocking(host: AsyncPluginHost) -> AsyncPluginHost:
    """The same host for threads that wait by themselves, with guests of its own."""
    found = copy.copy(host)
    found._waiting = ThreadWaiting()
    found._runner = Runner(found._backend, found._waiting)
    return found


def _target(due: Due) -> str:
    missed = f", {due.times - 1} missed before" if due.times > 1 else ""
    return f"{due.id}: {due.method} of {shown(due.due / 1e6)}{missed}"

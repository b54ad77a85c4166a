"""
The tiers ``confined`` and ``isolated``: fresh guests of the caller's own interpreter, walled in by the kernel.

``isolated`` also runs any program.  Every run has a process of its own, which was born from a zygote with its imports
done; what it may use is decided before it hears of the code, and what it used is read off the kernel afterwards.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from fastness.backends import native_early, native_gaps, native_limits, native_met, native_report, native_work
from fastness.backends.base import Backend, BackendSession, Report, Sink, Staged
from fastness.backends.box import BoxLost
from fastness.backends.calling import close_calls
from fastness.backends.deadlines import left, told, until
from fastness.backends.native_drain import drain
from fastness.backends.native_families import Families
from fastness.backends.native_family import Family
from fastness.backends.native_guest import Guest, Size
from fastness.backends.native_keeper import Keeper
from fastness.backends.native_session import NativeSession
from fastness.backends.native_slots import in_words
from fastness.backends.native_talk import Talk
from fastness.backends.native_watch import Watch
from fastness.backends.sealed_file import sealed_file
from fastness.backends.telling import CallbackRaised
from fastness.brokered import Calls
from fastness.errors import BackendError, ConfigurationError
from fastness.runner.collect import Collected, collect
from fastness.runs import OutcomeKind, RunRequest
from fastness.tier import Probe, Tier
from fastness.waiting import Slots, ThreadWaiting, Waiting

#: Guests of one sandbox at once, where nobody says otherwise.
_DEFAULT_GUESTS = 64
#: Seconds for a guest that was told to end, and for its pipes to run dry.
_END_S = 5.0
_DRAIN_S = 1.0
#: Guests that are tried for one run where they end before they hear of it.
_TRIES = 3


class NativeBackend(Backend):
    """
    Serves one tier.  ``pool`` guests are kept ready for each kind that was asked for; ``guests`` bounds how many there
    are at once.
    """

    name = "zygote"

    def __init__(
        self,
        tier: Tier,
        *,
        waiting: Waiting | None = None,
        guests: int | None = None,
        pool: int | None = None,
        groups: bool = True,
    ) -> None:
        self.tier = tier
        self.runtimes = frozenset({"python", "command"} if tier is Tier.ISOLATED else {"python"})
        self._waiting = waiting or ThreadWaiting()
        self._pool = pool or 0
        #: Whether one guest is made ahead that nobody has asked for.
        self._spare = pool is None
        self._limit = max(guests or _DEFAULT_GUESTS, self._pool)
        self._groups = groups and tier is Tier.ISOLATED
        self._slots: Slots | None = None
        self._keeper = Keeper()
        ready = self._pool or int(self._spare)
        self._families = Families(tier, self._waiting, self._keeper, groups=self._groups, ready=ready)
        self._talks: set[Talk] = set()
        #: How often everything in progress was cancelled.
        self.cancels = 0
        self._closed = False

    async def probe(self, *, afresh: bool = False) -> Probe:
        """Run the proofs of :mod:`fastness.backends.native_probe`, or take them from this boot's record."""
        from fastness.backends import native_probe

        return await native_probe.probe(self, self._waiting, afresh=afresh)

    # guests

    async def family(self, request: RunRequest) -> Family:
        """
        The family that serves a request, kept until :meth:`let_go`.

        Raises BackendError, ConfigurationError, TierUnavailable.
        """
        return await self._families.held(request)

    def let_go(self, family: Family) -> None:
        """The end of what :meth:`family` began."""
        self._families.let_go(family)

    def end_tenant(self, tenant: str) -> None:
        """End the guests of one tenant, none of whose runs is under way, soon."""
        self._families.end_tenant(tenant)

    def key(self, request: RunRequest, *, session: bool = False) -> Size:
        """What is decided at a guest's birth."""
        return native_limits.at_birth(self.tier, request, session=session)

    def groups_in_words(self) -> str:
        """Where the control groups of guests are, or why there are none."""
        return in_words() if self._groups else "not used"

    async def _guest(self, request: RunRequest, staged: Staged | None, *, tell: bool = True) -> tuple[Guest, Family]:
        """
        A guest with the request's limits, for a session where there is no ``staged``, and its family, held.

        With ``tell`` it may have been given its work already.
        """
        family = await self.family(request)
        return await self._take(family, request, staged, tell), family

    async def _take(self, family: Family, request: RunRequest, staged: Staged | None, tell: bool) -> Guest:
        """
        A guest with the request's limits, for a family that is held; :meth:`done` gives back what this takes.

        Without ``staged`` it is one for a session.
        """
        try:
            if self._slots is None:
                self._slots = self._waiting.slots(self._limit)
            await self._slots.acquire()
            try:
                return await self._living(family, request, staged, tell)
            except BaseException:
                self._slots.release()
                raise
        except BaseException:
            self.let_go(family)
            raise

    async def _living(self, family: Family, request: RunRequest, staged: Staged | None, tell: bool) -> Guest:
        session = staged is None
        key = self.key(request, session=session)

        early = native_early.Told(self.tier, request, staged, lambda: tell and not self._closed)
        for _ in range(_TRIES):
            try:
                guest = family.take_ready(key) or await family.make(key, early=early)
            except BackendError as error:
                if self._closed:
                    # Whatever it was that failed, it was ended on the way.
                    raise BackendError("running", "the sandbox was closed meanwhile", "make a new one") from None
                raise native_gaps.refused(self.tier, error) from None
            guest.request = request
            # One that was made ahead was made by a thread that waits in a way of its own.
            guest.box.waiting = self._waiting
            if guest.box.early is not None:
                return guest
            try:
                native_limits.bound(self.tier, guest, request, session=session)
            except BoxLost:
                # It has ended before it heard of any code, so another one is as good.
                self._keeper.bury(family, guest)
                continue
            except BaseException:
                self._keeper.bury(family, guest)
                raise
            return guest
        raise BackendError("starting a guest", "guests end before they are given work", "run: fastness doctor")

    def done(self, family: Family, guest: Guest) -> None:
        """A guest is of no more use: let it be buried, and another be made ready."""
        assert self._slots is not None
        self._slots.release()
        self.let_go(family)
        self._keeper.bury(family, guest)
        if (self._pool or self._spare) and (request := guest.request) is not None:
            # The next one will most likely be wanted with the same limits.
            early = native_early.Ahead(self.tier, request)
            if self._pool:
                self._keeper.refill(family, guest.key, self._pool, early)
            else:
                self._keeper.spare(family, guest.key, early)

    # running

    async def run(self, request: RunRequest, staged: Staged, sink: Sink | None, calls: Calls | None = None) -> Report:
        """One request in a guest of its own."""
        try:
            return await self._run(request, staged, sink, calls)
        finally:
            await close_calls(calls, self._waiting)

    async def _run(self, request: RunRequest, staged: Staged, sink: Sink | None, calls: Calls | None) -> Report:
        native_work.check(request, calls)
        began, cancels = time.monotonic(), self.cancels
        with self._waiting.limit(left(request, began)):
            guest, family = await self._guest(request, staged, tell=calls is None)
        family.calls = calls is not None
        try:
            whole, request = request, until(request, began)
            if guest.box.early is None:
                await self.fill(guest, staged)
            talk = Talk(guest.box, request, sink, calls)
            queued = time.monotonic() - began
            report = await self.talk(guest, talk, request, staged, "run", 0, queued=queued, cancels=cancels)
            said = told(report, whole, request)
            assert said is not None
            return said
        except CallbackRaised as raised:
            raise raised.error from None
        finally:
            self.done(family, guest)

    async def talk(
        self,
        guest: Guest,
        talk: Talk,
        request: RunRequest,
        staged: Staged,
        operation: str,
        session: int,
        *,
        queued: float = 0.0,
        cancels: int,
    ) -> Report:
        """
        One invoke from its head to its report; the guest of a run has ended after it.

        ``cancels`` is :attr:`cancels` as it was when the caller asked.
        """
        box = guest.box
        grace = request.limits.grace_s if request.runtime == "command" else 0.0
        sent = not session and box.early is not None
        stdin = -1
        if sent:
            assert box.early is not None
            head, code = box.early
        else:
            context = talk.calling.context() if talk.calling is not None else b""
            head, code = native_work.invoke(guest, request, operation, session, context)
            stdin = sealed_file(request.stdin) if request.stdin else -1
        talk.bystander = guest.zygote
        if self.tier is Tier.CONFINED:
            talk.watch = Watch(box, request.limits, guest.above, session=bool(session))
        slot = guest.slot
        if slot is not None and request.runtime == "command":
            # Of many processes, only the group knows what they use together.
            talk.clock = lambda: (slot.cpu_us() or 0) / 1e6
            talk.peak = lambda: slot.memory_peak() or 0
        self._talks.add(talk)
        try:
            if self._closed:
                raise BackendError("running", "the sandbox was closed meanwhile", "make a new one")
            if self.cancels != cancels:
                talk.end(OutcomeKind.CANCELLED)
            await talk.run(head, code, (stdin,) if stdin >= 0 else (), grace, sent=sent)
        finally:
            self._talks.discard(talk)
            if stdin >= 0:
                os.close(stdin)
        over = not session or talk.gone or talk.reason is not None
        if over:
            box.kill()
        ended = await self._ended(guest) if talk.gone else None
        if talk.gone or talk.reason is not None or request.runtime == "command":
            await drain(talk, _DRAIN_S)
        collected = await self._collect(guest, staged, request, over)
        answered_well = talk.result is not None and talk.result.ending == "returned"
        guest.in_doubt = not answered_well
        killed = False
        if guest.slot is not None and not answered_well:
            killed = bool(guest.slot.oom_kills())
        report = native_report.report(
            talk,
            ended=ended,
            collected=collected,
            records=guest.zygote.records(box.name),
            out_of_memory=killed,
            layers=native_limits.layers(self.tier, guest),
            session=bool(session),
            queued=queued,
        )
        return native_met.told(report, self.tier, guest, request)

    async def fill(self, guest: Guest, staged: Staged) -> None:
        """Put the run's files into the guest's work folder.  Raises StagingError."""
        if not native_early.fill_small(guest, staged):
            await self._waiting.call(partial(native_work.fill, guest, staged))

    async def _ended(self, guest: Guest) -> dict[str, Any] | None:
        """How the kernel says that the guest's process ended, once its zygote has told it."""
        end = time.monotonic() + _END_S
        while (found := guest.zygote.exit_of(guest.box.name)) is None and time.monotonic() < end:
            if not guest.zygote.alive:
                return None
            await self._waiting.pause(0.001)
        return found if found is not None and "status" in found else None

    async def _collect(self, guest: Guest, staged: Staged, request: RunRequest, over: bool) -> Collected:
        box = guest.box
        before = staged.project if staged.project is not None else staged.files
        if not before and not os.listdir(box.work):
            return Collected()
        limits = request.limits

        def look() -> Collected:
            if over:
                # Nobody writes any more, so that what is read is what was left.
                box.wait(_END_S)
            return collect(box.work, before, max_bytes=limits.file_bytes, max_files=limits.files)

        try:
            return await self._waiting.call(look)
        except OSError as error:
            raise BackendError("collecting the run's files", error, "please report this") from None

    # sessions, and ahead

    async def open_session(self, request: RunRequest, calls: Calls | None = None) -> BackendSession:
        """A guest that keeps its state."""
        try:
            native_work.check(request, calls)
            if request.runtime != "python":
                raise ConfigurationError("runtime", request.runtime, "python: a program has no session")
            guest, family = await self._guest(request, None)
        except BaseException:
            await close_calls(calls, self._waiting)
            raise
        return NativeSession(self, family, guest, request, calls)

    async def warm(self, request: RunRequest, count: int) -> None:
        """Have ``count`` guests waiting."""
        native_work.check(request)
        family, key = await self.family(request), self.key(request)
        try:
            family.ready_most = max(family.ready_most, min(count, self._limit))
            while family.waiting_count(key) < min(count, self._limit):
                early = native_early.Ahead(self.tier, request)
                family.put_ready(await family.make(key, ahead=True, early=early))
        finally:
            self.let_go(family)

    def mind(self, look: Callable[[], None]) -> None:
        """Have a session look after its guest now and then."""
        self._keeper.mind(look)

    def let_be(self, look: Callable[[], None]) -> None:
        """The end of :meth:`mind`."""
        self._keeper.let_go(look)

    def cancel_all(self) -> None:
        """End every run in progress; each returns a result with the outcome ``cancelled``."""
        # Those that wait for a guest, or for one to start, see it when they have one.
        self.cancels += 1
        for talk in list(self._talks):
            talk.end(OutcomeKind.CANCELLED)

    def guest_pids(self) -> list[int]:
        """Processes of ours that are alive, as far as this process knows their numbers."""
        return [pid for family in self._families.values() for pid in family.pids()]

    async def aclose(self) -> None:
        """End every guest and every zygote."""
        self._closed = True
        families = self._families.close()

        def end() -> None:
            for talk in list(self._talks):
                talk.end(OutcomeKind.CANCELLED, "the sandbox was closed")
            for family in families:
                family.retire()
            self._keeper.close()
            self._families.free()

        # Also where the caller was cancelled: nothing of a sandbox outlives its end.
        with self._waiting.limit(None, shield=True):
            await self._waiting.call(end)

"""
The host of plugins: what is installed, who granted what, and runs of their methods under a policy of that moment.

Each invocation is a guest of its own: the policy is that of the moment, the files are checked, and the calls that the
guest makes are judged one by one against the grant as it is then.  A revocation is on disk when ``revoke`` returns.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

import msgspec

from fastness import owed
from fastness.backends import registry
from fastness.backends.base import Backend
from fastness.capability import Adapter, Scope, Spec
from fastness.errors import BackendError, ConfigurationError
from fastness.grant import Ceiling, Grant
from fastness.looping import LoopWaiting
from fastness.plugins import running
from fastness.plugins.adapters import owner_word
from fastness.plugins.begun import Begun, Invocation
from fastness.plugins.core import Core
from fastness.plugins.decisions import Decisions
from fastness.plugins.of_data import OfData
from fastness.plugins.reckoning import Reckoning
from fastness.plugins.scheduling import OnFired, Scheduling
from fastness.plugins.shown import InFlight, Revocation, Shown
from fastness.plugins.signalling import Signalling
from fastness.plugins.states import Known, State
from fastness.policy import Policy
from fastness.runner.runner import Runner
from fastness.runs import OutcomeKind, RunResult
from fastness.tier import Tier
from fastness.waiting import Waiting

__all__ = ["AsyncPluginHost"]

OnEvent = Callable[[str, Any], None]
_POOL_MAX = 256
#: Seconds that calls in flight have to come to rest when their grant is revoked, before they are listed.
_REST_S = 1.0
_STEP_S = 0.01


class AsyncPluginHost(OfData, Reckoning, Scheduling, Signalling):
    """
    Installs, grants and runs plugins.

    ``ceiling`` is the most that the operator permits; None is that of ``config/config.toml``, and without one every
    kind that there is, in every tier that isolates.  ``adapters`` replace built-in ones by kind or add kinds.
    ``functions`` are the host's own that a plugin may be granted by name, as the kind ``host``, and ``integrations``
    some beside the operator's.  ``tier`` is where plugins in Python run that the operator has chosen none for (see
    :meth:`set_tier`); None is ``FASTNESS_TIER``, else the configuration's, else ``isolated``.  Those in JavaScript and
    WASI run in ``wasm``.  ``pool`` guests are kept ready for each kind of guest that was used.  With ``schedule`` it
    calls what plugins scheduled when it is due, as :meth:`start_schedule` does, and tells ``on_fired`` of each call in
    a thread of its own.

    Use as ``async with``, or call :meth:`aclose`.  Several hosts, in any number of processes, may share one home.
    """

    def __init__(
        self,
        *,
        ceiling: Ceiling | None = None,
        adapters: Mapping[str, Adapter] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        integrations: Sequence[Any] = (),
        tier: str | None = None,
        pool: int | None = None,
        schedule: bool = False,
        on_fired: OnFired | None = None,
        _waiting: Waiting | None = None,
    ) -> None:
        if pool is not None and (type(pool) is not int or not 0 <= pool <= _POOL_MAX):
            raise ConfigurationError("pool", pool, f"0 to {_POOL_MAX}")
        self._waiting = _waiting or LoopWaiting()
        self._core = Core(ceiling, adapters, functions, tier, self._waiting.blocks, integrations)
        self._decisions = Decisions(self._core)
        self._pool = pool
        self._runner = Runner(self._backend, self._waiting)
        self._on_fired = on_fired
        if schedule:
            self.start_schedule()

    def _backend(self, tier: Tier) -> Backend:
        return registry.make(tier, waiting=self._waiting, pool=self._pool)

    # what there is

    @property
    def ceiling(self) -> Ceiling:
        """The most that plugins of this host may have."""
        return self._core.ceiling

    @property
    def specs(self) -> Mapping[str, Spec]:
        """Every capability that plugins of this host may ask for, by kind."""
        return self._core.specs

    def plugins(self) -> list[Known]:
        """All plugins, by id.  No manifest is read for it."""
        return self._core.store.plugins()

    def show(self, plugin: str) -> Shown:
        """What a plugin is and asks for, and what stands.  Raises ConfigurationError, ManifestError."""
        return self._decisions.show(plugin)

    # what is decided

    async def install(self, path: str | os.PathLike[str], *, source: str = "local", upgrade: bool = False) -> Shown:
        """
        Copy a plugin's files and note what it asks for; nothing of it is run, but a JavaScript file's own manifest.

        ``source`` is ``builtin``, ``local`` or ``marketplace``.  With ``upgrade`` it may take the place of the plugin
        of its id and source; where it asks for more than that one, or is of another runtime, it waits for a grant
        again.  What was set as ``reviewed`` was set for the files before: with other ones the plugin loses that word,
        and a tier that it has only because of it.  Raises ManifestError with all problems, ConfigurationError where its
        id is taken, BackendError where it cannot be written.
        """
        return await self._waiting.call(partial(self._decisions.install, path, source, upgrade))

    async def grant(
        self,
        plugin: str,
        *,
        owner: str,
        allowed: Iterable[Scope | str] | None = None,
        provides: Iterable[str] | None = None,
        lookups: Iterable[str] | None = None,
        declares: Iterable[str] | None = None,
        all: bool = False,
        expires: float | None = None,
        granted_by: str = "",
        digest: str | None = None,
    ) -> Grant:
        """
        Let an owner allow a plugin something, in place of what they allowed before.

        ``allowed`` are scopes, or names of kinds, each for the scope that is asked for as far as the operator permits
        it.  ``all`` is everything that is asked for and permitted.  What is not said is not allowed: a grant of nothing
        enables a plugin that needs nothing.  ``expires`` is seconds since 1970.  ``digest`` names the files that
        whoever decides has looked at, as :meth:`show` had it; None is whatever is installed.  Raises GrantError where
        others are installed by now, and one that names what was not asked for or is not permitted; TierUnavailable
        where programs are allowed that could not run here.

        Where the task that asked is cancelled before this returns, no grant of that owner stands.
        """
        make = partial(
            self._decisions.grant,
            plugin,
            digest,
            owner=owner,
            allowed=allowed,
            names={"provides": provides, "lookups": lookups, "declares": declares},
            everything=all,
            expires=expires,
            granted_by=granted_by,
        )

        async def undo(made: Grant) -> None:
            await self._waiting.call(partial(self._decisions.take_back, made))

        return await self._waiting.unbroken(lambda: self._waiting.call(make), undo)

    async def revoke(self, plugin: str, *, owner: str | None = None) -> Revocation:
        """
        End the grant of an owner, or of all.

        When this has returned no call that begins afterwards is let through, in any process.  Calls in flight are
        cancelled; those that have not come to rest within a second are listed.
        """
        ended = await self._waiting.call(partial(self._decisions.revoke, plugin, owner))
        return Revocation(ended=ended, in_flight=await self._rest_of(plugin, owner, time.time()))

    async def _rest_of(self, plugin: str, owner: str | None, began: float) -> tuple[InFlight, ...]:
        ends = time.monotonic() + _REST_S
        while True:
            left = await self._waiting.call(partial(self._core.events.in_flight, plugin, owner, began))
            if not left or time.monotonic() >= ends:
                return left
            await self._waiting.pause(_STEP_S)

    async def enable(self, plugin: str) -> Known:
        """Let a disabled plugin be called again by those with a grant.  Raises TierUnavailable as :meth:`grant`."""

        async def undo(_: Known) -> None:
            await self.disable(plugin)

        return await self._waiting.unbroken(lambda: self._waiting.call(partial(self._decisions.enable, plugin)), undo)

    async def disable(self, plugin: str) -> Known:
        """Let nobody call a plugin; grants are kept.  Calls in flight are cancelled."""
        return await self._waiting.call(partial(self._decisions.disable, plugin))

    async def quarantine(self, plugin: str, why: str = "the operator said so") -> Known:
        """Let nobody call a plugin, for a reason.  :meth:`disable` and then :meth:`enable` is the way out."""
        return await self._waiting.call(partial(self._decisions.quarantine, plugin, why))

    async def remove(self, plugin: str) -> Known:
        """
        End a plugin: its grants, its files, and what was kept for it in ``storage`` and in folders of its own.

        A plugin of the same id that is installed later inherits nothing.
        """
        return await self._waiting.call(partial(self._decisions.remove, plugin))

    async def set_tier(self, plugin: str, tier: str, trust: str = "") -> Known:
        """
        Choose the tier of one plugin, from its next run on; an empty text is the default again.

        Stronger and as strong is free; weaker than the default needs ``trust="reviewed"``, and for a plugin from the
        marketplace there is nothing weaker than ``confined``.  Raises PolicyError.
        """
        return await self._waiting.call(partial(self._decisions.set_tier, plugin, tier, trust))

    # what is run

    async def invoke(
        self,
        plugin: str,
        method: str,
        args: Mapping[str, Any] | None = None,
        *,
        owner: str,
        timeout: float | None = None,  # noqa: ASYNC109  # it is the guest's, and its host keeps it
        on_event: OnEvent | None = None,
    ) -> RunResult:
        """
        Call a method of a plugin on behalf of an owner, in a fresh guest.  The value is what the method returns.

        ``timeout`` is seconds, at most those of its policy; a module of WASI is compiled within them and one more.
        Raises GrantError where the owner granted nothing, or for
        other files; PolicyError where the grant has ended or the operator does not permit the tier; ConfigurationError
        for a plugin that may not be called and a method or argument that is none; PackageChanged where its files are
        not those that were installed; QuotaExceeded where a quota of the operator's leaves it no processor time.  Then
        nothing ran.  What the plugin did is in the result.
        """
        return await self._invoke(os.urandom(8).hex(), plugin, method, args, owner, timeout, on_event)

    async def _invoke(
        self, run: str, plugin: str, method: str, args: Mapping[str, Any] | None, owner: str, *how: Any
    ) -> RunResult:
        """The same, as the run of this id."""
        begin = partial(self._begin, run, plugin, method, args, owner, *how)

        def end(one: Invocation, how: str) -> None:
            record = partial(self._core.events.ended, plugin, owner, method, one.run, how)
            self._core.end(one.run, one.cpu_s, then=record, later=how == OutcomeKind.OK.value)

        # However often its caller gives up: what was begun is ended and recorded, and what its guest did is judged.
        return await self._waiting.unbroken(lambda: self._invoked(begin, end))

    async def _invoked(self, begin: Callable[[], Invocation], end: Callable[[Invocation, str], None]) -> RunResult:
        begun = Begun(end)
        with self._waiting.held() as interrupts:
            try:
                await self._waiting.call(lambda: begun.put(begin()))
                one = begun.get()
                with interrupts.let():
                    result = await self._runner.run(one.request, one.calls, run_id=one.run)
                one.cpu_s = result.usage.cpu_s
                how = result.outcome.kind.value
            except BaseException as error:
                how = "failed" if isinstance(error, Exception) else "cancelled"
                raise
            finally:
                over = begun.end(how)
                if over is not None:
                    # Also where its task is cancelled: what was begun is on record, and its end is.
                    with self._waiting.limit(None, shield=True):
                        await self._waiting.call(over)
            if result.outcome.kind in (OutcomeKind.CRASHED, OutcomeKind.PROTOCOL):
                with self._waiting.limit(None, shield=True):
                    await self._waiting.call(partial(self._misbehaved, one.policy, one.run, result.outcome.kind))
        usage = msgspec.structs.replace(result.usage, cost=one.calls.cost)
        made: RunResult = msgspec.structs.replace(result, policy_digest=one.policy.digest, usage=usage)
        return made

    def _begin(
        self,
        run: str,
        plugin: str,
        method: str,
        args: Mapping[str, Any] | None,
        owner: str,
        timeout: float | None = None,
        on_event: OnEvent | None = None,
    ) -> Invocation:
        core = self._core
        # What quotas hold for what is over is given back before more is taken.
        owed.settle()
        standing, policy = core.may(plugin, owner, str(method))
        known, manifest = standing.known, standing.manifest
        request = running.request_of(
            running.check_method(manifest, method),
            running.check_arguments(args),
            manifest,
            core.files(known, owner),
            policy,
            tenant=f"plugin/{known.id}/{owner_word(owner)}",
            limits=running.check_timeout(policy.limits, timeout),
            timeout=timeout,
            on_event=on_event,
        )
        meter, limits = core.metered(policy, request.limits, method)
        request = msgspec.structs.replace(request, limits=limits)
        try:
            core.events.invoked(known.id, owner, method, run)
            return Invocation(run, request, policy, core.begin(standing, policy, run, meter))
        except BaseException:
            meter.end(0.0)
            core.events.ended(known.id, owner, method, run, "failed")
            raise

    def _misbehaved(self, policy: Policy, run: str, kind: OutcomeKind) -> None:
        """Count a crash, or quarantine for a violation.  The result is its caller's whatever comes of it."""
        core, plugin, digest = self._core, policy.plugin, policy.package_digest
        violated = kind is OutcomeKind.PROTOCOL

        def change() -> Known:
            if violated:
                return core.store.violated(plugin, digest, f"it broke the protocol in the run {run}")
            return core.store.crashed(plugin, digest)

        try:
            # First what it comes to, then the record: a trail that cannot be written keeps nobody welcome.
            try:
                known = change()
            except BackendError:
                core.stop(plugin, None, change)
                raise
            op, code = ("violation", "protocol") if violated else ("crash", "crashed")
            core.events.refused(op, plugin, policy.owner, "", code, run=run)
            if known.state is State.QUARANTINED:
                core.cancel(plugin)
                core.events.after("quarantine", plugin, target=known.why)
        except (BackendError, ConfigurationError) as error:
            logging.getLogger("fastness").warning("what %s did was not counted or recorded: %s", plugin, error)

    # ends

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End every guest and box.  Plugins stay installed.  Idempotent."""
        await self._waiting.call(self._stop_schedule)
        await self._runner.aclose()
        await self._waiting.call(self._end_schedule)
        await self._waiting.call(self._core.close)

"""
The host of plugins: what is installed, who granted what, and runs of their methods under a policy of that moment.

Each invocation is a guest of its own: the policy is built anew, the files are checked, and the calls that the guest
makes are judged one by one against the grant as it is then.  A revocation is on disk when ``revoke`` returns.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self

import msgspec

from fastness import config, policy
from fastness.api import _check_count
from fastness.backends import registry
from fastness.backends.base import Backend
from fastness.broker.calls import RunCalls
from fastness.broker.functions import KIND as FUNCTIONS
from fastness.broker.gate import Gate
from fastness.capability import Adapter, Scope
from fastness.errors import (
    ConfigurationError,
    GrantError,
    PackageChanged,
    PolicyError,
)
from fastness.grant import Ceiling, Grant, check_owner, open_ceiling
from fastness.manifest import Manifest
from fastness.plugins import installed, package, rows, running
from fastness.plugins.adapters import Adapters, owner_word
from fastness.plugins.events import Events
from fastness.plugins.granting import make_grant
from fastness.plugins.shown import InFlight, Revocation, Shown, shown
from fastness.plugins.standing import Opened, Standing, Standings
from fastness.plugins.states import Known, Source, State
from fastness.plugins.store import Store
from fastness.policy import Policy
from fastness.runner.runner import Runner
from fastness.runs import OutcomeKind, RunResult
from fastness.tier import Tier
from fastness.waiting import LoopWaiting, Waiting

__all__ = ["AsyncPluginHost"]

OnEvent = Callable[[str, Any], None]
#: Seconds that calls in flight have to come to rest when their grant is revoked, before they are listed.
_REST_S = 1.0
_STEP_S = 0.01
#: Strength of the weakest tier for code of strangers.
_STRANGERS = 2


class _Prepared:
    """One invocation that may begin."""

    __slots__ = ("calls", "policy", "request", "run", "standing")

    def __init__(self, standing: Standing, made: Policy, request: Any, calls: RunCalls, run: str) -> None:
        self.standing = standing
        self.policy = made
        self.request = request
        self.calls = calls
        self.run = run


class AsyncPluginHost:
    """
    Installs, grants and runs plugins.

    ``ceiling`` is the most that the operator permits; None is that of ``config/config.toml``, and without one every
    kind that there is, in every tier that isolates.  ``adapters`` replace built-in ones by kind or add kinds.
    ``functions`` are the host's own that a plugin may be granted by name, as the kind ``host``.  ``tier`` is where
    plugins run that the operator has chosen none for (see :meth:`set_tier`); None is ``FASTNESS_TIER``, else the
    configuration's, else ``wasm`` for JavaScript and WASI and ``isolated`` for Python.  ``pool`` guests are kept ready
    for each kind of guest that was used.

    Use as ``async with``, or call :meth:`aclose`.  Several hosts, in any number of processes, may share one home.
    """

    def __init__(
        self,
        *,
        ceiling: Ceiling | None = None,
        adapters: Mapping[str, Adapter] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        tier: str | None = None,
        pool: int | None = None,
        _waiting: Waiting | None = None,
    ) -> None:
        if pool is not None:
            _check_count("pool", pool, 0, 256)
        settings = config.load()
        self._adapters = Adapters(settings, adapters, functions)
        self._specs = self._adapters.specs
        self._ceiling = self._checked(ceiling) or settings.ceiling(self._specs) or open_ceiling(self._adapters.kinds())
        self._tier = _host_tier(registry.named(tier, dict(os.environ)))
        self._pool = pool
        self._waiting = _waiting or LoopWaiting()
        self._runner = Runner(self._backend, self._waiting)
        self._store = Store(self._specs)
        self._standings = Standings(self._store, self._specs)
        self._opened = Opened()
        self._events = Events()
        self._lock = threading.Lock()
        self._running: dict[str, _Prepared] = {}

    @staticmethod
    def _checked(ceiling: object) -> Ceiling | None:
        if ceiling is not None and not isinstance(ceiling, Ceiling):
            raise ConfigurationError("ceiling", type(ceiling).__name__, "a fastness.Ceiling")
        return ceiling

    def _backend(self, tier: Tier) -> Backend:
        return registry.make(tier, waiting=self._waiting, pool=self._pool)

    # what there is

    @property
    def ceiling(self) -> Ceiling:
        """The most that plugins of this host may have."""
        return self._ceiling

    def plugins(self) -> list[Known]:
        """All plugins, by id.  No manifest is read for it."""
        return self._store.plugins()

    def show(self, plugin: str) -> Shown:
        """What a plugin is and asks for, and what stands.  Raises ConfigurationError, ManifestError."""
        known = self._known(plugin)
        manifest = self._store.manifest(plugin)
        grants = self._store.grants(plugin)
        return shown(known, manifest, grants, self._tier_of(known, manifest), self._ceiling, self._specs)

    def _known(self, plugin: object) -> Known:
        known = self._store.plugin(plugin) if isinstance(plugin, str) else None
        if known is None or known.state is State.REMOVED:
            raise rows.unknown(str(plugin))
        return known

    def _tier_of(self, known: Known, manifest: Manifest) -> str:
        if known.tier:
            return known.tier
        if self._tier is not None and manifest.runtime == "python":
            return self._tier
        return policy.default_tier(manifest).value

    # what is decided

    async def install(self, path: str | os.PathLike[str], *, source: str = "local", upgrade: bool = False) -> Shown:
        """
        Copy a plugin's files and note what it asks for; nothing of it is run, but a JavaScript file's own manifest.

        ``source`` is ``builtin``, ``local`` or ``marketplace``.  With ``upgrade`` it may take the place of the plugin
        of its id and source; where it asks for more than that one, it waits for a grant again.  Raises ManifestError
        with all problems, ConfigurationError where its id is taken, BackendError where it cannot be written.
        """
        return await self._waiting.call(partial(self._install, path, source, upgrade))

    def _install(self, path: str | os.PathLike[str], source: str, upgrade: bool) -> Shown:
        from fastness.plugins.javascript import evaluate

        origin = rows.source_of(source)
        found = package.read(path)
        manifest = package.manifest_of(found, self._specs, evaluate=evaluate)
        target = f"{manifest.version} {found.digest} {origin.value}"
        with self._events.before("upgrade" if upgrade else "install", manifest.id, target=target):
            installed.install(found)
            self._store.install(manifest, found.digest, origin, upgrade=upgrade)
        self._opened.forget(found.digest)
        return self.show(manifest.id)

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
    ) -> Grant:
        """
        Let an owner allow a plugin something, in place of what they allowed before.

        ``allowed`` are scopes, or names of kinds, each for the scope that is asked for as far as the operator permits
        it.  ``all`` is everything that is asked for and permitted.  What is not said is not allowed: a grant of nothing
        enables a plugin that needs nothing.  ``expires`` is seconds since 1970.  Raises GrantError that names what was
        not asked for or is not permitted, and TierUnavailable where programs are allowed that could not run here.
        """
        names = {"provides": provides, "lookups": lookups, "declares": declares}
        make = partial(
            self._granted, plugin, owner=owner, allowed=allowed, names=names, everything=all, expires=expires,
            granted_by=granted_by,
        )  # fmt: skip
        return await self._waiting.call(make)

    def _granted(self, plugin: str, *, owner: str, **options: Any) -> Grant:
        known = self._known(plugin)
        manifest = self._store.manifest(plugin)
        grant = make_grant(manifest, self._ceiling, self._specs, digest=known.digest, owner=owner, **options)
        self._check_process(manifest, grant)
        words = ", ".join(sorted(str(type(scope).__struct_config__.tag) for scope in grant.allowed)) or "nothing"
        with self._events.before("grant", plugin, owner=grant.owner, target=f"{words}; {known.digest}"):
            return self._store.grant(grant)

    def _check_process(self, manifest: Manifest, grant: Grant) -> None:
        """Programs need a tier that runs them.  It is tried now: at its first call it would be too late to say so."""
        scope: Any = grant.scope("process")
        if scope is not None and scope.runs and manifest.scope("process") is not None:
            self._adapters.boxes.check(scope.tier)

    async def revoke(self, plugin: str, *, owner: str | None = None) -> Revocation:
        """
        End the grant of an owner, or of all.

        When this has returned no call that begins afterwards is let through, in any process.  Calls in flight are
        cancelled; those that have not come to rest within a second are listed.
        """
        began = time.time()
        ended = await self._waiting.call(partial(self._revoked, plugin, owner))
        return Revocation(ended=ended, in_flight=await self._rest_of(plugin, owner, began))

    def _revoked(self, plugin: str, owner: str | None) -> int:
        ended = self._store.revoke(plugin, owner)
        self._cancel(plugin, owner)
        self._events.after("revoke", plugin, owner=owner or "", target=f"{ended} ended" if owner else f"all, {ended}")
        return ended

    def _cancel(self, plugin: str, owner: str | None = None) -> None:
        """Cancel what is in flight in this process; others look by themselves."""
        with self._lock:
            found = [one for one in self._running.values() if one.policy.plugin == plugin]
        for one in found:
            if owner is None or one.policy.owner == owner:
                one.calls.revoke()

    async def _rest_of(self, plugin: str, owner: str | None, began: float) -> tuple[InFlight, ...]:
        ends = time.monotonic() + _REST_S
        while True:
            left = await self._waiting.call(partial(self._events.in_flight, plugin, owner, began))
            if not left or time.monotonic() >= ends:
                return left
            await self._waiting.pause(_STEP_S)

    async def enable(self, plugin: str) -> Known:
        """Let a disabled plugin be called again by those with a grant.  Raises TierUnavailable as :meth:`grant`."""
        return await self._waiting.call(partial(self._enabled, plugin))

    def _enabled(self, plugin: str) -> Known:
        self._known(plugin)
        manifest = self._store.manifest(plugin)
        for grant in self._store.grants(plugin):
            self._check_process(manifest, grant)
        with self._events.before("enable", plugin):
            return self._store.enable(plugin)

    async def disable(self, plugin: str) -> Known:
        """Let nobody call a plugin; grants are kept.  Calls in flight are cancelled."""
        return await self._ended("disable", plugin, lambda: self._store.disable(plugin))

    async def quarantine(self, plugin: str, why: str = "the operator said so") -> Known:
        """Let nobody call a plugin, for a reason.  :meth:`disable` and then :meth:`enable` is the way out."""
        return await self._ended("quarantine", plugin, lambda: self._store.quarantine(plugin, why))

    async def _ended(self, op: str, plugin: str, change: Callable[[], Known]) -> Known:
        def work() -> Known:
            self._known(plugin)
            known = change()
            self._cancel(plugin)
            self._events.after(op, plugin)
            return known

        return await self._waiting.call(work)

    async def remove(self, plugin: str) -> Known:
        """
        End a plugin: its grants, its files, and what was kept for it in ``storage`` and in folders of its own.

        A plugin of the same id that is installed later inherits nothing.
        """
        return await self._waiting.call(partial(self._removed, plugin))

    def _removed(self, plugin: str) -> Known:
        known = self._known(plugin)
        gone = self._store.remove(plugin)
        self._cancel(plugin)
        self._opened.forget(known.digest)
        self._events.after("remove", plugin, target=f"{known.version} {known.digest}")
        if all(one.digest != known.digest for one in self._store.plugins()):
            installed.remove(known.digest)
        self._adapters.forget(plugin)
        installed.prune({one.digest for one in self._store.plugins()})
        return gone

    async def set_tier(self, plugin: str, tier: str, trust: str = "") -> Known:
        """
        Choose the tier of one plugin, from its next run on; an empty text is the default again.

        Stronger and as strong is free; weaker than the default needs ``trust="reviewed"``, and for a plugin from the
        marketplace there is nothing weaker than ``confined``.  Raises PolicyError.
        """
        return await self._waiting.call(partial(self._set_tier, plugin, tier, trust))

    def _set_tier(self, plugin: str, tier: str, trust: str) -> Known:
        known = self._known(plugin)
        manifest = self._store.manifest(plugin)
        if tier:
            chosen = policy.check_tier(manifest, tier, trust)
            _check_source(known, chosen)
            if chosen.value not in self._ceiling.tiers:
                allowed = ", ".join(self._ceiling.tiers) or "no tier"
                raise PolicyError("tier", chosen.value, f"{allowed}: that is what the operator permits")
        words = f"{known.tier or 'default'} to {tier or 'default'}" + (f", {trust}" if trust and tier else "")
        with self._events.before("tier", plugin, target=words):
            return self._store.set_tier(plugin, tier, trust)

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

        ``timeout`` is seconds, at most those of its policy.  Raises GrantError where the owner granted nothing, or for
        other files; PolicyError where the grant has ended or the operator does not permit the tier; ConfigurationError
        for a plugin that may not be called and a method or argument that is none; PackageChanged where its files are
        not those that were installed.  Then nothing ran.  What the plugin did is in the result.
        """
        prepare = partial(self._prepare, plugin, method, args, owner, timeout, on_event)
        prepared = await self._waiting.call(prepare)
        try:
            result = await self._runner.run(prepared.request, prepared.calls, run_id=prepared.run)
        finally:
            with self._lock:
                self._running.pop(prepared.run, None)
        kind = result.outcome.kind
        if kind in (OutcomeKind.CRASHED, OutcomeKind.PROTOCOL):
            await self._waiting.call(partial(self._misbehaved, prepared, kind))
        made: RunResult = msgspec.structs.replace(result, policy_digest=prepared.policy.digest)
        return made

    def _prepare(
        self,
        plugin: str,
        method: str,
        args: Mapping[str, Any] | None,
        owner: str,
        timeout: float | None,
        on_event: OnEvent | None,
    ) -> _Prepared:
        standing, made = self._may(plugin, owner, method)
        known, manifest, _ = standing
        running.check_method(manifest, method)
        limits = running.check_timeout(made.limits, timeout)
        found = self._files(known, owner)
        tenant = f"plugin/{known.id}/{owner_word(owner)}"
        request = running.request_of(
            manifest, found, made, method, running.check_arguments(args), tenant=tenant, limits=limits,
            on_event=on_event,
        )  # fmt: skip
        run = os.urandom(8).hex()
        self._events.invoked(known.id, owner, method, run)
        calls = self._calls(made, run)
        prepared = _Prepared(standing, made, request, calls, run)
        with self._lock:
            self._running[run] = prepared
        # Whoever revoked before it was in there did not see it; it sees them.
        if self._store.watch(known.id, owner)() != made.revision:
            with self._lock:
                self._running.pop(run, None)
            calls.close()
            raise GrantError("grant", "it was revoked just now", "a grant that stands")
        return prepared

    def _may(self, plugin: str, owner: str, method: str = "") -> tuple[Standing, Policy]:
        """What stands, and the policy of this moment.  Raises where nothing may run, and records that."""
        check_owner(owner)
        standing = self._standings.of(plugin, owner)
        try:
            return standing, self._policy(standing, owner)
        except ConfigurationError as error:
            code = "expired" if isinstance(error, PolicyError) and error.field == "grant" else "not_granted"
            self._events.refused("invoke", plugin, owner, method, code)
            raise

    def _policy(self, standing: Standing, owner: str) -> Policy:
        known, manifest, grant = standing
        fix = f"run: fastness plugin grant {known.id} --owner {owner}"
        if known.state is not State.ENABLED and known.state is not State.AWAITING_GRANT:
            why = f": {known.why}" if known.why else ""
            raise ConfigurationError("plugin", f"{known.id} is {known.state.value}{why}", "a plugin that is enabled")
        if grant is None:
            raise GrantError("grant", f"{owner} has granted {known.id} nothing", f"a grant; {fix}")
        if grant.package_digest != known.digest:
            raise GrantError("grant", f"that of {owner} is for other files", f"one for {known.version}; {fix}")
        if known.state is State.AWAITING_GRANT:
            raise GrantError("plugin", f"{known.id} waits for a grant: {known.why}", fix)
        tier = self._tier_of(known, manifest)
        made = policy.build_policy(manifest, grant, self._ceiling, self._specs, tier=tier, trust=known.trust)
        _check_source(known, made.tier)
        return made

    def _files(self, known: Known, owner: str) -> package.Package:
        try:
            return self._opened.get(known.digest).package
        except PackageChanged:
            self._events.refused("invoke", known.id, owner, known.digest, "changed")
            raise

    def _calls(self, made: Policy, run: str) -> RunCalls:
        functions: Any = made.scopes.get(FUNCTIONS)
        gate = Gate(
            made.scopes,
            self._specs,
            self._adapters,
            made_at=made.revision,
            revision=self._store.watch(made.plugin, made.owner),
            expires=made.expires,
            offered=None if functions is None else {FUNCTIONS: functions.names},
        )
        return RunCalls(
            gate,
            self._events.trail,
            run=run,
            plugin=made.plugin,
            owner=made.owner,
            calls=made.limits.calls,
            value_bytes=made.limits.frame_bytes,
            # From the first call on, so no earlier than the run itself ends.
            seconds=made.limits.wall_s,
            limits=made.limits,
        )

    def _misbehaved(self, prepared: _Prepared, kind: OutcomeKind) -> None:
        known = prepared.standing.known
        owner = prepared.policy.owner
        if kind is OutcomeKind.PROTOCOL:
            self._events.refused("violation", known.id, owner, "protocol", "protocol", run=prepared.run)
            after = self._store.violated(known.id, known.digest, f"it broke the protocol in the run {prepared.run}")
        else:
            self._events.refused("crash", known.id, owner, "", "crashed", run=prepared.run)
            after = self._store.crashed(known.id, known.digest)
        if after.state is State.QUARANTINED:
            self._cancel(known.id)
            self._events.after("quarantine", known.id, target=after.why)

    async def data(self, plugin: str, *, owner: str) -> dict[str, bytes]:
        """
        The files of a plugin of ``data``, by path, as they were installed; needs a grant as any other plugin does.

        They are the plugin's and not the host's: what is done because of them is done with :meth:`call`, under the
        policy of the plugin.
        """

        def read() -> dict[str, bytes]:
            standing, _ = self._may(plugin, owner)
            if standing.manifest.runtime != "data":
                raise ConfigurationError("plugin", plugin, "a plugin of the runtime data; this one is code")
            found = self._files(standing.known, owner)
            return {path: member.content for path, member in found.files.items()}

        return await self._waiting.call(read)

    async def call(self, plugin: str, operation: str, args: Mapping[str, Any] | None = None, *, owner: str) -> Any:
        """
        Do one thing under the policy of a plugin of ``data``, as ``net.request`` or ``storage.put``, and not with the
        host's own rights: judged, recorded and answered as if a guest had asked.

        Raises GrantError and its like as :meth:`invoke`, Denied, QuotaExceeded, Revoked and AdapterError.
        """
        prepare = partial(self._acting, plugin, operation, args, owner)
        return await self._waiting.call(prepare)

    def _acting(self, plugin: str, operation: str, args: Mapping[str, Any] | None, owner: str) -> Any:
        from fastness.plugins.acting import act

        standing, made = self._may(plugin, owner, operation)
        if standing.manifest.runtime != "data":
            raise ConfigurationError("plugin", plugin, "a plugin of the runtime data; one of code makes its own calls")
        calls = self._calls(made, os.urandom(8).hex())
        try:
            return act(calls, operation, running.check_arguments(args), made.limits.wall_s)
        finally:
            calls.close()

    # ends

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End every guest and box.  Plugins stay installed.  Idempotent."""
        await self._runner.aclose()
        await self._waiting.call(self._close)

    def _close(self) -> None:
        self._adapters.close()
        self._store.close()


def _host_tier(named: str | None) -> str | None:
    """The tier for plugins without one of their own; None is each one's default."""
    if named == "local":
        raise ConfigurationError("tier", named, "a tier that isolates: plugins never run unsandboxed")
    return None if named == "auto" else named


def _check_source(known: Known, tier: Tier) -> None:
    if known.source is Source.MARKETPLACE and tier.strength < _STRANGERS:
        raise PolicyError("tier", tier.value, "confined or a stronger one: the plugin is from the marketplace")

"""
What the parts of one plugin host share: its ceiling, its store, its adapters, its trail, and the runs that go on.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from fastness import config, owed, policy
from fastness._wasi import home
from fastness.backends import registry
from fastness.broker.calls import RunCalls
from fastness.broker.functions import KIND as FUNCTIONS
from fastness.broker.gate import Gate
from fastness.capability import Adapter, Scope
from fastness.errors import (
    AdapterError,
    BackendError,
    ConfigurationError,
    GrantError,
    ManifestError,
    PackageChanged,
    PolicyError,
    QuotaExceeded,
)
from fastness.grant import Ceiling, check_owner, open_ceiling
from fastness.limits import Limits
from fastness.manifest import Manifest
from fastness.metering.ledger import Ledger
from fastness.metering.meter import Meter
from fastness.plugins import rows
from fastness.plugins.adapters import Adapters
from fastness.plugins.events import Events
from fastness.plugins.package import Package
from fastness.plugins.standing import Opened, Standing, Standings
from fastness.plugins.states import Known, Source, State
from fastness.plugins.store import Store, Watch
from fastness.policy import Policy
from fastness.tier import Tier

if TYPE_CHECKING:
    from fastness.capabilities._integration import Integration

__all__ = ["Core", "check_source"]

#: Strength of the weakest tier for code of strangers.
_STRANGERS = 2
#: Policies that are kept.
_KEPT = 1024


class Core:
    """
    See :class:`fastness.plugins.host.AsyncPluginHost` for the arguments; ``here`` says that whoever waits for a guest
    is a thread that may serve its calls too, and no loop.  Methods block; any thread may call them.
    """

    def __init__(
        self,
        ceiling: Ceiling | None,
        adapters: Mapping[str, Adapter] | None,
        functions: Mapping[str, Callable[..., Any]] | None,
        tier: str | None,
        here: bool = False,
        integrations: Sequence[Integration] = (),
    ) -> None:
        if ceiling is not None and not isinstance(ceiling, Ceiling):
            raise ConfigurationError("ceiling", type(ceiling).__name__, "a fastness.Ceiling")
        settings = config.load()
        self.ledger = Ledger(home.place("data", "usage.db"), settings.quotas)
        self.adapters = Adapters(
            settings,
            self.ledger,
            adapters,
            functions,
            integrations,
            methods=self._methods,
            receivers=partial(self.scopes, "signals"),
        )
        self.specs = self.adapters.specs
        self.ceiling = ceiling or settings.ceiling(self.specs) or open_ceiling(self.adapters.kinds())
        self._tier = _host_tier(registry.named(tier, dict(os.environ)))
        self._here = here
        self.store = Store(self.specs)
        self.standings = Standings(self.store, self.specs)
        self.opened = Opened()
        self.events = Events()
        #: Whether runs have a thread each, which may serve quick calls itself.
        self._here = here
        self._lock = threading.Lock()
        self._running: dict[str, tuple[Policy, RunCalls, Meter]] = {}
        #: What ended and could not be written: plugin, and owner or all, with what writes it.
        self._stopped: dict[tuple[str, str | None], Callable[[], object]] = {}
        #: The last policy of each plugin and owner, beside what stood when it was built.
        self._built: dict[tuple[str, str], tuple[Standing, Policy]] = {}

    # what there is

    def known(self, plugin: object) -> Known:
        """What is known of a plugin that is not removed.  Raises ConfigurationError."""
        known = self.store.plugin(plugin) if isinstance(plugin, str) else None
        if known is None or known.state is State.REMOVED:
            raise rows.unknown(str(plugin))
        return known

    def _methods(self, plugin: str) -> tuple[str, ...]:
        """The methods of a plugin's manifest, for an adapter.  Raises AdapterError."""
        try:
            return self.store.manifest(plugin).methods
        except (BackendError, ConfigurationError, ManifestError) as error:
            raise AdapterError("what this plugin is cannot be known just now") from error

    def tier_of(self, known: Known, manifest: Manifest) -> str:
        """The tier that a plugin runs in: the operator's for it, else the host's, else the default of its runtime."""
        if known.tier:
            return known.tier
        # Of the others each runtime has one tier.
        if self._tier is not None and manifest.runtime == "python":
            return self._tier
        return policy.default_tier(manifest).value

    # what may be

    def may(self, plugin: str, owner: str, what: str = "") -> tuple[Standing, Policy]:
        """
        What stands, and the policy of this moment; ``what`` is for the record, where nothing may run.

        Raises GrantError, PolicyError, ConfigurationError.
        """
        check_owner(owner)
        self._check_stopped(plugin, owner)
        standing = self.standings.of(plugin, owner)
        try:
            return standing, self._policy(standing, owner)
        except ConfigurationError as error:
            self.events.refused("invoke", plugin, owner, what, _code(standing, error))
            raise

    def _policy(self, standing: Standing, owner: str) -> Policy:
        known, manifest, grant, at = standing
        built = self._built.get((known.id, owner))
        # The very same object: nothing in the store has changed since.  What changes by itself is the time.
        if built is not None and built[0] is standing:
            expires = built[1].expires
            if expires is None or time.time() < expires:
                return built[1]
        fix = f"run: fastness plugin grant {known.id} --owner {owner}"
        if known.state not in (State.ENABLED, State.AWAITING_GRANT):
            why = f": {known.why}" if known.why else ""
            raise ConfigurationError("plugin", f"{known.id} is {known.state.value}{why}", "a plugin that is enabled")
        if grant is None:
            raise GrantError("grant", f"{owner} has granted {known.id} nothing", f"a grant; {fix}")
        if grant.package_digest != known.digest:
            why = f"; {known.why}" if known.why else ""
            raise GrantError("grant", f"that of {owner} is for other files{why}", f"one for {known.version}; {fix}")
        if known.state is State.AWAITING_GRANT:
            raise GrantError("plugin", f"{known.id} waits for a grant: {known.why}", fix)
        tier = self.tier_of(known, manifest)
        made = policy.build_policy(manifest, grant, self.ceiling, self.specs, tier=tier, trust=known.trust)
        check_source(known, made.tier)
        if at is not None:
            if len(self._built) >= _KEPT:
                self._built.clear()
            self._built[known.id, owner] = standing, made
        return made

    def scope(self, kind: str, plugin: str, owner: str) -> Scope | None:
        """
        How far a kind reaches for a plugin and an owner now, or None; nothing is recorded.

        Raises GrantError, PolicyError and ConfigurationError where the plugin may not be called for this owner.
        """
        if self._is_stopped(plugin, owner):
            return None
        return self._policy(self.standings.of(plugin, owner), owner).scopes.get(kind)

    def scopes(self, kind: str, owner: str) -> Iterator[tuple[str, Any]]:
        """Plugins that may use a kind for an owner now, and how far."""
        for plugin in self.store.granted_by(owner):
            with contextlib.suppress(ConfigurationError):
                found = self.scope(kind, plugin, owner)
                if found is not None:
                    yield plugin, found

    def files(self, known: Known, owner: str) -> Package:
        """The checked bytes of a plugin.  Raises PackageChanged, and records it; ConfigurationError where they went."""
        try:
            return self.opened.get(known.digest).package
        except PackageChanged:
            now = self.store.plugin(known.id)
            if now is None or now.state is State.REMOVED or now.digest != known.digest:
                # Nobody changed them: they were on their way out while this call was on its way in.
                code, allowed = "changed", "one that is there; call it again"
                self.events.refused("invoke", known.id, owner, known.digest, code)
                raise ConfigurationError("plugin", f"{known.id} was upgraded or removed just now", allowed) from None
            self.events.refused("invoke", known.id, owner, known.digest, "changed")
            raise

    # runs

    def _calls(self, standing: Standing, made: Policy, run: str, meter: Meter) -> tuple[RunCalls, Watch]:
        """The brokered calls of a run under this policy, and what they are judged by."""
        functions: Any = made.scopes.get(FUNCTIONS)
        # What stood then was a grant that stands, of a plugin that may be called, for its files: see _policy.
        seen = None if standing.at is None else (*standing.at, made.revision)
        watch = self.store.watch(made.plugin, made.owner, seen)
        gate = Gate(
            made.scopes,
            self.specs,
            self.adapters,
            made_at=made.revision,
            revision=watch,
            expires=made.expires,
            offered=None if functions is None else {FUNCTIONS: functions.names},
        )
        calls = RunCalls(
            gate,
            self.events.trail,
            run=run,
            plugin=made.plugin,
            owner=made.owner,
            calls=made.limits.calls,
            value_bytes=made.limits.frame_bytes,
            # From the first call on, so no earlier than the run itself ends.
            seconds=made.limits.wall_s,
            limits=made.limits,
            here=self._here,
            meter=meter,
        )
        return calls, watch

    def metered(self, made: Policy, limits: Limits, what: str) -> tuple[Meter, Limits]:
        """
        What counts the use of a run under this policy, and the limits that are left for it.

        Raises QuotaExceeded where a quota leaves it no processor time, and BackendError where that cannot be known.
        """
        meter = Meter(self.ledger, made.plugin, made.owner)
        try:
            left = meter.begin(limits.cpu_s)
        except QuotaExceeded:
            self.events.refused("invoke", made.plugin, made.owner, what, "quota")
            raise
        return meter, limits if left >= limits.cpu_s else msgspec.structs.replace(limits, cpu_s=left)

    def begin(self, standing: Standing, made: Policy, run: str, meter: Meter) -> RunCalls:
        """The calls of a run that is about to begin, known from here on to whoever revokes.  Raises GrantError."""
        calls, watch = self._calls(standing, made, run, meter)
        with self._lock:
            self._running[run] = made, calls, meter
            stopped = self._is_stopped(made.plugin, made.owner)
        # Whoever revoked before it was in there did not see it; this sees that they did.
        if stopped or watch() != made.revision:
            self.end(run, 0.0)
            raise GrantError("grant", "it was revoked just now", "a grant that stands")
        return calls

    def end(
        self,
        run: str,
        cpu_s: float | None = None,
        *,
        then: Callable[[], object] | None = None,
        later: bool = False,
    ) -> None:
        """
        A run is over and took so much processor time; None where that is not known.  Idempotent.

        It calls nothing any more on return.  What it used is written down, and ``then`` is called; with ``later``
        while whoever waits for its result goes on, for which ``then`` raises nothing.
        """
        with self._lock:
            found = self._running.pop(run, None)
        if found is not None:
            found[1].close()

        def written() -> None:
            if found is not None:
                found[2].end(cpu_s)
            if then is not None:
                then()

        if later:
            owed.owe(written)
        else:
            written()

    def cancel(self, plugin: str, owner: str | None = None) -> None:
        """Cancel what is in flight in this process; others look by themselves."""
        with self._lock:
            found = list(self._running.values())
        for made, calls, _ in found:
            if made.plugin == plugin and (owner is None or made.owner == owner):
                calls.revoke()

    def stop(self, plugin: str, owner: str | None, change: Callable[[], object]) -> None:
        """
        Let this process do nothing more for a plugin, and an owner or all: the change that ends it cannot be written.

        Calls that run are cancelled, every other one is refused, and before the next invocation ``change`` is tried
        again.
        """
        with self._lock:
            self._stopped[plugin, owner] = change
            found = list(self._running.values())
        for made, calls, _ in found:
            if made.plugin == plugin and (owner is None or made.owner == owner):
                calls.revoke(over=True)

    def go_on(self, plugin: str, owner: str | None) -> None:
        """What the store says is what holds again: for an owner, or with None for all of them."""
        with self._lock:
            for key in [key for key in self._stopped if key[0] == plugin and owner in (None, key[1])]:
                del self._stopped[key]

    def _is_stopped(self, plugin: str, owner: str) -> bool:
        return bool(self._stopped) and not self._stopped.keys().isdisjoint(((plugin, owner), (plugin, None)))

    def _check_stopped(self, plugin: str, owner: str) -> None:
        if not self._is_stopped(plugin, owner):
            return
        for key in ((plugin, owner), (plugin, None)):
            change = self._stopped.get(key)
            if change is None:
                continue
            try:
                change()
            except BackendError as error:
                self.events.refused("invoke", plugin, owner, "", "stopped")
                cause = f"it was stopped, and that cannot be written: {error.cause}"
                raise BackendError(f"calling {plugin}", cause, error.hint) from error
            except ConfigurationError:
                # Somebody else has removed it, or brought it where no way leads from: then that holds.
                pass
            with self._lock:
                self._stopped.pop(key, None)

    def close(self) -> None:
        """Close what was opened.  Idempotent."""
        owed.settle()
        self.adapters.close()
        self.events.settle()
        self.store.close()
        self.ledger.close()


def _code(standing: Standing, error: ConfigurationError) -> str:
    """Why nothing may run, in a word for the record."""
    if standing.known.state in (State.DISABLED, State.QUARANTINED):
        return standing.known.state.value
    if isinstance(error, PolicyError):
        return "expired" if error.field == "grant" else "not_permitted"
    return "not_granted"


def _host_tier(named: str | None) -> str | None:
    """The tier for plugins without one of their own; None is each one's default."""
    if named == "local":
        raise ConfigurationError("tier", named, "a tier that isolates: plugins never run unsandboxed")
    return None if named == "auto" else named


def check_source(known: Known, tier: Tier) -> None:
    """Raises PolicyError where code of strangers would run in a tier that is too weak for it, whoever has read it."""
    if known.source is Source.MARKETPLACE and tier.strength < _STRANGERS:
        raise PolicyError("tier", tier.value, "confined or a stronger one: the plugin is from the marketplace")

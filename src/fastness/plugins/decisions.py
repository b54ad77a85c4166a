"""
Decisions about plugins: what is installed, granted, revoked, moved and removed, each recorded.

What gives power is on the record before it is given; what takes power away is done first.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from typing import Any, TypeVar

from fastness import policy
from fastness.errors import AdapterError, BackendError, CapabilityError, ConfigurationError, GrantError, PolicyError
from fastness.grant import Grant, check_owner, kind_of
from fastness.manifest import Manifest
from fastness.plugins import installed, package, rows
from fastness.plugins.core import Core, check_source
from fastness.plugins.granting import make_grant
from fastness.plugins.shown import Shown, shown
from fastness.plugins.states import Known, State

__all__ = ["Decisions"]

T = TypeVar("T")


class Decisions:
    """Made for one host.  Methods block; see :class:`fastness.plugins.host.AsyncPluginHost` for what they do."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def show(self, plugin: str) -> Shown:
        """A plugin as its owner sees it."""
        core = self._core
        known = core.known(plugin)
        manifest = core.store.manifest(plugin)
        tier = core.tier_of(known, manifest)
        lacking = core.adapters.lacking(manifest)
        return shown(known, manifest, core.store.grants(plugin), tier, core.ceiling, core.specs, lacking)

    def install(self, path: str | os.PathLike[str], source: str, upgrade: bool) -> Shown:
        """Copy the files and note what they ask for."""
        from fastness.plugins.javascript import evaluate

        core = self._core
        origin = rows.source_of(source)
        found = package.read(path)
        manifest = package.manifest_of(found, core.specs, evaluate=evaluate)
        target = f"{manifest.version} {found.digest} {origin.value}"
        with core.events.before("upgrade" if upgrade else "install", manifest.id, target=target), installed.arriving():
            installed.install(found)
            before = core.store.plugin(manifest.id)
            if before is None or before.state is State.REMOVED:
                # Whoever removed the last of this id may not have come to the end of it.
                core.adapters.forget(manifest.id)
            after = core.store.install(manifest, found.digest, origin, upgrade=upgrade)
        core.opened.forget(found.digest)
        if before is not None and before.state is not State.REMOVED and before.trust and not after.trust:
            words = f"{before.tier} to {after.tier or 'default'}, as nobody has reviewed these files"
            # It is installed: what cannot be recorded just now is kept for later.
            with contextlib.suppress(BackendError):
                core.events.after("tier", manifest.id, target=words)
        if upgrade:
            self._prune()
        told = self.show(manifest.id)
        if told.known.digest != found.digest:
            # Whoever says yes to what comes back of this has looked at these files and at no others.
            raise ConfigurationError("plugin", f"{manifest.id} was upgraded just now", "one upgrade at a time")
        return told

    def grant(self, plugin: str, digest: str | None, **options: Any) -> Grant:
        """Let a grant stand, for files of this digest; ``options`` are those of :func:`make_grant`."""
        core = self._core
        known = core.known(plugin)
        if digest is not None and digest != known.digest:
            raise GrantError(
                "digest", digest, f"that of the files that are installed by now, {known.digest}; look at those first"
            )
        manifest = core.store.manifest(plugin)
        made = make_grant(manifest, core.ceiling, core.specs, digest=known.digest, **options)
        self._check_process(manifest, made)
        kinds = ", ".join(sorted(map(kind_of, made.allowed))) or "nothing"
        with core.events.before("grant", plugin, owner=made.owner, target=f"{kinds}; {known.digest}"):
            given = core.store.grant(made)
        core.go_on(plugin, given.owner)
        return given

    def _check_process(self, manifest: Manifest, grant: Grant) -> None:
        """Programs need a tier that runs them.  It is tried now: at their first call it would be too late to say so."""
        scope: Any = grant.scope("process")
        if scope is not None and scope.runs and manifest.scope("process") is not None:
            self._core.adapters.check_process(scope.tier)

    def revoke(self, plugin: str, owner: str | None) -> int:
        """End grants; how many stood."""
        core = self._core
        ended = self._taken(plugin, owner, lambda: core.store.revoke(plugin, owner))
        if not ended:
            # Nothing was taken away, and so there is nothing to record.
            return 0
        target = f"{ended} ended" if owner is not None else f"of all owners: {ended} ended"
        try:
            core.events.after("revoke", plugin, owner=owner or "", target=target)
        finally:
            self._unsent(plugin, owner)
        return ended

    def _unsent(self, plugin: str, owner: str | None) -> None:
        """Drop the signals that wait for a plugin: a grant that comes later is not for them."""
        try:
            self._core.adapters.unsent(plugin, owner)
        except AdapterError as error:
            # Nothing reaches it without a grant that stands.
            logging.getLogger("fastness").warning("signals that wait for %s were not dropped: %s", plugin, error)

    def take_back(self, made: Grant) -> None:
        """End a grant that nobody waited for, unless another one stands in its place by now."""
        core, plugin, owner = self._core, made.plugin, made.owner
        if self._taken(plugin, owner, lambda: core.store.revoke(plugin, owner, made_at=made.revision)):
            core.events.after("revoke", plugin, owner=owner, target="1 ended: whoever granted it gave up")

    def enable(self, plugin: str) -> Known:
        """Let it be called again."""
        core = self._core
        core.known(plugin)
        manifest = core.store.manifest(plugin)
        for grant in core.store.grants(plugin):
            self._check_process(manifest, grant)
        with core.events.before("enable", plugin):
            enabled = core.store.enable(plugin)
        core.go_on(plugin, None)
        return enabled

    def disable(self, plugin: str) -> Known:
        """Let nobody call it."""
        return self._end("disable", plugin, lambda: self._core.store.disable(plugin))

    def quarantine(self, plugin: str, why: str) -> Known:
        """Let nobody call it, for a reason."""
        return self._end("quarantine", plugin, lambda: self._core.store.quarantine(plugin, why))

    def _end(self, op: str, plugin: str, change: Callable[[], Known]) -> Known:
        known = self._taken(plugin, None, change)
        self._core.events.after(op, plugin, target=known.why)
        return known

    def _taken(self, plugin: str, owner: str | None, change: Callable[[], T]) -> T:
        """
        Make a change that takes power away, and cancel what is in flight.

        Where it cannot be written it holds in this process all the same; the error says that, and that it holds in no
        other.
        """
        core = self._core
        try:
            made = change()
        except BackendError as error:
            core.stop(plugin, owner, change)
            hint = f"{error.hint}; this process calls it no more meanwhile" if error.hint else ""
            raise BackendError(error.step, error.cause, hint) from error
        core.go_on(plugin, owner)
        core.cancel(plugin, owner)
        return made

    def remove(self, plugin: str) -> Known:
        """End it, and what was kept for it."""
        core = self._core
        gone = self._taken(plugin, None, lambda: core.store.remove(plugin))
        core.opened.forget(gone.digest)
        try:
            core.events.after("remove", plugin, target=f"{gone.version} {gone.digest}")
        finally:
            self._forget(plugin)
        return gone

    def _forget(self, plugin: str) -> None:
        """Delete the files of what was removed, and what was kept for it."""
        # With those of its earlier versions; and before what may fail because an adapter does.
        self._prune()
        try:
            self._core.adapters.forget(plugin)
        except (CapabilityError, TimeoutError) as error:
            fix = "a plugin of this id that is installed later does not get it: it is tried again before"
            raise BackendError(f"deleting what {plugin} kept", error, fix) from error

    def export_memory(self, owner: str, plugin: str | None) -> list[dict[str, Any]]:
        """What is remembered for an owner."""
        check_owner(owner)
        adapter = self._core.adapters.remembers()
        with self._core.events.before("export", plugin or "", owner=owner, target="memory"):
            return list(adapter.export(owner, plugin))

    def erase_memory(self, owner: str, plugin: str | None) -> int:
        """Forget it."""
        check_owner(owner)
        count = int(self._core.adapters.remembers().erase(owner, plugin))
        if count:
            self._core.events.after("erase", plugin or "", owner=owner, target=f"memory: {count}")
        return count

    def erase_signals(self, owner: str, plugin: str | None) -> int:
        """Forget what waits for an owner."""
        check_owner(owner)
        count = int(self._core.adapters.signals().erase(owner, plugin))
        if count:
            self._core.events.after("erase", plugin or "", owner=owner, target=f"signals: {count}")
        return count

    def _prune(self) -> None:
        installed.prune(lambda: {one.digest for one in self._core.store.plugins()})

    def set_tier(self, plugin: str, tier: str, trust: str) -> Known:
        """Choose its tier."""
        core = self._core
        known = core.known(plugin)
        manifest = core.store.manifest(plugin)
        if tier:
            chosen = policy.check_tier(manifest, tier, trust)
            check_source(known, chosen)
            if chosen.value not in core.ceiling.tiers:
                allowed = ", ".join(core.ceiling.tiers) or "no tier"
                raise PolicyError("tier", chosen.value, f"{allowed}: that is what the operator permits")
        words = f"{known.tier or 'default'} to {tier or 'default'}" + (f", {trust}" if trust and tier else "")
        with core.events.before("tier", plugin, target=words):
            return core.store.set_tier(plugin, tier, trust)

"""
A small host of plugins in this process: it registers, starts and stops them, and what one provides others look up.

What a plugin is registered as decides how far it is trusted.  An object as it is runs here, in the caller's thread,
with all that this process may do; the path of a file runs in a guest, unless its owner says otherwise.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
import time
import types
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from fastness.errors import ConfigurationError, FastnessError, PluginError, PluginViolation
from fastness.plugins import phases
from fastness.plugins.ledger import MediationPolicy
from fastness.plugins.mediation import SandboxedPlugin, sandbox_plugin
from fastness.plugins.plugin_states import ENDED, PluginFault, PluginState
from fastness.plugins.told import told
from fastness.plugins.words import LEVELS, LOG_MAX, answer, id_of, in_guest, phase_of, visible
from fastness.tier import Tier

__all__ = ["DefaultPluginHost", "PluginContext", "PluginFault", "PluginState"]

_log = logging.getLogger("fastness.plugins")
# What goes wrong is collected; who wants it on a terminal too says so.
_log.addHandler(logging.NullHandler())
_NAME_MAX = 200
_MEDIATED = Tier.MEDIATED.value


class PluginContext:
    """
    The ctx of a plugin in this process: everything that the host has, for whoever is trusted with all of it.

    In an event loop ``lookup``, ``provide`` and ``declare_capability`` give something to await, as in a guest.
    """

    #: What a refused operation raises, under the name that guests know it by.
    Refused = PluginViolation

    def __init__(self, host: DefaultPluginHost, plugin: str) -> None:
        self._host = host
        self._plugin = plugin
        self.workspace_root = host.workspace_root

    def lookup(self, name: str) -> Any:
        """The value that is provided under this name, or None."""
        return answer(lambda: self._host.lookup(name))

    def provide(self, name: str, value: Any) -> Any:
        """Register a value under this name.  Raises PluginError where somebody else's value has it."""
        return answer(lambda: self._host._provide(self._plugin, name, value))

    def declare_capability(self, tag: str) -> Any:
        """Announce what the plugin is able to do."""
        return answer(lambda: self._host._declare(self._plugin, tag))

    def log(self, level: str, text: str) -> None:
        """A line for the host's log."""
        if level not in LEVELS:
            raise ValueError(f"a level is one of {', '.join(LEVELS)}")
        self._host._logged(self._plugin, level, str(text)[:LOG_MAX])


class _Entry:
    """A registered plugin."""

    def __init__(self, plugin: Any, ctx: PluginContext) -> None:
        self.plugin = plugin
        self.ctx = ctx
        self.state = PluginState.REGISTERED


class DefaultPluginHost:
    """
    Registers plugins, runs their phases, and collects what goes wrong: no plugin stops another, or this host.

    ``tiers`` maps ids to the tier that a plugin runs in, over what it is registered with: to move one is one setting.
    ``policies`` maps ids to the policies of those that a tier was chosen for.  ``on_log(plugin, level, text)`` gets
    their logs; without it they go to the logger ``fastness.plugins``.  Blocking; threads may share it.
    """

    def __init__(
        self,
        workspace_root: str | os.PathLike[str] | None = None,
        *,
        tiers: Mapping[str, str] | None = None,
        policies: Mapping[str, MediationPolicy | Mapping[str, Any]] | None = None,
        on_log: Callable[[str, str, str], object] | None = None,
    ) -> None:
        self.workspace_root = None if workspace_root is None else os.path.abspath(os.fspath(workspace_root))
        self._tiers = {name: Tier.parse(tier).value for name, tier in (tiers or {}).items()}
        self._policies = dict(policies or {})
        self._on_log = on_log
        self._lock = threading.Lock()
        #: Held while phases run: one start or stop at a time.
        self._turn = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        #: Names to values and whose they are; "" is the host.
        self._values: dict[str, tuple[str, Any]] = {}
        self._tags: dict[str, set[str]] = {}
        self._faults: list[PluginFault] = []

    def register(
        self,
        plugin: Any,
        *,
        tier: str | None = None,
        policy: MediationPolicy | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """
        Take a plugin in; what will run is returned.  Nothing of it runs before :meth:`start`.

        ``plugin`` is an object or a module with a manifest, what ``sandbox_plugin`` or ``IsolatedPlugin.load`` made, or
        the path of a plugin.  ``tier`` and ``policy`` choose for an object or a module: without both it runs as it is,
        here; ``mediated`` runs it here under the policy; any other tier loads a module's file into a guest of that
        tier.  A path runs in a guest, of the plugin's default tier unless given; ``mediated`` runs it here.
        ``options`` are those of ``IsolatedPlugin.load``.

        Raises ConfigurationError, also where the id is taken; what loading raises.
        """
        made = self._made(plugin, tier, policy, options)
        name = id_of(made)
        for phase in phases.PHASES:
            phase_of(made, phase)
        with self._lock:
            taken = name in self._entries
            if not taken:
                self._entries[name] = _Entry(made, PluginContext(self, name))
        if taken:
            if made is not plugin and in_guest(made):
                made.close()
            raise ConfigurationError("plugin", name, "an id that no other plugin of this host has")
        return made

    def start(self) -> dict[str, PluginState]:
        """Set up every plugin that is not, then start those that are; the states of all.  Errors are collected."""
        with self._turn:
            for entry in self._in(PluginState.REGISTERED, PluginState.STOPPED):
                self._run(entry, "setup", PluginState.READY)
            for entry in self._in(PluginState.READY):
                self._run(entry, "start", PluginState.STARTED)
        return self.states()

    def stop(self) -> dict[str, PluginState]:
        """Stop every plugin, the last one first, and end all guests; the states of all.  Errors are collected."""
        with self._turn:
            for entry in reversed(self._in(PluginState.READY, PluginState.STARTED)):
                self._run(entry, "stop", PluginState.STOPPED)
            for entry in self._in(*PluginState):
                if in_guest(entry.plugin):
                    entry.plugin.close()
        return self.states()

    def state(self, plugin: str) -> PluginState:
        """Where a plugin stands.  Raises ConfigurationError."""
        found = self.states().get(plugin)
        if found is None:
            raise ConfigurationError("plugin", plugin, "the id of a plugin that was registered")
        return found

    def states(self) -> dict[str, PluginState]:
        """Where each plugin stands, by its id.  A guest that has ended by itself is an error by now."""
        # Not while phases run: then they find out themselves.
        if self._turn.acquire(blocking=False):
            try:
                for entry in self._in(PluginState.READY, PluginState.STARTED):
                    if in_guest(entry.plugin) and not getattr(entry.plugin, "alive", True):
                        self._fail(entry, "running", PluginError(f"plugin {entry.ctx._plugin!r}: its guest has ended"))
                        self._withdraw(entry.ctx._plugin)
            finally:
                self._turn.release()
        with self._lock:
            return {name: entry.state for name, entry in self._entries.items()}

    def errors(self) -> tuple[PluginFault, ...]:
        """What went wrong so far, in the order of its coming."""
        self.states()
        with self._lock:
            return tuple(self._faults)

    def plugin(self, plugin: str) -> Any:
        """What was registered under this id.  Raises ConfigurationError."""
        self.state(plugin)
        return self._entries[plugin].plugin

    # what plugins share

    def provide(self, name: str, value: Any) -> None:
        """Register a value of the host's own for plugins to look up."""
        self._provide("", name, value)

    def lookup(self, name: str) -> Any:
        """The value that is provided under this name, or None."""
        with self._lock:
            found = self._values.get(name)
        return None if found is None else found[1]

    def provided(self) -> dict[str, str]:
        """Every name that is provided, and by which plugin; the empty text is the host."""
        with self._lock:
            return {name: owner for name, (owner, _) in self._values.items()}

    def declared(self) -> dict[str, tuple[str, ...]]:
        """Every tag that was declared, and by which plugins."""
        with self._lock:
            return {tag: tuple(sorted(owners)) for tag, owners in self._tags.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # how

    def _made(self, plugin: Any, tier: str | None, policy: Any, options: dict[str, Any]) -> Any:
        if isinstance(plugin, (str, os.PathLike)):
            return self._of_path(plugin, tier, policy, options)
        name = id_of(plugin)
        chosen = self._tiers.get(name, None if tier is None else Tier.parse(tier).value)
        policy = self._policies.get(name) if policy is None else policy
        if in_guest(plugin) and chosen not in (None, getattr(plugin, "tier", None)):
            raise ConfigurationError("tier", chosen, f"none, as the plugin {name!r} was loaded into a guest already")
        if in_guest(plugin) or (isinstance(plugin, SandboxedPlugin) and policy is None and chosen in (None, _MEDIATED)):
            return plugin if policy is None else sandbox_plugin(plugin, policy)
        if chosen in (None, _MEDIATED):
            if options:
                raise ConfigurationError(next(iter(options)), options, "nothing, for a plugin in this process")
            return plugin if chosen is None and policy is None else sandbox_plugin(plugin, policy)
        file = getattr(plugin, "__file__", None)
        if not isinstance(plugin, types.ModuleType) or file is None:
            allowed = "mediated, as this is an object of this process; register the path of its file, or its module"
            raise ConfigurationError("tier", chosen, allowed)
        from fastness.plugins.isolated import IsolatedPlugin

        return IsolatedPlugin.load(file, tier=chosen, policy=policy, **options)

    def _of_path(self, path: Any, tier: str | None, policy: Any, options: dict[str, Any]) -> Any:
        from fastness.plugins.loading import read

        name = ""
        if self._tiers or (policy is None and self._policies):
            name = read(path, options.get("read_root")).manifest.id
            tier = self._tiers.get(name, tier)
            policy = self._policies.get(name) if policy is None else policy
        made = self._loaded(path, tier, policy, options)
        if name and id_of(made) != name:
            # It was written to between the two: what was chosen was chosen for another plugin.
            if in_guest(made):
                made.close()
            raise ConfigurationError("plugin", id_of(made), f"{name!r}, as it was a moment ago")
        return made

    def _loaded(self, path: Any, tier: str | None, policy: Any, options: dict[str, Any]) -> Any:
        from fastness.plugins.isolated import IsolatedPlugin

        if tier is not None and Tier.parse(tier) is Tier.MEDIATED:
            from fastness.plugins.in_process import FilePlugin

            if options:
                raise ConfigurationError(next(iter(options)), options, "nothing, for a plugin in this process")
            return sandbox_plugin(FilePlugin(path), policy)
        return IsolatedPlugin.load(path, tier=tier, policy=policy, **options)

    def _in(self, *states: PluginState) -> list[_Entry]:
        with self._lock:
            return [entry for entry in self._entries.values() if entry.state in states]

    def _run(self, entry: _Entry, phase: str, then: PluginState) -> None:
        function = phase_of(entry.plugin, phase)
        plugin = entry.ctx._plugin
        if phase == "setup":
            with self._lock:
                entry.state = PluginState.REGISTERED
        try:
            if function is not None:
                _call(function, entry.ctx, plugin, phase)
        except Exception as error:  # noqa: BLE001  # whatever a plugin raises is collected, and stops nobody else
            self._fail(entry, phase, told(error, plugin, phase))
        else:
            with self._lock:
                entry.state = then
        if entry.state in ENDED:
            self._withdraw(plugin)

    def _fail(self, entry: _Entry, phase: str, error: Exception) -> None:
        plugin = entry.ctx._plugin
        dead = getattr(entry.plugin, "dead", False) is True
        fault = PluginFault(plugin=plugin, phase=phase, error=error, at=time.time())
        with self._lock:
            entry.state = PluginState.DEAD if dead else PluginState.ERROR
            self._faults.append(fault)
        _log.error("plugin %s: %s failed: %s", plugin, phase, visible(str(error))[:500])
        if in_guest(entry.plugin):
            try:
                entry.plugin.close()
            except FastnessError as more:
                _log.error("plugin %s: its guest could not be ended: %s", plugin, visible(str(more))[:500])

    def _withdraw(self, plugin: str) -> None:
        """What a plugin provided goes with it: nobody finds half of it."""
        with self._lock:
            for name in [name for name, (owner, _) in self._values.items() if owner == plugin]:
                del self._values[name]
            for tag in list(self._tags):
                self._tags[tag].discard(plugin)
                if not self._tags[tag]:
                    del self._tags[tag]

    def _provide(self, plugin: str, name: str, value: Any) -> None:
        _check_name(name)
        with self._lock:
            self._check_lives(plugin)
            owner = self._values.get(name, (plugin, None))[0]
            if owner == plugin:
                self._values[name] = (plugin, value)
        if owner != plugin:
            whose = f"plugin {owner!r}" if owner else "the host"
            raise PluginError(f"{visible(name)!r} is provided by {whose} already")

    def _declare(self, plugin: str, tag: str) -> None:
        _check_name(tag)
        with self._lock:
            self._check_lives(plugin)
            self._tags.setdefault(tag, set()).add(plugin)

    def _check_lives(self, plugin: str) -> None:
        # What one has provided is withdrawn once, when it ends: nothing may come after that.
        entry = self._entries.get(plugin)
        if entry is not None and entry.state in ENDED:
            raise PluginError(f"plugin {plugin!r} has ended: it is {entry.state.value}")

    def _logged(self, plugin: str, level: str, text: str) -> None:
        if self._on_log is not None:
            self._on_log(plugin, level, text)
        else:
            _log.log(logging.getLevelNamesMapping()[level.upper()], "plugin %s: %s", plugin, visible(text))


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= _NAME_MAX:
        raise PluginError(f"a name is a text of 1 to {_NAME_MAX} characters")


def _call(function: Callable[..., Any], ctx: PluginContext, plugin: str, phase: str) -> None:
    """Call a phase here, and await it where it is a coroutine: in a thread of its own where this one has a loop."""
    try:
        value = function(ctx)
    except SystemExit as error:
        raise told(error, plugin, phase) from None
    if not hasattr(type(value), "__await__"):
        return

    async def awaited() -> None:
        await value

    if phases.in_loop():
        phases.run(plugin, phase, 0, lambda: contextvars.copy_context().run(asyncio.run, awaited()))
    else:
        asyncio.run(awaited())

"""
Mediation: what a plugin does to its host goes through a policy, in this process or out of it.

It is discipline, not isolation: code in this process can reach whatever this process can.  For code that nobody here
wrote, load it with :mod:`fastness.plugins.isolated`, which holds each of its calls to the same policy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from fastness.broker.trail import Trail
from fastness.errors import PluginError, PluginTimeout, PluginViolation
from fastness.plugins import phases, records
from fastness.plugins.ledger import Decision, Ledger, MediationPolicy, policy_of
from fastness.plugins.words import LEVELS, LOG_MAX, answer, id_of, in_guest, manifest_of, phase_of, settled
from fastness.tier import Tier

__all__ = ["Decision", "MediatedContext", "MediationPolicy", "SandboxedPlugin", "sandbox_plugin"]


class MediatedContext:
    """
    The ctx of a plugin under a policy.  Each operation is decided, written down, and only then handed on.

    In an event loop each gives something to await, as in a guest.  ``trail`` is where it is also recorded, committed
    before it happens; without one whoever made this records it.
    """

    __slots__ = ("declare_capability", "log", "lookup", "provide")

    #: What a denied operation raises, under the name that guests know it by.
    Refused = PluginViolation

    def __init__(self, inner: Any, ledger: Ledger, trail: Callable[[], Trail] | None = None) -> None:
        # The host's own ctx is reachable from none of the attributes: not a wall, but nobody walks there by mistake.
        def held(operation: str, name: object, act: Callable[[], Any]) -> Any:
            return answer(lambda: _held(ledger, trail, operation, name, act))

        def lookup(name: str) -> Any:
            """The value that is provided under this name, or None."""
            return held("lookup", name, lambda: inner.lookup(name))

        def provide(name: str, value: Any) -> Any:
            """Register a value under this name."""
            return held("provide", name, lambda: inner.provide(name, value))

        def declare_capability(tag: str) -> Any:
            """Announce what the plugin is able to do."""
            return held("declare_capability", tag, lambda: inner.declare_capability(tag))

        def log(level: str, text: str) -> None:
            """A line for the host's log."""
            if level not in LEVELS:
                raise ValueError(f"a level is one of {', '.join(LEVELS)}")
            inner.log(level, str(text)[:LOG_MAX])

        self.lookup, self.provide = lookup, provide
        self.declare_capability, self.log = declare_capability, log

    def __repr__(self) -> str:
        return "<ctx: lookup, provide, declare_capability, log; each held to a policy>"


def _held(
    ledger: Ledger, trail: Callable[[], Trail] | None, operation: str, name: object, act: Callable[[], Any]
) -> Any:
    """Decide, record, do, record.  What cannot be recorded does not happen: BackendError."""
    try:
        target = ledger.decide(operation, name)
    except PluginViolation as error:
        if trail is not None:
            records.denied(trail(), ledger.plugin, operation, error.target, error.code)
        raise
    if trail is None:
        return settled(act())
    return records.operation(trail(), ledger.plugin, operation, target, lambda: settled(act()))


class SandboxedPlugin:
    """
    A plugin whose ctx is held to a policy and whose phases are held to their times.  Made by :func:`sandbox_plugin`.

    It registers like any plugin.  ``sandbox`` is its :class:`Ledger`, with ``sandbox.audit()`` and ``sandbox.policy``.
    """

    def __init__(self, plugin: Any, policy: MediationPolicy) -> None:
        self.id = id_of(plugin)
        self.manifest = manifest_of(plugin)
        self.sandbox = Ledger(self.id, policy)
        #: Whether its code runs in a guest, which can be ended, and not in this process.
        self.in_guest = in_guest(plugin)
        self._plugin = plugin
        self._ctx: MediatedContext | None = None
        self._dead = ""
        for phase in phases.PHASES:
            phase_of(plugin, phase)

    @property
    def dead(self) -> bool:
        """Whether a phase goes on past its time in a thread that nothing can end."""
        return bool(self._dead)

    @property
    def alive(self) -> bool:
        """Whether its guest runs; True of what runs in this process."""
        return bool(self._plugin.alive) if self.in_guest else True

    def audit(self) -> tuple[Decision, ...]:
        """Every decision so far, oldest first."""
        return self.sandbox.audit()

    def setup(self, ctx: Any) -> None:
        """Run the plugin's ``setup``.  Raises what it raises, PluginViolation, PluginTimeout."""
        self._check_alive()
        self.sandbox.open()
        self._ctx = self._mediated(ctx)
        self._run("setup")

    def start(self, ctx: Any) -> None:
        """Run its ``start``, with the ctx of its setup."""
        self._ctx = self._ctx or self._mediated(ctx)
        self._run("start")

    def stop(self, ctx: Any) -> None:
        """Run its ``stop``; its ctx refuses everything from then on."""
        self._ctx = self._ctx or self._mediated(ctx)
        try:
            self._run("stop")
        finally:
            self.sandbox.close("the plugin was stopped")

    def close(self) -> None:
        """Its ctx refuses everything from now on, and its guest is ended, where it has one.  Idempotent."""
        self.sandbox.close("the plugin was ended")
        if self.in_guest:
            self._plugin.close()

    def _mediated(self, ctx: Any) -> MediatedContext:
        # What comes from a guest has been recorded by its broker.
        return MediatedContext(ctx, self.sandbox, None if self.in_guest else records.open_trail)

    def _check_alive(self) -> None:
        if self._dead:
            raise PluginError(f"plugin {self.id!r} is dead: {self._dead}; nothing of it is called again")

    def _run(self, phase: str) -> None:
        self._check_alive()
        function = phase_of(self._plugin, phase)
        if function is None:
            return
        seconds = self.sandbox.policy.seconds(phase)
        try:
            with self._recorded(phase):
                phases.run(self.id, phase, seconds, function, self._ctx, end=lambda: self._over(phase))
        except PluginTimeout as error:
            if error.dead:
                self._dead = f"its {phase} goes on past its time in a thread that nothing can end"
            raise

    def _recorded(self, phase: str) -> contextlib.AbstractContextManager[None]:
        # Code that runs here is recorded like a run without a sandbox, which it is; a guest's plugin does so itself.
        if self.in_guest:
            return contextlib.nullcontext()
        return records.phase(records.open_trail(), self.id, phase, Tier.MEDIATED.value)

    def _over(self, phase: str) -> None:
        """A phase is past its time: its ctx refuses everything before anybody is told."""
        self.sandbox.close(f"its {phase} took longer than it may")
        if self.in_guest:
            # Then the thread that waits for it comes back.
            self._plugin.close()


def sandbox_plugin(plugin: Any, policy: MediationPolicy | Mapping[str, Any] | None = None) -> SandboxedPlugin:
    """
    Hold a plugin to a policy: each operation of its ctx, and the time of each of its phases.

    ``plugin`` is an object, or a module, whose manifest has an id; ``setup(ctx)``, ``start(ctx)`` and ``stop(ctx)`` are
    optional, plain or ``async``.  Without a policy, or with one that lists nothing, it may do nothing to its host.
    What it does to this process is not held back: see ``IsolatedPlugin``.  Raises ConfigurationError.
    """
    return SandboxedPlugin(plugin, policy_of(policy))

"""
A plugin in a guest, registered like one in this process: its phases run there, and each call of its ctx is judged here.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any

import msgspec

from fastness.backends import registry
from fastness.backends.base import Backend, BackendSession, Staged
from fastness.broker import portal
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.broker.trail import Trail
from fastness.capability import Adapter, Scope, Spec
from fastness.errors import ConfigurationError, PluginError, PluginTimeout, PluginViolation
from fastness.limits import MIB, RANGES, Limits
from fastness.manifest import Manifest
from fastness.plugins import bridge, loading, records
from fastness.plugins.ledger import WORDS, Decision, Ledger, MediationPolicy, check_seconds, policy_of
from fastness.plugins.mediation import MediatedContext
from fastness.policy import default_tier
from fastness.runner import request as requests
from fastness.runner.runner import Runner, result
from fastness.runs import OutcomeKind, RunRequest, RunResult
from fastness.tier import Probe, Tier
from fastness.waiting import ThreadWaiting, drive
from fastness.wire import values

__all__ = ["IsolatedPlugin"]

#: Bytes that a plugin may add on top of the warm guest.
MEMORY = 128 * MIB
#: Bytes that the stack of its first thread, in which its phases run, may take in tiers of processes.
STACK = 4 * MIB
_TIERS = (Tier.WORKER, Tier.CONFINED, Tier.ISOLATED, Tier.WASM, Tier.CONTAINER)
#: Seconds that opening a guest may take beside the phase's own.
_OPEN_S = 30.0
_CLOSE_S = 5.0
_LOG_MAX = 4096


class IsolatedPlugin:
    """
    A plugin whose code runs in a guest and nowhere else.  Made by :meth:`load`; registers like any plugin.

    ``manifest`` is what it says of itself.  ``results`` are the ``RunResult`` of each phase that ran.  ``left_out`` are
    entries of its folder that the guest does not get, each with the reason.

    The guest is made by ``setup`` and is one for all phases.  It is ended for good by ``stop``, by ``close``, and by
    any phase that does not end well: an error, a crash, an exit, or the end of its time.
    """

    #: Whoever waits for a phase can end it by ``close``.
    in_guest = True

    def __init__(
        self,
        loaded: loading.Loaded,
        policy: MediationPolicy,
        limits: Limits,
        tier: Tier,
        seconds: Mapping[str, float],
        allow_network: bool,
        trail: Trail | None,
    ) -> None:
        self.manifest: Manifest = loaded.manifest
        self.id = loaded.manifest.id
        self.tier = tier
        self.left_out = loaded.left_out
        self.sandbox = Ledger(self.id, policy)
        self._loaded = loaded
        self._limits = limits
        self._seconds = dict(seconds)
        self._trail = trail
        self._allow_network = allow_network
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        """What one life of it takes, from ``setup`` to ``stop``."""
        self.results: dict[str, RunResult] = {}
        self._waiting = ThreadWaiting()
        self._runner = Runner(lambda wanted: registry.make(wanted, engines=1, waiting=self._waiting), self._waiting)
        self._bridge = bridge.Bridge(values.MAX_BYTES)
        self._net = _network() if self._allow_network else None
        self._session: BackendSession | None = None
        self._with: tuple[Backend, Probe] | None = None
        self._staged = False
        self._over = ""
        self._stopped = False
        self._run_id = os.urandom(8).hex()
        _all.add(self)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        policy: MediationPolicy | Mapping[str, Any] | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        tier: str | None = None,
        read_root: str | os.PathLike[str] | None = None,
        setup_timeout: float | None = None,
        start_timeout: float | None = None,
        stop_timeout: float | None = None,
        allow_network: bool = False,
        trail: Trail | None = None,
    ) -> IsolatedPlugin:
        """
        Read a plugin, and prove the tier that it will run in.  None of its code runs yet.

        ``path`` is a module of Python or JavaScript with a manifest in it, or a folder with a ``plugin.toml``.
        ``policy`` says what it may provide, look up and declare: nothing unless listed.  ``limits`` change those of its
        guest, whose memory is 128 MiB unless given; its stack is 4 MiB where it is a process, and cannot be chosen.
        ``tier`` is ``isolated`` for Python and ``wasm`` for JavaScript unless given.  ``read_root`` is the one folder
        whose files the guest gets, as a copy that is its own: by default the folder that the module is in.  Timeouts
        are seconds, 0 for none; unless given they are the policy's: 10, 10 and 5.  With ``allow_network`` it may send
        requests by ``ctx.net.request`` to public addresses; it never has a socket.  Calls are recorded in ``trail``, or
        else in this home's audit trail.

        Raises ConfigurationError, ManifestError, StagingError; TierUnavailable where the tier does not hold here.
        """
        rules = policy_of(policy)
        given = {"setup": setup_timeout, "start": start_timeout, "stop": stop_timeout}
        seconds = {
            phase: rules.seconds(phase) if value is None else check_seconds(f"{phase}_timeout", value)
            for phase, value in given.items()
        }
        chosen = _tier(tier)
        bounds = _limits(limits, seconds)
        if not isinstance(allow_network, bool):
            raise ConfigurationError("allow_network", allow_network, "True or False")
        loaded = loading.read(path, read_root)
        where = chosen or default_tier(loaded.manifest)
        made = cls(loaded, rules, bounds, where, seconds, allow_network, trail)
        try:
            drive(made._runner.plan(where.value, loaded.manifest.runtime))
        except BaseException:
            made.close()
            raise
        return made

    def audit(self) -> tuple[Decision, ...]:
        """Every decision about its calls so far, oldest first."""
        return self.sandbox.audit()

    @property
    def alive(self) -> bool:
        """Whether its guest runs: from its setup until it is ended, or ends by itself."""
        session = self._session
        return session is not None and not self._over and session.alive

    def setup(self, ctx: Any) -> None:
        """
        Make the guest, load the module there and call its ``setup``.  Raises PluginError and what it is made of.

        After a ``stop`` that went well it begins anew, in another guest.
        """
        with self._lock:
            if self._stopped:
                self._begin()
                self.sandbox.open()
            elif self._session is not None and not self._over:
                raise PluginError(f"plugin {self.id!r} is set up already")
        self._phase("setup", ctx)

    def start(self, ctx: Any) -> None:
        """Call its ``start`` in the same guest."""
        if self._session is None and not self._over:
            raise PluginError(f"plugin {self.id!r} is not set up")
        self._phase("start", ctx)

    def stop(self, ctx: Any) -> None:
        """Call its ``stop``, and end the guest.  One that was not set up has nothing to stop."""
        try:
            if self._session is not None or self._over:
                self._phase("stop", ctx)
        finally:
            self.close()
        self._stopped = True

    def close(self) -> None:
        """End the guest, also while a phase runs in it.  Idempotent; any thread; a forked child leaves it alone."""
        if self._pid != os.getpid():
            return
        with self._lock:
            # One that has not begun yet may still do so.
            self._stopped = self._stopped or (not self._over and self._session is None)
            self._over = self._over or "its guest was ended"
            session = self._session
        self.sandbox.close(self._over)
        self._bridge.lead_to(None)
        _all.discard(self)
        if session is not None:
            drive(session.aclose())
        self._runner.cancel_all()
        drive(self._runner.aclose())
        if self._net is not None:
            with contextlib.suppress(TimeoutError):
                portal.wait(self._net.aclose(), _CLOSE_S)

    # how

    def _phase(self, phase: str, ctx: Any) -> None:
        if self._pid != os.getpid():
            raise ConfigurationError("plugin", self.id, "a plugin that this process loaded itself")
        if self._over:
            raise PluginError(f"plugin {self.id!r} cannot {phase}: {self._over}; load it again")
        with records.phase(self._the_trail(), self.id, phase, self.tier.value, run=self._run_id):
            self._recorded(phase, ctx)

    def _recorded(self, phase: str, ctx: Any) -> None:
        denied = self.sandbox.denied
        self._bridge.lead_to(MediatedContext(ctx, self.sandbox))
        try:
            outcome = self._run(phase, ctx)
        except TimeoutError:
            self._end(f"its {phase} took longer than it may")
            raise self._timeout(phase) from None
        except BaseException as error:
            self._end(f"its {phase} could not be run ({type(error).__name__})")
            raise
        self.results[phase] = outcome
        # The program of a phase ends with whether there is such a function; one that exits says nothing.
        if not outcome.ok or type(outcome.value) is not bool:
            self._end(f"its {phase} ended as {outcome.outcome.kind.value}")
            raise self._failure(phase, outcome, self.sandbox.denied > denied)

    def _run(self, phase: str, ctx: Any) -> RunResult:
        seconds = self._seconds[phase]
        request = self._request(phase)
        # What the guest does has its own limit; this bounds what comes before, such as the start of a zygote.
        with self._waiting.limit(seconds + _OPEN_S if seconds else None):
            session, with_ = self._opened(request)
            staged = Staged() if self._staged else Staged(files=self._loaded.files)
            self._staged = True

            def sink(name: str, data: Any) -> None:
                if name == "log":
                    ctx.log(data["level"], str(data["text"])[:_LOG_MAX])

            report = drive(session.execute(request, staged, sink))
        return result(*with_, request, report, self._run_id)

    def _opened(self, request: RunRequest) -> tuple[BackendSession, tuple[Backend, Probe]]:
        if self._session is not None and self._with is not None:
            return self._session, self._with
        session, backend, probe = drive(self._runner.open_session(request, self._calls()))
        with self._lock:
            self._session, self._with = session, (backend, probe)
            over = self._over
        if over:
            # It was closed while the guest was made.
            drive(session.aclose())
            raise PluginError(f"plugin {self.id!r}: {over}")
        return session, (backend, probe)

    def _request(self, phase: str) -> RunRequest:
        wall = self._seconds[phase] or RANGES["wall_s"][1]
        runtime = self.manifest.runtime
        options: dict[str, Any] = {
            "runtime": runtime,
            "tenant": f"plugin:{self.id}",
            "limits": msgspec.structs.replace(self._limits, wall_s=wall),
        }
        if runtime == "python":
            options |= {"preload": (), "filename": "<fastness phase>"}
        made = requests.make(self._code(phase), options, {})
        return msgspec.structs.replace(made, tier=self.tier.value, stack=STACK)

    def _code(self, phase: str) -> str:
        return loading.code_of(self.manifest.runtime, self._loaded.entry, phase)

    def _has(self) -> tuple[dict[str, Scope], dict[str, Spec], dict[str, Adapter]]:
        """What its ctx has: scopes, specs and adapters by kind."""
        scopes: dict[str, Scope] = {bridge.KIND: bridge.CtxScope()}
        specs: dict[str, Spec] = {bridge.KIND: bridge.SPEC}
        adapters: dict[str, Adapter] = {bridge.KIND: self._bridge}
        if self._net is not None:
            from fastness.capabilities.net import SPEC, NetScope

            scopes["net"] = NetScope(hosts=("*",), schemes=("https", "http"), ports=(443, 80))
            specs["net"], adapters["net"] = SPEC, self._net
        return scopes, specs, adapters

    def _calls(self) -> RunCalls:
        return RunCalls(
            Gate(*self._has()),
            self._the_trail(),
            run=self._run_id,
            plugin=records.recorded_as(self.id),
            owner="",
            calls=self._limits.calls,
            value_bytes=values.MAX_BYTES,
            # Each phase has its time, and ends what it has in flight.
            deadline=math.inf,
            limits=self._limits,
            here=self._waiting.blocks,
        )

    def _the_trail(self) -> Trail:
        return records.open_trail() if self._trail is None else self._trail

    def _end(self, why: str) -> None:
        with self._lock:
            self._over = self._over or why
        self.close()

    def _timeout(self, phase: str) -> PluginTimeout:
        seconds = self._seconds[phase]
        text = f"{phase} of plugin {self.id!r} took longer than its {seconds:g} s; its guest was ended"
        return PluginTimeout(text, plugin=self.id, phase=phase, seconds=seconds)

    def _failure(self, phase: str, outcome: RunResult, denied: bool) -> PluginError:
        kind = outcome.outcome.kind
        if kind is OutcomeKind.TIMEOUT:
            return self._timeout(phase)
        detail = outcome.outcome.detail or _last_line(outcome.stderr)
        how = f"ended as {kind.value}" if not outcome.ok else "ended its process"
        text = f"{phase} of plugin {self.id!r} {how}" + (f": {detail[:300]}" if detail else "")
        last = next((row for row in reversed(self.audit()) if row.decision == "denied"), None)
        if kind is OutcomeKind.GUEST_ERROR and denied and last is not None:
            what = f"it may not {WORDS[last.operation]} {last.target!r}"
            return PluginViolation(
                f"{phase} of plugin {self.id!r} failed: {what}: {last.reason}",
                plugin=self.id,
                operation=last.operation,
                target=last.target,
                reason=last.reason,
            )
        return PluginError(text)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _network() -> Any:
    from fastness.capabilities.net import AddressGuard, Net

    return Net(AddressGuard())


def _tier(name: str | None) -> Tier | None:
    if name is None:
        return None
    tier = Tier.parse(name)
    if tier not in _TIERS:
        allowed = ", ".join(one.value for one in _TIERS)
        raise ConfigurationError("tier", tier.value, f"{allowed}; for a plugin of your own, sandbox_plugin(plugin)")
    return tier


def _limits(given: Limits | Mapping[str, Any] | None, seconds: Mapping[str, float]) -> Limits:
    if isinstance(given, Limits):
        return given
    cpu_s = max(30.0, *(value or RANGES["cpu_s"][1] for value in seconds.values()))
    base = Limits(memory=MEMORY, cpu_s=cpu_s)
    return requests.make("", {"limits": given}, {"limits": base}).limits


# Weak: a plugin that nobody holds any more must not keep its guest until the process ends.
_all: weakref.WeakSet[IsolatedPlugin] = weakref.WeakSet()


def _close_all() -> None:
    for plugin in list(_all):
        with contextlib.suppress(Exception):  # at exit there is nobody to tell
            plugin.close()


# Threads are joined before atexit handlers run; this comes before both, while threads can still be started.
threading._register_atexit(_close_all)  # type: ignore[attr-defined]  # the hook that concurrent.futures uses

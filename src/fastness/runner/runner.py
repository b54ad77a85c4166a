"""
One run from end to end: which tier, is it proven, stage, run, make a result of it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from fastness.backends import registry
from fastness.backends.base import Backend, BackendSession, Report, Staged
from fastness.backends.calling import close_calls
from fastness.brokered import Calls
from fastness.errors import BackendError, ConfigurationError, StagingError, TierUnavailable
from fastness.runner import staging
from fastness.runs import Outcome, OutcomeKind, RunRequest, RunResult
from fastness.tier import Guarantee, Probe, Tier
from fastness.waiting import Waiting

#: Total bytes of inputs above which reading them is worth a thread.
_INLINE = 1 << 16
#: Seconds past a run's deadline after which its backend is no longer waited for.
_DEADLINE_SLACK_S = 0.5


class Runner:
    """
    Plans and runs requests.  Holds one backend for each tier that was used; knows no mechanism.
    """

    def __init__(self, make: Callable[[Tier], Backend], waiting: Waiting) -> None:
        self._make = make
        self._waiting = waiting
        self._backends: dict[str, Backend] = {}
        self._probes: dict[str, Probe] = {}
        self._proving = waiting.slots(1)
        self._closed = False

    async def plan(self, tier: str, runtime: str | None = None) -> tuple[Backend, Probe]:
        """
        The backend for what was asked, proven.  Raises TierUnavailable; never returns anything weaker.

        With ``runtime``, ``auto`` passes over tiers that have no such runtime.
        """
        if self._closed:
            raise ConfigurationError("sandbox", "closed", "one that is open; make a new one")
        if tier == "local":
            return self._local(), Probe(backend="local", tier=Tier.MEDIATED.value)
        if tier == "auto":
            return await self._auto(runtime)
        found = self._backends.get(tier)
        probe = self._probes.get(tier)
        if found is None or probe is None:
            await self._proving.acquire()
            try:
                if runtime is not None:
                    # Before anything is built or proven for a run that cannot be.
                    _check_runtime(self._backend(tier), tier, runtime)
                found, probe = await self._prove(tier)
            finally:
                self._proving.release()
        if not probe.holds:
            # What failed may have been mended by the time of the next call.
            self._probes.pop(tier, None)
            raise TierUnavailable(tier, probe.failures)
        return found, probe

    async def _prove(self, tier: str) -> tuple[Backend, Probe]:
        """The backend and its verdict, made by whoever asks first."""
        found = self._backend(tier)
        probe = self._probes.get(tier)
        if probe is None:
            probe = await found.probe()
            if self._closed:
                await found.aclose()
                raise BackendError("running", "the sandbox was closed meanwhile", "make a new one")
            self._probes[tier] = probe
        return found, probe

    def _backend(self, tier: str) -> Backend:
        """The backend of a tier, proven or not.  Raises TierUnavailable where there is none."""
        found = self._backends.get(tier)
        if found is None:
            found = self._backends[tier] = self._make(Tier(tier))
        return found

    async def _auto(self, runtime: str | None) -> tuple[Backend, Probe]:
        reasons: list[Any] = []
        for tier in registry.AUTO:
            try:
                if runtime is not None and runtime not in self._backend(tier.value).runtimes:
                    continue
                return await self.plan(tier.value)
            except TierUnavailable as error:
                reasons.extend(error.failures)
        raise TierUnavailable("auto", tuple(reasons))

    def _local(self) -> Backend:
        from fastness.backends.local import VARIABLE, LocalBackend, allowed

        if not allowed():
            raise TierUnavailable(
                "local",
                reason=f'unsandboxed runs need both tier="local" and the environment variable {VARIABLE}=1; '
                "set it only on a machine that you are happy to hand over",
            )
        found = self._backends.get("local")
        if found is None:
            found = self._backends["local"] = LocalBackend(self._waiting)
        return found

    async def stage(self, request: RunRequest) -> Staged:
        """Read the request's files and look at its project.  Raises StagingError."""
        limits = request.limits
        if request.work is not None:
            return await self._waiting.call(partial(_stage_project, request, request.work))
        if not request.files:
            return Staged()
        read = partial(staging.stage, request.files, max_bytes=limits.file_bytes, max_files=limits.files)
        small = sum(len(s) if isinstance(s, (str, bytes)) else _INLINE for s in request.files.values()) < _INLINE
        return Staged(read() if small else await self._waiting.call(read))

    async def run(self, request: RunRequest, calls: Calls | None = None, *, run_id: str = "") -> RunResult:
        """
        Run a request in a clean guest.  Raises what the host could not do; what the guest did is in the result.

        With ``calls`` the guest finds a ctx with what they grant.  They are closed when this ends, however it ends.
        ``run_id`` is the run's, where its calls are recorded under one.  Without ``calls`` the request's functions are
        what may be called.
        """
        run_id = run_id or _run_id()
        if calls is None and request.functions is not None:
            calls = self._calls_of(request, run_id)
        if calls is None:
            return await self._run_until(request, None, run_id)
        try:
            return await self._run_until(request, calls, run_id)
        finally:
            await close_calls(calls, self._waiting)

    async def _run_until(self, request: RunRequest, calls: Calls | None, run_id: str) -> RunResult:
        if request.deadline is None:
            return await self._run(request, None, calls, run_id)
        try:
            # The backend keeps the deadline, so that a run that is under way tells what it has done; this is for
            # what comes before it, and for a backend that does not come back.
            with self._waiting.limit(request.deadline + _DEADLINE_SLACK_S):
                return await self._run(request, time.monotonic() + request.deadline, calls, run_id)
        except TimeoutError:
            return RunResult(
                outcome=Outcome(OutcomeKind.TIMEOUT, f"the deadline of {request.deadline:g} s passed"),
                tier=request.tier,
                runtime=request.runtime,
                sandboxed=request.tier != "local",
                run_id=run_id,
            )

    async def _run(self, request: RunRequest, ends: float | None, calls: Calls | None, run_id: str) -> RunResult:
        backend, probe = await self.plan(request.tier, request.runtime)
        _check_runtime(backend, request.tier, request.runtime, request)
        staged = await self.stage(request)
        if ends is not None:
            left = ends - time.monotonic()
            if left <= 0:
                raise TimeoutError
            request = msgspec.structs.replace(request, deadline=left)
        if calls is not None:
            report = await backend.run(request, staged, request.on_event, calls)
        elif backend.sandboxed:
            report = await backend.run(request, staged, request.on_event)
        else:
            report = await self._unsandboxed(backend, request, staged, run_id)
        return result(backend, probe, request, report, run_id, staged)

    async def _unsandboxed(self, backend: Backend, request: RunRequest, staged: Staged, run_id: str) -> Report:
        """An unsandboxed run is recorded on disk before it starts; where that fails, it does not start."""
        from fastness.runner.trail import open_trail

        trail = open_trail()
        about = _Unsandboxed(run=run_id, owner=request.tenant)
        number = await self._waiting.call(partial(trail.intend, about))
        began, code = time.monotonic(), "failed"
        try:
            report = await backend.run(request, staged, request.on_event)
            code = ""
            return report
        finally:
            # Not waited for elsewhere: a run that was cancelled is recorded too.
            trail.done(number, about, code=code, micros=int((time.monotonic() - began) * 1e6))

    async def open_session(
        self, request: RunRequest, calls: Calls | None = None
    ) -> tuple[BackendSession, Backend, Probe]:
        """A guest that keeps its state; ``calls`` are closed with it, or when this raises."""
        if calls is None and request.functions is not None:
            calls = self._calls_of(request, _run_id())
        try:
            backend, probe = await self.plan(request.tier, request.runtime)
            _check_runtime(backend, request.tier, request.runtime, request)
            if calls is None:
                return await backend.open_session(request), backend, probe
            return await backend.open_session(request, calls), backend, probe
        except BaseException:
            await close_calls(calls, self._waiting)
            raise

    def _calls_of(self, request: RunRequest, run_id: str) -> Calls:
        """The calls of a run, or session, whose guest finds functions of the host.  Raises BackendError."""
        from fastness.broker.calls import RunCalls
        from fastness.broker.functions import KIND, HostScope
        from fastness.broker.gate import Gate
        from fastness.runner.trail import open_trail
        from fastness.wire import values

        functions, limits = request.functions, request.limits
        if (loop := self._waiting.loop()) is not None:
            functions = functions.within(loop)
        gate = Gate({KIND: HostScope(names=functions.names)}, {KIND: functions.spec}, {KIND: functions})
        return RunCalls(
            gate,
            open_trail(),
            run=run_id,
            plugin="",
            owner=request.tenant,
            calls=limits.calls,
            value_bytes=values.MAX_BYTES,
            # The end of a run, and of a session's execute, ends what it has in flight.
            deadline=math.inf,
            limits=limits,
            here=self._waiting.blocks,
        )

    def cancel_all(self) -> None:
        """Ask every run in progress to end."""
        for backend in list(self._backends.values()):
            cancel = getattr(backend, "cancel_all", None)
            if cancel is not None:
                cancel()

    async def warm(self, request: RunRequest, count: int) -> None:
        """Have guests waiting, where the backend keeps any."""
        backend, _ = await self.plan(request.tier, request.runtime)
        warm = getattr(backend, "warm", None)
        if warm is not None:
            await warm(request, count)

    async def aclose(self) -> None:
        """End everything; a run after this raises ConfigurationError."""
        self._closed = True
        # Two threads may close, and cancel, at once.
        for backend in list(self._backends.values()):
            await backend.aclose()
        self._backends.clear()
        self._probes.clear()


class _Unsandboxed(msgspec.Struct, frozen=True, kw_only=True):
    """What the audit trail says of a run without a sandbox."""

    run: str
    owner: str
    plugin: str = ""
    capability: str = "process"
    operation: str = "run.unsandboxed"
    target: str = "local"
    leaves: bool = True


def _check_runtime(backend: Backend, tier: str, runtime: str, request: RunRequest | None = None) -> None:
    if request is not None and backend.tier is not Tier.CONTAINER:
        for name, given in (("image", request.image), ("bind", request.bind)):
            if given is not None:
                raise ConfigurationError(name, given, f"nothing in the tier {tier!r}; it is for the tier container")
    if runtime in backend.runtimes:
        return
    if runtime == "command":
        raise ConfigurationError("tier", tier, "isolated or container; commands need one of these tiers")
    raise ConfigurationError("runtime", runtime, f"{', '.join(sorted(backend.runtimes))} in the tier {tier!r}")


def _stage_project(request: RunRequest, work: str) -> Staged:
    from fastness.runner import apply, project

    limits = request.limits
    # What a killed process left half applied is put right before it is copied.
    if left := apply.recover(work):
        raise StagingError(
            work,
            f"an application that was broken off could not be undone in all of it: {'; '.join(left)}",
            "Look at these files, then run it again.",
        )
    found = project.snapshot(work, max_bytes=limits.file_bytes, max_files=limits.files, include=request.include)
    return Staged(staging.stage(request.files, max_bytes=limits.file_bytes, max_files=limits.files), found)


def _run_id() -> str:
    return os.urandom(8).hex()


def result(
    backend: Backend, probe: Probe, request: RunRequest, report: Report, run_id: str, staged: Staged | None = None
) -> RunResult:
    """What callers get, from what a backend tells."""
    layers = {**probe.layers, **report.layers}
    held = probe.guarantees
    if request.runtime == "command":
        # It was proven of guests that start nothing, and a command is there to start programs.
        held = tuple(name for name in held if name != Guarantee.NO_EXEC)
        layers.pop(Guarantee.NO_EXEC, None)
    held = tuple(name for name in held if name not in report.lacks)
    made = RunResult(
        outcome=report.outcome,
        value=report.value,
        value_repr=report.value_repr,
        stdout_bytes=report.stdout,
        stderr_bytes=report.stderr,
        exit_code=report.exit_code,
        files=report.files,
        changes=report.changes,
        denials=report.denials,
        usage=report.usage,
        tier=backend.tier.value if backend.sandboxed else "local",
        backend=backend.name,
        runtime=request.runtime,
        guarantees=held,
        layers=layers,
        sandboxed=backend.sandboxed,
        state=report.state,
        policy_digest=_digest(request),
        run_id=run_id,
    )
    if staged is not None and staged.project is not None and report.collected is not None:
        from fastness.runner.apply import apply

        project, collected = staged.project, report.collected
        # Not a field: it is no data, and it stays in this process.
        made.__dict__["_apply"] = lambda allow: apply(project, collected, project.path, allow=allow)
    return made


_digests: dict[tuple[Any, ...], str] = {}


def _digest(request: RunRequest) -> str:
    """A digest of everything that decided what the run was allowed: tier, tenant, limits and the host's functions."""
    names = request.functions.names if request.functions is not None else ()
    key = (request.tier, request.tenant, request.limits, names)
    found = _digests.get(key)
    if found is None:
        import hashlib

        allowed = [request.tier, request.tenant, request.limits, *([names] if names else ())]
        text = msgspec.json.encode(allowed, order="deterministic")
        found = hashlib.sha256(text).hexdigest()
        if len(_digests) > 256:
            _digests.clear()
        _digests[key] = found
    return found

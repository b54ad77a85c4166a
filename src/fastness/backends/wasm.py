"""
The ``wasm`` tier: guests compiled to WebAssembly, run by confined engine processes.

An engine serves one tenant and one run at a time.  The caller's process never loads wasmtime and never runs guest
code; what it gets are frames.  A deadline is kept twice: by the engine, and by this side a little later.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
import time
import weakref
from collections import OrderedDict
from functools import partial
from typing import Any

from fastness._wasi import compiler
from fastness.backends import materials as stock
from fastness.backends import module_plugin, wasm_probe
from fastness.backends.base import Backend, BackendSession, Report, Sink, Staged
from fastness.backends.calling import close_calls
from fastness.backends.conversation import converse, layers_of
from fastness.backends.deadlines import left, told, until
from fastness.backends.engine_process import EngineLost, EngineProcess
from fastness.backends.telling import ToldOnce
from fastness.backends.wasm_session import WasmSession
from fastness.brokered import Calls
from fastness.errors import BackendError, ConfigurationError
from fastness.looping import LoopWaiting
from fastness.runner.pool import Pool
from fastness.runs import Outcome, OutcomeKind, RunRequest
from fastness.tier import Probe, Tier
from fastness.waiting import Slots, Waiting

#: Seconds after which an idle engine ends by itself, and after which this side no longer uses one.
IDLE_S = 120.0
_TRUST_IDLE_S = IDLE_S - 20.0
#: Runs and seconds after which an engine is replaced by a new one.
RECYCLE_RUNS = 100_000
RECYCLE_S = 3600.0
#: Compiled modules of users that are kept for a next run.
_MODULES_MAX = 16
_POOLS_MAX = 64
_CHECK_FULL_S = 0.5


def default_engines() -> int:
    """How many engines may run at once where nobody says otherwise."""
    return max(4, 2 * len(os.sched_getaffinity(0)))


class WasmBackend(Backend):
    """Engines for the Python and JavaScript guests and for any preview 1 command module."""

    name = "wasmtime"
    tier = Tier.WASM
    runtimes = frozenset({"python", "javascript", "wasi"})

    def __init__(
        self,
        *,
        waiting: Waiting | None = None,
        engines: int | None = None,
        progress: stock.Progress | None = None,
        build_in_background: bool = True,
    ) -> None:
        self._waiting = waiting or LoopWaiting()
        self._engines = engines or default_engines()
        self._slots: Slots | None = None
        # Callers of several threads share one backend; this guards its tables, never a wait.
        self._lock = threading.RLock()
        self._pools: OrderedDict[tuple[Any, ...], tuple[stock.Materials, Pool[EngineProcess]]] = OrderedDict()
        self._modules: OrderedDict[str, stock.Materials] = OrderedDict()
        self._progress = progress
        self._background = build_in_background
        self._running: dict[EngineProcess, int] = {}
        #: Every engine that may still be alive, whoever holds it, and how many are about to be.
        self._live: set[EngineProcess] = set()
        self._starting = 0
        self._known: dict[tuple[str, tuple[str, ...]], tuple[stock.Materials, float]] = {}
        self._closed = False
        #: How often everything in progress was cancelled, for those that are not on their way yet.
        self._cancels = 0
        self._sessions: set[WasmSession] = set()

    async def probe(self, *, afresh: bool = False) -> Probe:
        """Run the proofs of :mod:`fastness.backends.wasm_proofs`, or take them from this boot's record."""
        if not afresh:
            found = await self._waiting.call(wasm_probe.recorded)
            if found is not None:
                return found

        async def run(request: RunRequest) -> Report:
            report = await self._run_once(request, Staged(), None, "full", time.monotonic())
            assert report is not None
            return report

        # Its imports take longer than reading the record.
        from fastness.backends import wasm_proofs

        verdict = await wasm_proofs.probe(run, self.engine_pids, self._engine_layers, self._waiting)
        await self._waiting.call(partial(wasm_probe.record, verdict))
        return verdict

    # materials and pools

    async def _language(self, request: RunRequest, want: str, sink: Sink | None) -> stock.Materials:
        preload = () if request.runtime != "python" else request.preload
        if preload is None:
            # Where only the quick module is there yet, it starts without these, and a run that imports one of them is
            # run again on the whole module.
            preload = stock.DEFAULT_PRELOAD
        else:
            preload = stock.check_preload(preload)
            if preload:
                # An explicit preload is a promise that the modules are there, so only the whole module will do.
                want = "full"
        # A thread is a slow way to look something up, and this is on the path of every run.
        now = time.monotonic()
        known = self._known.get((request.runtime, preload))
        if known is not None:
            held, checked = known
            if held.variant == "full" or (want == "any" and now - checked < _CHECK_FULL_S):
                return held
        held = await self._waiting.call(
            partial(stock.get, request.runtime, preload, want, self._reporter(sink), self._background)
        )
        self._known[request.runtime, preload] = (held, now)
        if held.variant == "full":
            self._retire_quick(request.runtime)
        return held

    def _retire_quick(self, runtime: str) -> None:
        """The whole module has taken over: engines of the quick one end, those in use when they come back."""
        with self._lock:
            old = [key for key in self._pools if key[:2] == (runtime, "quick")]
            pools = [self._pools.pop(key)[1] for key in old]
        for pool in pools:
            pool.retire()

    def _reporter(self, sink: Sink | None) -> stock.Progress | None:
        if self._progress is not None:
            return self._progress
        if sink is None:
            return stock.Said()
        return lambda progress: sink("progress", progress._asdict())

    async def _module(self, request: RunRequest, began: float) -> stock.Materials:
        if not isinstance(request.module, bytes) or not request.module:
            raise ConfigurationError("module", type(request.module).__name__, "the bytes of a WebAssembly module")
        digest = hashlib.sha256(request.module).hexdigest()
        found = self._modules.get(digest)
        if found is not None:
            self._modules.move_to_end(digest)
            return found
        cancel = threading.Event()
        try:
            most = min(left(request, began) or math.inf, float(compiler.USER_COMPILE_CPU_S))
            compiled = await self._waiting.call(
                partial(compiler.compile_user_module, request.module, most, cancel=cancel)
            )
        except ConfigurationError:
            # Raises TimeoutError where that is why.
            left(request, began)
            raise
        except BaseException:
            cancel.set()
            raise
        made = stock.Materials("wasi", "user", (digest,), compiled.fd, compiled.settings)
        weakref.finalize(made, compiled.close)
        with self._lock:
            found = self._modules.setdefault(digest, made)
            if found is not made:
                return found
            while len(self._modules) > _MODULES_MAX:
                _, old = self._modules.popitem(last=False)
                # A run may be about to use it, so its descriptor is closed when the last one lets it go.
                for key in [key for key, (held, _) in self._pools.items() if held is old]:
                    self._pools.pop(key)[1].retire()
        return made

    def _pool(self, materials: stock.Materials, tenant: str) -> Pool[EngineProcess]:
        key = (materials.runtime, materials.variant, materials.preload, tenant)
        with self._lock:
            if self._closed:
                raise BackendError("running", "the sandbox is closed", "make a new one")
            found = self._pools.get(key)
            if found is not None and found[0] is materials:
                self._pools.move_to_end(key)
                return found[1]
            if self._slots is None:
                self._slots = self._waiting.slots(self._engines)

            async def make() -> EngineProcess:
                self._make_room()
                try:
                    engine = EngineProcess.spawn(materials.descriptors(), self._waiting)
                    with self._lock:
                        self._live.add(engine)
                finally:
                    with self._lock:
                        self._starting -= 1
                await engine.start(materials.runtime, {**materials.options("serve"), "idle_s": IDLE_S})
                return engine

            pool: Pool[EngineProcess] = Pool(make, _usable, EngineProcess.close, self._slots, self._engines)
            if found is not None:
                found[1].retire()
            self._pools[key] = (materials, pool)
            while len(self._pools) > _POOLS_MAX:
                self._pools.popitem(last=False)[1][1].retire()
            return pool

    def _make_room(self) -> None:
        """
        Called before an engine is started, which it counts as one.

        Idle engines of other tenants and guests count too: the longest unused pool gives its own up.
        """
        with self._lock:
            self._live = {engine for engine in self._live if engine.alive}
            total = len(self._live) + self._starting
            self._starting += 1
            idle = [pool for _, pool in self._pools.values() if pool.waiting]
        if total >= self._engines and idle:
            min(idle, key=lambda pool: pool.used).close()

    async def _materials(self, request: RunRequest, want: str, sink: Sink | None, began: float) -> stock.Materials:
        if request.runtime == "wasi":
            return await self._module(request, began)
        return await self._language(request, want, sink)

    # running

    async def run(self, request: RunRequest, staged: Staged, sink: Sink | None, calls: Calls | None = None) -> Report:
        """One request in a clean instance; a run that met a stub of the quick module is run again on the whole."""
        if calls is None:
            return await self._run(request, staged, sink)
        try:
            return await self._run(request, staged, sink, calls)
        finally:
            await close_calls(calls, self._waiting)

    async def _run(self, request: RunRequest, staged: Staged, sink: Sink | None, calls: Calls | None = None) -> Report:
        if self._closed:
            raise BackendError("running", "the sandbox is closed", "make a new one")
        _check(request, calls)
        began = time.monotonic()
        module = calls is not None and request.runtime == "wasi"
        if module:
            request = module_plugin.told(request if request.plugin is None else module_plugin.asked(request))
        want = "any"
        if calls is not None:
            want, sink = self._want(request, staged), None if sink is None else ToldOnce(sink)
        report = await self._run_once(request, staged, sink, want, began, calls)
        if report is None:
            if isinstance(sink, ToldOnce):
                sink.again()
            report = await self._run_once(request, staged, sink, "full", began, calls)
            assert report is not None
        return module_plugin.answered(report) if module and request.plugin is not None else report

    def _want(self, request: RunRequest, staged: Staged) -> str:
        """
        The module for a run with calls.  What a call has done is not done again on another module.

        So the quick one is for programs that do not look as if they needed another.
        """
        if any(held.variant == "full" for (runtime, _), (held, _) in self._known.items() if runtime == request.runtime):
            return "full"
        if request.runtime != "python":
            return "any"
        from fastness._wasi import needs

        sources = () if request.plugin is None else request.plugin.sources.values()
        return "full" if needs.packages((request.code or "", *sources), staged.files) else "any"

    async def _run_once(
        self,
        request: RunRequest,
        staged: Staged,
        sink: Sink | None,
        want: str,
        began: float,
        calls: Calls | None = None,
    ) -> Report | None:
        cancels = self._cancels
        with self._waiting.limit(left(request, began)):
            materials = await self._materials(request, want, sink, began)
            pool = self._pool(materials, request.tenant)
            engine = await pool.acquire()
        reusable = False
        try:
            self._running[engine] = engine.next_id()
            if self._closed:
                raise BackendError("running", "the sandbox was closed meanwhile", "make a new one")
            if self._cancels != cancels:
                reusable = True
                return Report(outcome=Outcome(OutcomeKind.CANCELLED))
            whole, request = request, until(request, began)
            queued = time.monotonic() - began
            talk = await converse(
                engine, self._waiting, self._running[engine], request, staged, sink, "run", queued=queued, calls=calls
            )
            reusable = talk.reusable
            return told(talk.report, whole, request)
        except EngineLost as lost:
            return _lost(lost)
        finally:
            self._running.pop(engine, None)
            engine.idle_since = time.monotonic()
            pool.release(engine, reusable)

    async def open_session(self, request: RunRequest, calls: Calls | None = None) -> BackendSession:
        """An engine of its own for as long as the session lasts; the guest is made at the first execute."""
        try:
            return await self._open_session(request, calls)
        except BaseException:
            await close_calls(calls, self._waiting)
            raise

    async def _open_session(self, request: RunRequest, calls: Calls | None) -> BackendSession:
        if request.runtime == "wasi":
            raise ConfigurationError("runtime", "wasi", "python or javascript: a command module has no sessions")
        _check(request)
        want = "any" if request.preload is None and stock.full_ready(request.runtime) and calls is None else "full"
        materials = await self._language(request, want, None)
        pool = self._pool(materials, request.tenant)
        engine = await pool.acquire()
        session = WasmSession(self, pool, engine, calls)
        self._sessions.add(session)
        return session

    async def warm(self, request: RunRequest, count: int) -> None:
        """Have ``count`` engines waiting."""
        _check(request)
        materials = await self._materials(request, "any", None, time.monotonic())
        # More than may serve at once cannot wait at once.
        await self._pool(materials, request.tenant).warm(min(count, self._engines))

    def cancel_all(self) -> None:
        """Ask every run in progress to end; each returns a result with the outcome ``cancelled``."""
        self._cancels += 1
        for engine, invoke in list(self._running.items()):
            engine.cancel(invoke)

    def _engine_layers(self) -> dict[str, str]:
        """What an engine that serves or waits has put on itself; empty where there is none."""
        for engine in [*self._running, *(one for _, pool in list(self._pools.values()) for one in pool.waiting)]:
            return layers_of(engine)
        return {}

    def engine_pids(self) -> list[int]:
        """Processes that serve or wait now."""
        return [engine.pid for engine in list(self._live) if engine.alive]

    async def aclose(self) -> None:
        """End every engine."""
        self._closed = True
        for engine in list(self._live):
            # Its user sees the end of its stream and cleans up: sockets must not be closed under a waiting thread.
            engine.process.kill()
        with self._lock:
            pools = [pool for _, pool in self._pools.values()]
            self._pools.clear()
        for pool in pools:
            pool.retire()
        self._modules.clear()


def _usable(engine: EngineProcess) -> bool:
    now = time.monotonic()
    return (
        engine.quiet
        and engine.runs < RECYCLE_RUNS
        and now - engine.born < RECYCLE_S
        and now - engine.idle_since < _TRUST_IDLE_S
    )


def _lost(lost: EngineLost) -> Report:
    return Report(outcome=Outcome(OutcomeKind.CRASHED, lost.why))


def _check(request: RunRequest, calls: Calls | None = None) -> None:
    """Refuse what only other tiers can do, or no tier.  Raises ConfigurationError."""
    if request.plugin is not None and calls is None:
        raise ConfigurationError("plugin", request.plugin.module, "a run with calls: a plugin's methods get a ctx")
    if request.packages:
        allowed = "the tiers worker, confined and isolated; what the tier wasm can import is in its guest"
        raise ConfigurationError("packages", list(request.packages), allowed)

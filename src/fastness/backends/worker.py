"""
The tier ``worker``: a separate interpreter with limits of its own, an environment from nothing and a module firewall.

It keeps crashes, hangs and appetite away from the caller, and mediates what code may do; it is no wall.  The guest is
the same user with the same files, and what the firewall refuses is refused by the interpreter that runs the guest.
Each run has a new process, started with ``exec``, whose keeper sees to the end of everything that comes of it.
"""

from __future__ import annotations

import os
import time
from functools import partial

from fastness.backends import native_config, native_report, worker_process
from fastness.backends.base import Backend, BackendSession, Report, Sink, Staged
from fastness.backends.box import BoxLost, become_ready
from fastness.backends.calling import close_calls
from fastness.backends.deadlines import left, told, until
from fastness.backends.native_drain import drain
from fastness.backends.native_keeper import Keeper
from fastness.backends.native_talk import Talk
from fastness.backends.native_watch import Watch
from fastness.backends.native_work import invoke_head
from fastness.backends.sealed_file import sealed_file
from fastness.backends.telling import CallbackRaised
from fastness.backends.worker_process import Worker
from fastness.backends.worker_session import WorkerSession
from fastness.backends.worker_stock import Kind, Stock
from fastness.brokered import Calls
from fastness.errors import BackendError, ConfigurationError
from fastness.limits import Limits
from fastness.runner.collect import Collected, collect
from fastness.runner.project import fill_files
from fastness.runs import OutcomeKind, RunRequest
from fastness.tier import Probe, Tier
from fastness.waiting import Slots, ThreadWaiting, Waiting

#: Workers of one sandbox at once, where nobody says otherwise.
_DEFAULT_WORKERS = 16
#: Seconds between looks for a worker that is being started.
_COMING_S = 0.001
_DRAIN_S = 1.0
#: Seconds for a worker that has closed its conversation to end by itself.
_LAST_S = 0.25
#: Bytes of inputs above which writing them is worth a thread.
_INLINE = 1 << 16


class WorkerBackend(Backend):
    """Runs Python in workers.  ``ready`` of them are kept waiting; ``firewall`` is for tests of what is below it."""

    name = "worker"
    tier = Tier.WORKER
    runtimes = frozenset({"python"})

    def __init__(
        self, *, waiting: Waiting | None = None, workers: int | None = None, ready: int = 1, firewall: bool = True
    ) -> None:
        self._waiting = waiting or ThreadWaiting()
        self._limit = workers or _DEFAULT_WORKERS
        self._firewall = firewall
        self._slots: Slots | None = None
        self._stock = Stock(self._waiting, ready, firewall)
        self._keeper = Keeper()
        self._talks: set[Talk] = set()
        #: How often everything in progress was cancelled.
        self.cancels = 0
        self._closed = False

    async def probe(self, *, afresh: bool = False) -> Probe:
        """Run the proofs of :mod:`fastness.backends.worker_probe`."""
        from fastness.backends import worker_probe

        # What was found with the firewall says nothing of workers without one.
        return await worker_probe.probe(self, self._waiting, afresh=afresh or not self._firewall)

    # workers

    def _kind(self, request: RunRequest) -> Kind:
        packages = native_config.packages_of(request.packages)
        return native_config.check_preload(request.preload or ()), packages

    async def _take(self, kind: Kind) -> Worker:
        if self._slots is None:
            self._slots = self._waiting.slots(self._limit)
        await self._slots.acquire()
        worker = None
        try:
            while (worker := self._stock.waiting_one(kind)) is None and self._stock.is_coming(kind):
                await self._waiting.pause(_COMING_S)
            if worker is None:
                worker = await self._waiting.call(partial(self._stock.spawn, kind))
            self._stock.hold(worker)
            if worker.process < 0:
                await self._become_ready(worker, kind)
            return worker
        except BaseException:
            self._slots.release()
            if worker is not None:
                self._stock.bury(worker)
            raise

    @staticmethod
    async def _become_ready(worker: Worker, kind: Kind) -> None:
        try:
            await become_ready(worker, lambda box: None)
        except BoxLost as lost:
            worker.finish()
            cause = f"it ended before it was ready: {worker_process.ending(worker.ended) or lost}"
            if kind[0]:
                raise native_config.preload_failed(", ".join(kind[0]), cause) from None
            raise BackendError("starting a worker", cause, "run: fastness doctor") from None
        except BackendError as error:
            _, is_preload, name = error.step.rstrip(")").partition("(preload ")
            if is_preload:
                raise native_config.preload_failed(name, error.cause) from None
            raise
        worker.base = worker.memory()

    async def done(self, worker: Worker, kind: Kind) -> None:
        """See to the worker's end, and have another one start."""
        assert self._slots is not None
        # Also where the run was cancelled: nothing of it goes on after its caller has heard of its end.
        with self._waiting.limit(None, shield=True):
            try:
                await self._waiting.call(partial(self._stock.bury, worker))
            finally:
                self._slots.release()
        if self._stock.is_wanted(kind):
            # The caller has the result meanwhile.
            self._keeper.soon(partial(self._stock.refill, kind))

    # running

    @staticmethod
    def _check(request: RunRequest) -> None:
        if request.time is not None:
            raise ConfigurationError("time", request.time, "the tier wasm: a worker's clock cannot be stopped")
        if request.preopens is not None:
            raise ConfigurationError("preopens", request.preopens, "the runtime wasi, which has preopened folders")

    async def run(self, request: RunRequest, staged: Staged, sink: Sink | None, calls: Calls | None = None) -> Report:
        """One request in a worker of its own."""
        try:
            return await self._run(request, staged, sink, calls)
        finally:
            await close_calls(calls, self._waiting)

    async def _run(self, request: RunRequest, staged: Staged, sink: Sink | None, calls: Calls | None) -> Report:
        self._check(request)
        began, cancels = time.monotonic(), self.cancels
        kind = self._kind(request)
        with self._waiting.limit(left(request, began)):
            worker = await self._take(kind)
        try:
            worker_process.bound(worker, request.limits, stack=request.stack)
            await self.fill(worker, staged)
            whole, request = request, until(request, began)
            talk = Talk(worker, request, sink, calls)
            report = await self.talk(talk, staged, 0, queued=time.monotonic() - began, cancels=cancels)
            said = told(report, whole, request)
            assert said is not None
            return said
        except CallbackRaised as raised:
            raise raised.error from None
        finally:
            await self.done(worker, kind)

    async def fill(self, worker: Worker, staged: Staged) -> None:
        """Put the input files into the worker's folder."""
        if staged.files:
            write = partial(fill_files, staged.files, worker.work)
            if sum(map(len, staged.files.values())) < _INLINE:
                write()
            else:
                await self._waiting.call(write)

    async def talk(self, talk: Talk, staged: Staged, session: int, *, queued: float = 0.0, cancels: int) -> Report:
        """
        One invoke from its head to its report; after a run nothing of its guest is alive any more.

        ``cancels`` is how often everything had been cancelled when the caller asked.
        """
        worker, request = talk.box, talk.request
        assert isinstance(worker, Worker)
        code = (request.code or "").encode("utf-8", "surrogatepass")
        stdin = sealed_file(request.stdin) if request.stdin else -1
        # The folder is on the caller's disk, where nothing else bounds it.
        talk.watch = Watch(worker, request.limits, worker.above, session=bool(session))
        grace = talk.cancel_grace_s = request.limits.grace_s
        self._talks.add(talk)
        try:
            if self._closed:
                raise BackendError("running", "the sandbox was closed meanwhile", "make a new one")
            if self.cancels != cancels:
                talk.end(OutcomeKind.CANCELLED)
            context = talk.calling.context() if talk.calling is not None else b""
            head = invoke_head(worker.next_id(), request, "execute" if session else "run", session, code, context)
            await talk.run(head, code + context, (stdin,) if stdin >= 0 else (), grace)
        finally:
            self._talks.discard(talk)
            if stdin >= 0:
                os.close(stdin)
        if talk.gone and talk.reason is None:
            # It has closed its end, most often by ending: what it ends with is worth a moment.
            await self._waiting.call(partial(worker.wait, _LAST_S))
        if not session or talk.gone or talk.reason is not None:
            if talk.asked_until:
                # What it started was asked too, and may take as long to end.
                worker.dismiss()
                await drain(talk, talk.asked_until - time.monotonic(), worker.keeper_fd)
            await self._waiting.call(worker.finish)
            await drain(talk, _DRAIN_S)
        return native_report.report(
            talk,
            ended=worker.ended if talk.gone else None,
            collected=await self._collect(worker, staged, request.limits),
            records=[],
            out_of_memory=False,
            layers={name.upper(): text for name, text in worker.ready.layers.items()},
            session=bool(session),
            queued=queued,
        )

    async def _collect(self, worker: Worker, staged: Staged, limits: Limits) -> Collected:
        if not staged.files and not os.listdir(worker.work):
            return Collected()
        look = partial(collect, worker.work, staged.files, max_bytes=limits.file_bytes, max_files=limits.files)
        try:
            return await self._waiting.call(look)
        except OSError as error:
            raise BackendError("collecting the run's files", error, "please report this") from None

    # sessions, and ahead

    async def open_session(self, request: RunRequest, calls: Calls | None = None) -> BackendSession:
        """A worker that keeps its state."""
        try:
            self._check(request)
            kind = self._kind(request)
            worker = await self._take(kind)
            try:
                worker_process.bound(worker, request.limits, session=True, stack=request.stack)
            except BaseException:
                await self.done(worker, kind)
                raise
        except BaseException:
            await close_calls(calls, self._waiting)
            raise
        return WorkerSession(self, worker, kind, calls)

    async def warm(self, request: RunRequest, count: int) -> None:
        """Have ``count`` workers waiting, ready."""
        self._check(request)
        kind = self._kind(request)
        count = min(count, self._limit)
        ready: list[Worker] = []
        try:
            while len(ready) < count:
                waiting = self._stock.waiting_one(kind)
                if waiting is None:
                    waiting = await self._waiting.call(partial(self._stock.spawn, kind))
                ready.append(waiting)
            for one in ready:
                if one.process < 0:
                    await self._become_ready(one, kind)
        except BaseException:
            for one in ready:
                self._stock.bury(one)
            raise
        await self._waiting.call(partial(self._stock.keep, kind, ready))

    def cancel_all(self) -> None:
        """End every run in progress, in its grace; each returns a result with the outcome ``cancelled``."""
        # Those that wait for a worker, or for one to start, see it when they have one.
        self.cancels += 1
        for talk in list(self._talks):
            talk.cancel()

    def guest_pids(self) -> list[int]:
        """Processes of ours that are alive: keepers, and workers as far as they are known."""
        return [pid for one in self._stock.live() for pid in (one.keeper.pid, one.pid) if pid]

    async def aclose(self) -> None:
        """End every worker, at once, and remove their folders."""
        self._closed = True

        def end() -> None:
            for talk in list(self._talks):
                talk.end(OutcomeKind.CANCELLED, "the sandbox was closed")
            self._stock.close()
            self._keeper.close()
            self._stock.leave()

        with self._waiting.limit(None, shield=True):
            await self._waiting.call(end)

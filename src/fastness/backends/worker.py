"""
The tier ``worker``: a separate interpreter with limits of its own, an environment from nothing and a module firewall.

It keeps crashes, hangs and appetite away from the caller, and mediates what code may do; it is no wall.  The guest is
the same user with the same files, and what the firewall refuses is refused by the interpreter that runs the guest.
Each run has a new process, started with ``exec``, whose keeper sees to the end of everything that comes of it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from functools import partial

from fastness.backends import native_config, worker_process
from fastness.backends.base import Backend, BackendSession, Report, Sink, Staged
from fastness.backends.box import BoxLost, become_ready
from fastness.backends.deadlines import left, told, until
from fastness.backends.native_talk import Talk
from fastness.backends.native_watch import Watch
from fastness.backends.native_work import invoke_head
from fastness.backends.telling import CallbackRaised
from fastness.backends.worker_process import Worker
from fastness.errors import BackendError, ConfigurationError
from fastness.limits import Limits
from fastness.runner.collect import Collected, collect
from fastness.runner.project import fill_files
from fastness.runs import Outcome, OutcomeKind, RunRequest
from fastness.runtime import Owner, claim
from fastness.tier import Probe, Tier
from fastness.waiting import Slots, ThreadWaiting, Waiting

#: Workers of one sandbox at once, where nobody says otherwise.
_DEFAULT_WORKERS = 16
#: Kinds of workers (by preload and packages) that one sandbox keeps ready.
_KINDS_MAX = 16
#: Seconds after which a worker that waits is not used any more.
_TRUST_IDLE_S = 300.0
_DRAIN_S = 1.0
#: Seconds for a worker that has closed its conversation to end by itself.
_LAST_S = 0.25
#: Bytes of inputs above which writing them is worth a thread.
_INLINE = 1 << 16

_Kind = tuple[tuple[str, ...], tuple[str, ...]]


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
        self._ready = ready
        self._firewall = firewall
        self._slots: Slots | None = None
        # For tables, never held for a wait.
        self._lock = threading.RLock()
        self._owner: Owner | None = None
        self._kinds: OrderedDict[_Kind, tuple[int, list[Worker]]] = OrderedDict()
        self._talks: set[Talk] = set()
        self._live: set[Worker] = set()
        self._made = 0
        self._asked: set[_Kind] = set()
        self._closed = False

    async def probe(self, *, afresh: bool = False) -> Probe:
        """Run the proofs of :mod:`fastness.backends.worker_probe`."""
        from fastness.backends import worker_probe

        # What was found with the firewall says nothing of workers without one.
        return await worker_probe.probe(self, self._waiting, afresh=afresh or not self._firewall)

    # workers

    def _kind(self, request: RunRequest) -> _Kind:
        packages = native_config.packages_of(request.packages)
        return native_config.check_preload(request.preload or ()), packages

    def _spawn(self, kind: _Kind) -> Worker:
        """Start a worker; it gets ready by itself.  Raises BackendError."""
        dropped: list[Worker] = []
        with self._lock:
            if self._closed:
                raise BackendError("running", "the sandbox is closed", "make a new one")
            if self._owner is None or self._owner.released:
                self._owner = claim()
            if kind not in self._kinds:
                self._kinds[kind] = (worker_process.configuration(*kind, firewall=self._firewall), [])
            self._kinds.move_to_end(kind)
            while len(self._kinds) > _KINDS_MAX:
                fd, waiting = self._kinds.popitem(last=False)[1]
                os.close(fd)
                dropped += waiting
            self._made += 1
            worker = worker_process.spawn(f"w{self._made}", self._owner.folder, self._kinds[kind][0], self._waiting)
            self._live.add(worker)
        for one in dropped:
            self._bury(one)
        return worker

    def _waiting_one(self, kind: _Kind) -> Worker | None:
        while True:
            with self._lock:
                _, waiting = self._kinds.get(kind, (-1, []))
                if not waiting:
                    return None
                worker = waiting.pop()
            if worker.keeper.poll() is None and time.monotonic() - worker.born < _TRUST_IDLE_S:
                return worker
            self._bury(worker)

    async def _take(self, kind: _Kind) -> Worker:
        if self._slots is None:
            self._slots = self._waiting.slots(self._limit)
        await self._slots.acquire()
        worker = None
        try:
            worker = self._waiting_one(kind)
            if worker is None:
                worker = await self._waiting.call(partial(self._spawn, kind))
            if worker.process < 0:
                await self._become_ready(worker, kind)
            return worker
        except BaseException:
            self._slots.release()
            if worker is not None:
                self._bury(worker)
            raise

    @staticmethod
    async def _become_ready(worker: Worker, kind: _Kind) -> None:
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

    def _bury(self, worker: Worker) -> None:
        worker.close()
        self._live.discard(worker)

    async def _done(self, worker: Worker, kind: _Kind) -> None:
        """See to the worker's end, and have another one start."""
        assert self._slots is not None
        # Also where the run was cancelled: nothing of it goes on after its caller has heard of its end.
        with self._waiting.limit(None, shield=True):
            try:
                await self._waiting.call(partial(self._bury, worker))
            finally:
                self._slots.release()
            await self._waiting.call(partial(self._refill, kind))

    def _refill(self, kind: _Kind) -> None:
        with self._lock:
            held = self._kinds.get(kind)
            if kind not in self._asked:
                # A caller who runs one thing only is not made to wait for the end of a second worker.
                self._asked.add(kind)
                return
            if self._closed or held is None or len(held[1]) >= self._ready:
                return
            try:
                held[1].append(self._spawn(kind))
            except BackendError:
                pass  # the next run meets it and tells it

    # running

    @staticmethod
    def _check(request: RunRequest) -> None:
        if request.time is not None:
            raise ConfigurationError("time", request.time, "the tier wasm: a worker's clock cannot be stopped")
        if request.preopens is not None:
            raise ConfigurationError("preopens", request.preopens, "the runtime wasi, which has preopened folders")

    async def run(self, request: RunRequest, staged: Staged, sink: Sink | None) -> Report:
        """One request in a worker of its own."""
        self._check(request)
        began = time.monotonic()
        kind = self._kind(request)
        with self._waiting.limit(left(request, began)):
            worker = await self._take(kind)
        try:
            worker_process.bound(worker, request.limits)
            await self.fill(worker, staged)
            whole, request = request, until(request, began)
            talk = Talk(worker, request, sink)
            said = told(await self.talk(talk, staged, 0, time.monotonic() - began), whole, request)
            assert said is not None
            return said
        except CallbackRaised as raised:
            raise raised.error from None
        finally:
            await self._done(worker, kind)

    async def fill(self, worker: Worker, staged: Staged) -> None:
        """Put the input files into the worker's folder."""
        if staged.files:
            write = partial(fill_files, staged.files, worker.work)
            if sum(map(len, staged.files.values())) < _INLINE:
                write()
            else:
                await self._waiting.call(write)

    async def talk(self, talk: Talk, staged: Staged, session: int, queued: float) -> Report:
        """One invoke from its head to its report; after a run nothing of its guest is alive any more."""
        worker, request = talk.box, talk.request
        assert isinstance(worker, Worker)
        code = (request.code or "").encode("utf-8", "surrogatepass")
        stdin = worker_process.sealed(request.stdin) if request.stdin else -1
        # The folder is on the caller's disk, where nothing else bounds it.
        talk.watch = Watch(worker, request.limits, os.path.join(worker.folder, "tmp"))
        grace = talk.cancel_grace_s = request.limits.grace_s
        self._talks.add(talk)
        try:
            if self._closed:
                raise BackendError("running", "the sandbox was closed meanwhile", "make a new one")
            head = invoke_head(worker.next_id(), request, "execute" if session else "run", session, code)
            await talk.run(head, code, (stdin,) if stdin >= 0 else (), grace)
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
                await self._waiting.call(partial(talk.drain, talk.asked_until - time.monotonic(), worker.keeper_fd))
            await self._waiting.call(worker.finish)
            await self._waiting.call(partial(talk.drain, _DRAIN_S))
        return talk.report(
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

    async def open_session(self, request: RunRequest) -> BackendSession:
        """A worker that keeps its state."""
        self._check(request)
        kind = self._kind(request)
        worker = await self._take(kind)
        try:
            worker_process.bound(worker, request.limits)
        except BaseException:
            await self._done(worker, kind)
            raise
        return _Session(self, worker, kind)

    async def warm(self, request: RunRequest, count: int) -> None:
        """Have ``count`` workers waiting, ready."""
        self._check(request)
        kind = self._kind(request)
        count = min(count, self._limit)
        ready: list[Worker] = []
        try:
            while len(ready) < count:
                waiting = self._waiting_one(kind)
                if waiting is None:
                    waiting = await self._waiting.call(partial(self._spawn, kind))
                ready.append(waiting)
            for one in ready:
                if one.process < 0:
                    await self._become_ready(one, kind)
        except BaseException:
            for one in ready:
                self._bury(one)
            raise
        with self._lock:
            self._kinds[kind][1].extend(ready)

    def cancel_all(self) -> None:
        """End every run in progress, in its grace; each returns a result with the outcome ``cancelled``."""
        for talk in list(self._talks):
            talk.cancel()

    def guest_pids(self) -> list[int]:
        """Processes of ours that are alive: keepers, and workers as far as they are known."""
        with self._lock:
            return [pid for one in self._live for pid in (one.keeper.pid, one.pid) if pid]

    async def aclose(self) -> None:
        """End every worker, at once, and remove their folders."""
        with self._lock:
            self._closed = True
            kinds = list(self._kinds.values())
            self._kinds.clear()
            live = list(self._live)
            owner, self._owner = self._owner, None

        def end() -> None:
            for talk in list(self._talks):
                talk.end(OutcomeKind.CANCELLED, "the sandbox was closed")
            for fd, _ in kinds:
                os.close(fd)
            for worker in live:
                worker.kill()
            busy = {talk.box for talk in list(self._talks)}
            for worker in live:
                # One that is at work is closed by its caller, who hears of the end first.
                if worker in busy:
                    worker.finish()
                else:
                    self._bury(worker)
            if owner is not None:
                owner.release()

        with self._waiting.limit(None, shield=True):
            await self._waiting.call(end)


class _Session(BackendSession):
    """A worker that nothing else uses, for several executes."""

    def __init__(self, backend: WorkerBackend, worker: Worker, kind: _Kind) -> None:
        self._backend = backend
        self._worker = worker
        self._kind = kind
        self._ended = self._lost = self._busy = False

    async def execute(self, request: RunRequest, staged: Staged, sink: Sink | None) -> Report:
        """Run once more in the same worker."""
        if self._ended:
            raise BackendError("executing in a session", "the session is closed", "open a new one")
        if self._busy:
            raise ConfigurationError("session", "busy with another execute", "one execute at a time")
        if self._lost:
            return Report(
                outcome=Outcome(OutcomeKind.CRASHED, "an earlier run lost the session's state; open a new session"),
                state="lost",
            )
        self._busy = True
        try:
            await self._backend.fill(self._worker, staged)
            self._lost = True
            report = await self._backend.talk(Talk(self._worker, request, sink), staged, 1, 0.0)
            self._lost = report.state != "kept"
            return report
        except CallbackRaised as raised:
            raise raised.error from None
        finally:
            self._busy = False

    async def aclose(self) -> None:
        """End the worker.  Idempotent."""
        if not self._ended:
            self._ended = True
            await self._backend._done(self._worker, self._kind)

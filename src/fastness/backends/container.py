"""
The tier ``container``: a fresh container of a Docker or Podman engine for each run, with an image as its root.

An engine is asked for every limit and then not believed: what it says that it made is compared with what was asked,
and the container's first process compares once more from inside before any foreign code is there.  Containers may be
made ahead; each is used once.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from fastness._container import containers, parcel
from fastness._container.faults import EngineFault
from fastness._container.image import Image
from fastness._container.probe import Engine
from fastness.backends import container_kind, container_report, native_config, native_work
from fastness.backends.base import Backend, BackendSession, Report, Sink, Staged
from fastness.backends.box import BoxLost
from fastness.backends.calling import close_calls
from fastness.backends.container_access import DOCTOR, Access, refused, unavailable
from fastness.backends.container_box import ContainerBox, Kind
from fastness.backends.container_pump import FILES, STDIN
from fastness.backends.container_scratch import Scratch, wait_for_files
from fastness.backends.container_stock import Stock
from fastness.backends.deadlines import left, told, until
from fastness.backends.native_drain import drain
from fastness.backends.native_talk import Talk
from fastness.backends.telling import CallbackRaised
from fastness.brokered import Calls
from fastness.errors import BackendError, ConfigurationError, GuestProtocolError, StagingError
from fastness.limits import MIB
from fastness.runner.collect import Collected
from fastness.runner.project import fill
from fastness.runner.staging import DOES_NOT_FIT
from fastness.runs import OutcomeKind, RunRequest
from fastness.tier import Guarantee, Probe, Tier
from fastness.waiting import Slots, ThreadWaiting, Waiting
from fastness.wire import messages as m

#: Containers of one sandbox at once, where nobody says otherwise.
_DEFAULT_GUESTS = 16
#: Seconds from birth to ready, for what is left in pipes, and without any file coming.
_START_S = 30.0
_DRAIN_S = 2.0
_COLLECT_S = 10.0
#: Bytes of files that come in a second at least.
_COLLECT_RATE = 16 * MIB
#: Seconds that the container's own deadline comes after ours.
_SECOND_S = 0.5
#: The environment of a program, over the image's own.
_PROGRAM = {"HOME": "/tmp", "TMPDIR": "/tmp", "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1"}  # noqa: S108  # inside


class ContainerBackend(Backend):
    """
    Serves the tier on one engine, the one that is named or found when it is first needed.

    ``pool`` containers are kept ready for each kind that was asked for; ``guests`` bounds how many there are at once.
    ``engine``, ``default_image`` and ``engine_runtime``, such as ``runsc``, are names; ``cpus`` is how many processors
    a container may keep busy.
    """

    name = "container"
    tier = Tier.CONTAINER
    runtimes = frozenset({"python", "command"})

    def __init__(
        self,
        *,
        waiting: Waiting | None = None,
        guests: int | None = None,
        pool: int | None = None,
        engine: str | None = None,
        default_image: str | None = None,
        engine_runtime: str | None = None,
        cpus: float = 1.0,
    ) -> None:
        self._waiting = waiting or ThreadWaiting()
        self._limit = max(guests or _DEFAULT_GUESTS, pool or 0)
        #: The engine and its images.
        self.access = Access(engine, default_image, engine_runtime)
        self._cpus = cpus
        self._slots: Slots | None = None
        self._stock = Stock(self._waiting, pool)
        self._talks: set[Talk] = set()
        self._made = 0
        #: How often everything in progress was cancelled.
        self.cancels = 0
        self._closed = False

    # kinds

    async def probe(self, *, afresh: bool = False) -> Probe:
        """Ask the engine, then run the proofs of :mod:`fastness.backends.container_probe` unless they are on record."""
        from fastness.backends import container_probe

        return await container_probe.probe(self, self._waiting, afresh=afresh)

    def engine(self) -> Engine:
        """The engine.  Blocks for at most eight seconds.  Raises TierUnavailable."""
        return self.access.engine()

    def image(self, name: str | None) -> Image:
        """The image of a run.  Blocks.  Raises TierUnavailable where the engine does not have it."""
        return self.access.image(name)

    def kind(self, request: RunRequest) -> Kind:
        """What kind of container serves a request.  Blocks.  Raises TierUnavailable, ConfigurationError."""
        return container_kind.kind(request, self.access, self._cpus)

    # guests

    async def take(self, request: RunRequest) -> ContainerBox:
        """A container that is ready for the request; :meth:`done` gives it back."""
        if self._slots is None:
            self._slots = self._waiting.slots(self._limit)
        await self._slots.acquire()
        try:
            engine = await self._waiting.call(self.engine)
            kind = await self._waiting.call(partial(self.kind, request))
            box = self._stock.waiting_one(kind)
            if box is None:
                # A birth that is under way cannot be broken off: who gives up meanwhile has it buried.
                birth = partial(self._waiting.call, partial(self._birth, engine, kind))
                box = await self._waiting.unbroken(birth, self._unborn)
                try:
                    await self.become_ready(box, kind)
                except BaseException:
                    self._stock.bury(box)
                    raise
            return box
        except BaseException:
            self._slots.release()
            raise

    async def _unborn(self, made: ContainerBox | list[ContainerBox]) -> None:
        for box in made if isinstance(made, list) else (made,):
            self._stock.bury(box)

    def _birth(self, engine: Engine, kind: Kind) -> ContainerBox:
        try:
            return self._stock.make(engine, self.access.image_of(kind.image), kind)
        except EngineFault as fault:
            # It may have gone, or been replaced, meanwhile: the next run looks again.
            self.access.forget()
            if "executable file not found" in fault.cause or "no such file or directory" in fault.cause:
                allowed = "one with a python3 of version 3.9 or later, which its first process needs"
                raise ConfigurationError("image", kind.image[:19], allowed) from None
            if fault.kind == "status" and fault.status == 404:
                raise unavailable(
                    EngineFault("absent", "the image is gone from the engine", "run: fastness image build"),
                    Guarantee.IMAGE_ROOT,
                ) from None
            raise BackendError("making a container", fault.cause, fault.remedy or "run: fastness doctor") from None
        except containers.NotAsAsked as error:
            raise refused("the engine made", error.differences) from None
        except OSError as error:
            raise BackendError("making a container", error.strerror or error, "run: fastness doctor") from None

    async def become_ready(self, box: ContainerBox, kind: Kind) -> None:
        """Wait until a new container has checked itself and its guest waits.  Raises TierUnavailable, BackendError."""
        # One that is made ahead is waited for in a thread that has no loop.
        pump, waiting = box.pump, box.waiting
        try:
            with waiting.limit(_START_S):
                await box.become_ready()
        except TimeoutError:
            raise BackendError("starting a container", f"it was not ready within {_START_S:g} s", DOCTOR) from None
        except BoxLost:
            await waiting.call(partial(pump.done.wait, 1.0))
            if pump.refused:
                raise refused("inside it is seen", pump.refused) from None
            cause = pump.broken or pump.bad or box.last_words() or "it ended before it was ready"
            if "No module named" in cause or "ImportError" in cause:
                raise ConfigurationError("image", kind.image[:19], f"one with a whole Python: {cause}") from None
            raise BackendError("starting a container", cause, DOCTOR) from None
        except GuestProtocolError as error:
            # No foreign code has run yet, so this is a fault of ours.
            raise BackendError("starting a container", error, "please report this") from None
        except BackendError as error:
            _, is_preload, name = error.step.rstrip(")").partition("(preload ")
            if is_preload:
                raise native_config.preload_failed(name, error.cause) from None
            raise

    def done(self, box: ContainerBox, request: RunRequest | None = None) -> None:
        """A container is of no more use; another is made ready where some are to wait."""
        assert self._slots is not None
        self._slots.release()
        self._stock.bury(box)
        if request is not None and request.bind is None and self._stock.is_wanted(box.kind):
            self._stock.refill(box.kind, self)

    # running

    async def run(self, request: RunRequest, staged: Staged, sink: Sink | None, calls: Calls | None = None) -> Report:
        """One request in a container of its own."""
        try:
            return await self._run(request, staged, sink, calls)
        finally:
            await close_calls(calls, self._waiting)

    async def _run(self, request: RunRequest, staged: Staged, sink: Sink | None, calls: Calls | None) -> Report:
        container_kind.check(request, calls)
        began, cancels = time.monotonic(), self.cancels
        with self._waiting.limit(left(request, began)):
            box = await self.take(request)
        try:
            whole, request = request, until(request, began)
            talk = Talk(box, request, sink, calls)
            report = await self.talk(talk, staged, 0, queued=time.monotonic() - began, cancels=cancels)
            said = told(report, whole, request)
            assert said is not None
            return said
        except CallbackRaised as raised:
            raise raised.error from None
        finally:
            self.done(box, request)

    async def talk(self, talk: Talk, staged: Staged, session: int, *, queued: float = 0.0, cancels: int) -> Report:
        """One invoke from its files to its report; after a run nothing of its guest is alive any more."""
        box, request = talk.box, talk.request
        assert isinstance(box, ContainerBox)
        limits = request.limits
        with Scratch(self._stock.folder(), box.next_name()) as scratch:
            await self._fill(box, staged, scratch)
            grace = limits.grace_s if request.runtime == "command" else 0.0
            box.pump.say("begin", wall_s=limits.wall_s + grace + _SECOND_S, cpu_s=limits.cpu_s)
            if request.stdin:
                for start in range(0, len(request.stdin), MIB):
                    box.pump.post(STDIN, request.stdin[start : start + MIB])
            self._talks.add(talk)
            try:
                if self._closed:
                    raise BackendError("running", "the sandbox was closed meanwhile", "make a new one")
                if self.cancels != cancels:
                    talk.end(OutcomeKind.CANCELLED)
                await talk.run(*self._invoke(talk, session), (), grace)
            finally:
                self._talks.discard(talk)
            over = not session or talk.gone or talk.reason is not None
            if box.pump.failed:
                raise StagingError("files", box.pump.failed, DOES_NOT_FIT)
            collected = await self._collect(talk, staged, scratch, over)
            return container_report.report(
                talk, collected, session=bool(session), queued=queued, engine=self.access.found
            )

    @staticmethod
    def _invoke(talk: Talk, session: int) -> tuple[m.Invoke, bytes]:
        request = talk.request
        context = talk.calling.context() if talk.calling is not None else b""
        code = (request.code or "").encode("utf-8", "surrogatepass")
        if request.runtime == "command":
            import msgspec

            assert request.command is not None
            code = native_work.encode_command(request.command)
            request = msgspec.structs.replace(request, env={**_PROGRAM, **request.env})
        operation = "execute" if session else "run"
        head = native_work.invoke_head(talk.box.next_id(), request, operation, session, code, context)
        return head, code + context

    async def _fill(self, box: ContainerBox, staged: Staged, scratch: Scratch) -> None:
        """Send what the guest finds in its work folder."""
        if staged.project is not None:
            folder = await self._waiting.call(partial(scratch.make, "in"))
            await self._waiting.call(partial(fill, staged.project, folder, uid=-1, gid=-1, files=staged.files))
            box.pump.stream(FILES, parcel.of_folder(folder))
        elif staged.files:
            box.pump.stream(FILES, parcel.of_files(sorted(staged.files.items())))

    async def _collect(self, talk: Talk, staged: Staged, scratch: Scratch, over: bool) -> Collected:
        box, limits = talk.box, talk.request.limits
        assert isinstance(box, ContainerBox)
        if talk.request.bind is not None:
            # What it left is where it is to be.
            box.pump.say("finish", max_bytes=0, max_files=0)
            await drain(talk, _DRAIN_S)
            return Collected()
        folder = await self._waiting.call(partial(scratch.make, "out"))
        box.pump.collect(folder, limits.file_bytes, limits.files)
        bounds = {"max_bytes": limits.file_bytes, "max_files": limits.files}
        if not over:
            box.pump.say("rest")
        box.pump.say("finish" if over else "files", **bounds)
        # Also where a container does not answer, nobody waits for it for ever.
        if over:
            await drain(talk, _DRAIN_S)
        most = _COLLECT_S + limits.file_bytes / _COLLECT_RATE
        await self._waiting.call(partial(wait_for_files, box.pump, _COLLECT_S, most))
        before: Any = staged.project if staged.project is not None else staged.files
        look = partial(container_report.collected, box, folder, before, limits)
        try:
            return await self._waiting.call(look)
        except OSError as error:
            raise BackendError("collecting the run's files", error, "please report this") from None
        finally:
            box.pump.uncollect()

    # sessions, and ahead

    async def open_session(self, request: RunRequest, calls: Calls | None = None) -> BackendSession:
        """A container that keeps its guest's state."""
        from fastness.backends.container_session import ContainerSession

        try:
            container_kind.check(request, calls)
            if request.runtime != "python":
                raise ConfigurationError("runtime", request.runtime, "python: a program has no session")
            if request.bind is not None:
                raise ConfigurationError("bind", request.bind, "one run, and no session")
            box = await self.take(request)
        except BaseException:
            await close_calls(calls, self._waiting)
            raise
        return ContainerSession(self, box, calls)

    async def warm(self, request: RunRequest, count: int) -> None:
        """Have ``count`` containers waiting, ready."""
        container_kind.check(request)
        if request.bind is not None:
            raise ConfigurationError("bind", request.bind, "one run, and nothing that waits")
        engine = await self._waiting.call(self.engine)
        kind = await self._waiting.call(partial(self.kind, request))
        missing = min(count, self._limit) - self._stock.waiting_count(kind)
        # They start side by side.
        birth = partial(self._stock.make_many, partial(self._birth, engine, kind), missing)
        boxes = await self._waiting.unbroken(partial(self._waiting.call, birth), self._unborn)
        try:
            while boxes:
                await self.become_ready(boxes[-1], kind)
                self._stock.keep(boxes.pop())
        finally:
            for box in boxes:
                self._stock.bury(box)

    def cancel_all(self) -> None:
        """End every run in progress; each returns a result with the outcome ``cancelled``."""
        self.cancels += 1
        for talk in list(self._talks):
            talk.end(OutcomeKind.CANCELLED)

    def guest_pids(self) -> list[int]:
        """None of them is known here."""
        return []

    async def aclose(self) -> None:
        """End and remove every container."""
        self._closed = True

        def end() -> None:
            for talk in list(self._talks):
                talk.end(OutcomeKind.CANCELLED, "the sandbox was closed")
            self._stock.close()

        with self._waiting.limit(None, shield=True):
            await self._waiting.call(end)

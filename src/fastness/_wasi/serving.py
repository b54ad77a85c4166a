"""
One run inside an engine: a clean instance, a fresh host with a fresh tree, the guest, and what is left of it.

A slot holds an instance with clean memory, ready before it is asked for.  After a run the instance is either reset
in place (only where its last call returned and its memory did not grow) or dropped.
"""

from __future__ import annotations

import time
from _blake2 import blake2b
from os import urandom

from fastness._wasi import image as images
from fastness._wasi import memfs, memfs_tree, preview1
from fastness._wasi.binding import Instance, Trap
from fastness._wasi.calls import NUMBER as CALLS
from fastness._wasi.calls import CallChannel, CallsFd
from fastness._wasi.lines import LinesFd
from fastness._wasi.preview1_denials import DenialLog
from fastness._wasi.preview1_memory import stream
from fastness._wasi.stop import Stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fastness._linux.pagemap import Scanner
    from fastness._wasi.binding import Engine
    from fastness._wasi.engine_talk import Conversation
    from fastness._wasi.output import Output
    from fastness._wasi.watch import Watch

#: A reset instance is compared with its image after so many resets.
_COMPARE_EVERY = 20_000
_MEMORY_CAP = 4 << 30
#: Bytes of pages that a run with a ctx may add to those that are copied back, never dropped.
_HOT_MORE = 4 << 20
#: The descriptor on which the boot code of a language guest tells claims.
_CLAIMS = 1001
#: Bytes of claims that a run may tell while it runs.
_CLAIMS_CAP = 32 << 10


class NotClean(Exception):
    """An instance that was reset differs from its image: a bug of ours; the engine must end."""


def seeded(seed: int) -> Callable[[int], bytes]:
    """A reproducible stream of bytes: BLAKE2b in counter mode over the seed."""
    key = seed.to_bytes((seed.bit_length() + 8) // 8, "little", signed=True)[:64]
    block, rest = 0, b""

    def read(count: int) -> bytes:
        nonlocal block, rest
        data = rest
        while len(data) < count:
            data += blake2b(block.to_bytes(16, "little"), key=key, digest_size=64).digest()
            block += 1
        rest = data[count:]
        return data[:count]

    return read


class Run:
    """The host side of one guest while it lives: its host object, tree, denials and how its last call ended."""

    __slots__ = (
        "baseline",
        "calls",
        "claims",
        "context",
        "cpu_ns",
        "denials",
        "ending",
        "exit_code",
        "host",
        "instance",
        "payload",
        "payload_left",
        "quota",
        "roots",
        "started_ns",
        "trap",
        "wall_ns",
        "work",
    )

    def __init__(self) -> None:
        self.instance: Instance | None = None
        self.host: Any = None
        self.work: Any = None
        self.quota: Any = None
        self.roots: tuple[Any, ...] = ()
        self.denials = DenialLog()
        self.baseline: Any = None
        self.payload: list[bytes] = []
        self.claims = bytearray()
        #: The channel of its calls, where it was granted anything, and what its ctx is made of.
        self.calls: CallChannel | None = None
        self.context = b""
        self.payload_left = 0
        self.ending = ""
        self.exit_code: int | None = None
        self.trap = ""
        self.started_ns = 0
        self.wall_ns = 0
        self.cpu_ns = 0


class Server:
    """Makes, runs and recycles instances of one guest.  Used by the runner thread only."""

    def __init__(
        self,
        engine: Engine,
        pre: int,
        guest: Any,
        current: list[Any],
        output: Output,
        watch: Watch,
        scanner: Scanner,
        quick: bool,
        talk: Conversation,
    ) -> None:
        self.engine = engine
        self.pre = pre
        self.guest = guest
        self.current = current
        self.output = output
        self.watch = watch
        self.scanner = scanner
        self.quick = quick
        self.talk = talk
        self._call_numbers = [0]
        #: How many more runs with a ctx are looked at for the pages that such runs write.
        self._lessons = 4
        self.image: images.Image | None = None
        self._slot: Instance | None = None
        self._slot_fresh = False
        self._resets = 0
        self.was_reset = False

    # instances

    def _create(self, memory: int) -> Instance:
        limit = min((self.image.size if self.image else 0) + memory, _MEMORY_CAP)
        instance = Instance(self.engine, self.pre, limit)
        if self.image is not None:
            images.restore(instance, self.image)
        return instance

    def _take(self, memory: int, fresh: bool) -> Instance:
        slot, self._slot = self._slot, None
        if slot is not None and (self._slot_fresh or not fresh) and not self.guest.fresh_only:
            self.was_reset = not self._slot_fresh
            slot.set_memory_limit(min((self.image.size if self.image else 0) + memory, _MEMORY_CAP))
            return slot
        if slot is not None:
            slot.close()
        self.was_reset = False
        return self._create(memory)

    def recycle(self, run: Run, fresh: bool) -> None:
        """After a run's answer has left: make the next instance ready."""
        instance, run.instance = run.instance, None
        called = run.calls is not None
        self._forget(run)
        if instance is None:
            return
        if self.image is None or self.guest.fresh_only:
            instance.close()
            return
        if called and not fresh and run.ending == "returned" and self._lessons:
            # Runs with a ctx write other pages than the smallest run, and an engine that serves one will serve more.
            self._lessons -= 1
            images.learn_hot(instance, self.image, self.scanner, _HOT_MORE)
        if not fresh and run.ending == "returned" and images.reset(instance, self.image, self.scanner):
            self._resets += 1
            if self._resets % _COMPARE_EVERY == 0 and not images.same(instance, self.image):
                raise NotClean("a guest that was reset in place differs from its image")
            self._slot, self._slot_fresh = instance, False
            return
        instance.close()
        self._slot, self._slot_fresh = self._create(0), True

    def compare(self) -> bool:
        """Whether the waiting instance is byte for byte the image; True where none waits."""
        return self._slot is None or self.image is None or images.same(self._slot, self.image)

    # runs

    def open(self, invoke: dict[str, Any], staged: dict[str, bytes], stdin: bytes, context: bytes = b"") -> Run:
        """An instance with its tree and host, ready to run.  Raises ``Errno`` where the files pass the quota."""
        limits = invoke["limits"]
        run = Run()
        fixed = invoke.get("time_ns")
        clock = preview1.Clock(fixed)
        now = clock.realtime()
        run.quota = memfs.Quota(max_bytes=limits["file_bytes"], max_files=limits["files"])
        if self.guest.fresh_only:
            self.guest.prepare([p["path"] for p in invoke["preopens"]])
        preopens, run.work = self.guest.tree(run.quota, now)
        run.roots = (preopens[-1][1],) if preopens and not self.guest.fresh_only else (run.work,)
        for path, data in staged.items():
            memfs_tree.add(run.work, path, data, now, replace=True)
        run.baseline = memfs_tree.snapshot_state(run.work)
        seed = invoke.get("seed")
        random = urandom if seed is None else seeded(seed)
        run.host = preview1.Host(
            args=self.guest.arguments(invoke["args"]),
            env=self.guest.environment(invoke["env"]),
            preopens=preopens,
            stdin=stdin,
            write_out=self.output.write,
            clock=clock,
            random=random,
            denials=run.denials,
            wait=self.watch.wait,
            max_fds=limits["fds"],
            report_absent=not self.guest.fresh_only,
            tty=self.guest.tty,
        )
        run.instance = self._take(limits["memory"], invoke["fresh"])
        run.host.bind(run.instance)
        run.payload_left = limits["frame_bytes"]
        if self.guest.channel >= 0:
            run.host.install(self.guest.channel, stream(b"", self._payload_writer(run)))
        if self.guest.has_image:
            run.host.install(_CLAIMS, stream(None, self._claims_writer(run)))
        if context:
            run.calls = CallChannel(self.talk, self.watch, self._call_numbers)
            # A module of anybody's is no part of ours: what is asked of it must be simple.
            run.host.install(CALLS, LinesFd(run.calls) if self.guest.fresh_only else CallsFd(run.calls))
        if self.image is not None:
            for number, label, path, offset, flags in self.image.saved:
                run.host.restore_fd(number, self.guest.library.find(label, path), offset, flags)
            images.reseed(run.instance.base(), self.image, random)
        return run

    @staticmethod
    def _payload_writer(run: Run) -> Callable[[bytes], None]:
        def write(data: bytes) -> None:
            run.payload_left -= len(data)
            if run.payload_left < 0:
                raise Stop("payload", "the guest's answer is larger than its cap")
            run.payload.append(data)

        return write

    @staticmethod
    def _claims_writer(run: Run) -> Callable[[bytes], None]:
        def write(data: bytes) -> None:
            # What does not fit is lost: nobody is owed a claim.
            run.claims += data[: _CLAIMS_CAP - len(run.claims)]

        return write

    def execute(self, run: Run, invoke: dict[str, Any], code: bytes) -> None:
        """Let the guest run once; fills in ``ending`` and what belongs to it.  Never raises for what a guest did."""
        limits = invoke["limits"]
        host, instance = run.host, run.instance
        assert instance is not None
        run.payload.clear()
        run.claims.clear()
        run.payload_left = limits["frame_bytes"]
        run.ending, run.trap, run.exit_code = "returned", "", None
        host.exc = None
        # What a rehearsal prints (its id is 0) is nobody's: it must not leave, however slow this start is.
        self.output.begin(limits["output_total_bytes"], self.quick or not invoke["id"])
        self.current[0] = host
        if run.calls is not None:
            run.calls.begin(limits)
        started, cpu = time.monotonic_ns(), time.thread_time_ns()
        run.started_ns = started
        self.watch.begin(invoke["id"], limits["wall_s"], limits["cpu_s"])
        instance.arm()
        try:
            self.guest.run(instance, Channel(run, self.guest.channel), self.image, invoke, code)
        except Trap as trap:
            self._ended(run, trap)
        except Stop as stop:
            # The driver found that the guest has made itself unusable, or waited on its behalf.
            self._stopped(run, stop)
        except RuntimeError as error:
            run.ending, run.trap = "refused", str(error)[:200]
        finally:
            reason = self.watch.end()
            self.current[0] = None
            if run.calls is not None:
                run.calls.end()
            run.wall_ns = time.monotonic_ns() - started
            run.cpu_ns = time.thread_time_ns() - cpu
        if run.ending == "trap" and run.trap == "interrupt":
            run.ending = reason or "cancelled"

    def _ended(self, run: Run, trap: Trap) -> None:
        cause = run.host.exc
        if trap.code != "host":
            run.ending = "stub" if self.quick and trap.code == "unreachable" else "trap"
            run.trap = trap.code
        elif isinstance(cause, preview1.ProcExit):
            run.ending, run.exit_code = "exit", cause.code
        elif isinstance(cause, Stop):
            self._stopped(run, cause)
        else:
            # One of our own callbacks failed: the guest is ended and the parent told that the fault is ours.
            where = run.host.where
            run.ending, run.trap = "refused", f"host call failed at {where}: {type(cause).__name__}: {cause}"[:200]

    @staticmethod
    def _stopped(run: Run, stop: Stop) -> None:
        run.ending = _STOPPED.get(stop.reason, stop.reason)
        run.trap = stop.detail[:200]

    def close(self, run: Run) -> None:
        """Drop a run's instance and tree."""
        if run.instance is not None:
            run.instance.close()
            run.instance = None
        self._forget(run)

    @staticmethod
    def _forget(run: Run) -> None:
        """Break the cycles between a run, its host and its tree, so that nothing waits for a garbage collection."""
        if run.host is not None:
            run.host.close_all()
            for root in run.roots:
                memfs_tree.discard(root)
        run.host = run.work = run.baseline = run.quota = run.calls = None
        run.roots = ()
        run.payload = []


_STOPPED = {"payload": "payload", "calls": "payload", "": "cancelled"}


class Channel:
    """The guest's channel as the drivers use it: put a request in, take what was written."""

    __slots__ = ("_fd", "_run", "run")

    def __init__(self, run: Run, number: int) -> None:
        self.run = self._run = run
        self._fd = number

    def put_channel(self, data: bytes) -> None:
        """Make ``data`` the next thing that the guest reads from its channel.  Raises ``Stop`` where it closed it."""
        fd = self._run.host.fds.get(self._fd)
        if fd is None or fd.out is None:
            raise Stop("payload", "the guest closed the channel of its answer")
        fd.data = data
        fd.pos = 0

    def answer(self, data: bytes) -> None:
        """Make ``data`` the guest's whole answer, for drivers that read it from memory; too long a one is none."""
        self._run.payload[:] = [data] if len(data) <= self._run.payload_left else []

    def take_channel(self) -> bytes:
        """What the guest wrote since the last time."""
        data = b"".join(self._run.payload)
        self._run.payload.clear()
        return data

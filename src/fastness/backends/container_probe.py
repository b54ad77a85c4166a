"""
Proof that the tier ``container`` keeps its promises on this engine, by making each of them deny something.

The engine is asked first, within eight seconds whatever it does; then containers try what they must not be able to do,
and the same program runs unconfined beside them.  A verdict that holds is kept for this boot, this engine and this
image; that each later container is what was asked for is checked at its own start.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import os
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from fastness._container import gvisor, image, profile
from fastness._container.deadline import Deadline
from fastness._container.faults import EngineFault
from fastness._container.probe import PROBE_S, Engine
from fastness.backends import container_report, probe_record
from fastness.backends.base import Report, Staged
from fastness.backends.native_proofs import _LOUD, _SHARED, _THREADS, _WORDS, _refusals, _Scene
from fastness.errors import BackendError, FastnessError, TierUnavailable
from fastness.limits import MIB, Limits
from fastness.runs import OutcomeKind, RunRequest
from fastness.tier import Guarantee, Probe, ProbeFailure, Proof, Tier

if TYPE_CHECKING:
    from fastness._container.image import Image
    from fastness.backends.container import ContainerBackend
    from fastness.waiting import Waiting

_AGAIN = "see the cause; then run: fastness doctor"
_BROKEN = "please report this: the tier must not be used here"
#: Attempts behind each guarantee: all must fail inside and succeed in the control.
_ATTEMPTS = {
    Guarantee.FS_CONFINED: ("read", "append", "make"),
    # A datagram to one's own loopback is never refused; that nobody here heard anything is looked at too.
    Guarantee.NET_CONFINED: ("connect", "local"),
    Guarantee.SYSCALL_FILTERED: ("netlink",),
    Guarantee.PID_HIDDEN: ("signal", "see"),
}
#: Beside those of every native tier; the text runs in front of theirs.
_MORE = """
import errno as _errno, socket as _socket, json as _json
def _netlink():
    _socket.socket(16, _socket.SOCK_RAW, 16).close()
try:
    _netlink()
    _met = "done"
except OSError as _error:
    _met = _errno.errorcode.get(_error.errno, str(_error.errno))
"""
_MANY = 40
_MANY_THREADS = f"""
import threading, time
threading.stack_size(65536)
for _ in range({_MANY}):
    threading.Thread(target=time.sleep, args=(2,), daemon=True).start()
time.sleep(1)
"""
_STATUS = """
import os, ctypes
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines() if ":" in line)
status = {name: status.get(name, "").strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
    "Seccomp", "Uid")}
status["NoNewPrivs"] = str(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))
tried = []
for place in ("/", "/etc", "/usr/bin"):
    try:
        os.open(place, os.O_TMPFILE | os.O_WRONLY)
        tried.append(place)
    except OSError:
        pass
try:
    os.setuid(0)
    tried.append("setuid")
except OSError:
    pass
{"status": status, "done": tried, "root": sorted(os.listdir("/"))}
"""


class _Prover:
    def __init__(self, backend: ContainerBackend, waiting: Waiting, engine: Engine) -> None:
        self._backend = backend
        self._waiting = waiting
        self.proofs: list[Proof] = []
        self.failures: list[ProbeFailure] = []
        self._gvisor = gvisor.is_gvisor(engine, backend.access.runtime)
        self.layers = container_report.layers(engine, self._gvisor)

    def note(self, guarantee: Guarantee, held: bool, observed: str, remedy: str = "") -> None:
        if held:
            self.proofs.append(Proof(guarantee.value, self.layers[guarantee.value], observed))
        else:
            self.failures.append(ProbeFailure(guarantee=guarantee.value, cause=observed, remedy=remedy or _BROKEN))

    async def run(self, code: str, *args: str, **limits: float) -> Report:
        bounds: dict[str, Any] = {"wall_s": 10.0, "cpu_s": 10.0, "memory": 64 * MIB, "file_bytes": MIB, **limits}
        request = RunRequest(code=code, args=args, tier=Tier.CONTAINER.value, limits=Limits(**bounds))
        return await self._backend.run(request, Staged(), None)

    async def limits(self) -> None:
        """What ends a run that would not end."""
        report = await self.run("while True: pass", wall_s=0.2)
        held = report.outcome.kind is OutcomeKind.TIMEOUT and report.usage.wall_s < 2.0
        self.note(Guarantee.WALL_KILL, held, f"an endless loop ended as {_kind(report)}")
        report = await self.run("x = []\nwhile True: x.append(bytearray(1 << 20))")
        held = report.outcome.kind is OutcomeKind.MEMORY
        self.note(Guarantee.MEM_CAP, held, f"memory without end ended as {_kind(report)}")
        report = await self.run(_SHARED)
        held = report.outcome.kind is OutcomeKind.MEMORY
        self.note(Guarantee.TOTAL_MEM_CAP, held, f"shared memory without end ended as {_kind(report)}")
        report = await self.run(_LOUD, output_total_bytes=65536, output_bytes=1024)
        held = report.outcome.kind is OutcomeKind.OUTPUT_LIMIT and len(report.stdout) < 4096
        self.note(Guarantee.OUTPUT_CAP, held, f"output without end ended as {_kind(report)}")
        report = await self.run("import os\nos.abort()")
        after = await self.run("6 * 7")
        held = report.outcome.kind is OutcomeKind.CRASHED and after.value == 42
        self.note(Guarantee.CRASH_CONTAINED, held, f"an abort ended as {_kind(report)}; the next run worked")
        if self._gvisor:
            # No group counts what is inside of it: the container's first process looks, and ends all of it.
            report = await self.run(_MANY_THREADS, pids=8)
            held = report.outcome.kind is OutcomeKind.CRASHED
            self.note(Guarantee.PIDS_CAP, held, f"with 8 allowed, {_MANY} threads ended as {_kind(report)}")
            return
        report = await self.run(_THREADS, pids=8)
        started = int(report.stdout) if report.stdout.strip().isdigit() else 1000
        self.note(Guarantee.PIDS_CAP, started < 8, f"with 8 allowed, {started} more threads started")

    async def attempts(self) -> None:
        """What a guest must not be able to do, beside the same attempts where nothing stops them."""
        text = importlib.resources.files("fastness.guest").joinpath("attempts.py").read_text("utf-8")
        code = _MORE + text.replace("print(json.dumps(found))", 'found["netlink"] = _met\nprint(json.dumps(found))')
        with tempfile.TemporaryDirectory(prefix=f"fastness-probe-{os.getpid()}-") as folder, _Scene(folder) as scene:
            report = await self.run(code, json.dumps(scene.wanted()))
            try:
                inside = json.loads(report.stdout)
            except ValueError:
                cause = f"the attempts ended as {_kind(report)} ({report.outcome.detail})"
                self.failures.append(ProbeFailure(guarantee="all", cause=cause, remedy=_BROKEN))
                return
            untouched = scene.untouched()
            control = await self._waiting.call(partial(scene.control, code))
        words = {**_WORDS, "netlink": "a socket of another family"}
        for guarantee, names in _ATTEMPTS.items():
            refused = all(inside.get(name) != "done" for name in names)
            missed = [name for name in names if control.get(name) != "done"]
            traceless = guarantee not in (Guarantee.FS_CONFINED, Guarantee.NET_CONFINED) or not untouched
            held = refused and not missed and traceless
            seen = _refusals({words[name]: str(inside.get(name)) for name in names})
            seen += (
                f"; unconfined, {', '.join(missed)} failed too, so nothing is proven"
                if missed
                else " (unconfined, all of it worked)"
            )
            self.note(guarantee, held, untouched or seen)
        told = {"LANG", "HOME", "TMPDIR", "PATH", "HOSTNAME", "TERM"}
        own = {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "MALLOC_ARENA_MAX", "MPLBACKEND",
               "MPLCONFIGDIR", "NO_COLOR", "LC_CTYPE", "PYTHONDONTWRITEBYTECODE", "container"}  # fmt: skip
        leaked = (set(os.environ) & set(inside["environment"])) - told - own
        seen = f"the guest saw {len(leaked)} of this process's {len(os.environ)} variables"
        self.note(Guarantee.ENV_SCRUBBED, not leaked and bool(os.environ), seen)
        apart = inside["pid"] != os.getpid() and inside["signal"] != "done"
        self.note(Guarantee.ADDRESS_SPACE, apart, "guests ran in a process, and a process namespace, of their own")

    async def status(self, found: Image) -> None:
        """What the kernel says of a guest, from inside, and what it may not write."""
        report = await self.run(_STATUS)
        value = report.value if isinstance(report.value, dict) else {}
        status, done, root = value.get("status", {}), value.get("done", ["everything"]), value.get("root", [])
        seen = status.get("NoNewPrivs")
        self.note(Guarantee.NO_NEW_PRIVS, seen == "1" and "setuid" not in done, f"NoNewPrivs {seen}")
        names = ("CapInh", "CapPrm", "CapEff", "CapBnd", *(() if self._gvisor else ("CapAmb",)))
        sets = [status.get(name) or "?" for name in names]
        powerless = all(one.strip("0") == "" for one in sets)
        self.note(
            Guarantee.NO_PRIVILEGE,
            powerless,
            "its capability sets and their bound are empty" if powerless else "it has capabilities",
        )
        if status.get("Seccomp") != "2" and not self._gvisor:
            self.note(Guarantee.SYSCALL_FILTERED, False, f"its seccomp mode is {status.get('Seccomp')}")
        mine = set(root) != set(os.listdir("/"))
        self.note(Guarantee.OWN_ROOT, mine and not done, f"the root had {len(root)} entries, and none took a file")
        self.note(Guarantee.IMAGE_ROOT, bool(found.id) and not done, f"the root was the image {found.id[:12]}")
        uids = str(status.get("Uid", "")).split()
        if uids and str(os.geteuid()) not in uids:
            self.note(Guarantee.OWN_UID, True, f"it ran as user {uids[0]}")


def _kind(report: Report) -> str:
    return report.outcome.kind.value


async def probe(backend: ContainerBackend, waiting: Waiting, *, afresh: bool) -> Probe:
    """Ask the engine and try everything, or take this boot's verdict for the rest unless ``afresh``."""
    began = time.monotonic()
    try:
        engine = await waiting.call(backend.engine)
        found = await waiting.call(partial(backend.image, None))
    except TierUnavailable as error:
        return Probe(
            backend=backend.name,
            tier=Tier.CONTAINER.value,
            failures=error.failures,
            notes=(_NOTE,),
            micros=round((time.monotonic() - began) * 1e6),
        )
    profiled = hashlib.sha256(profile.text().encode()).hexdigest()
    runtime = gvisor.runtime_of(engine, backend.access.runtime)
    about = f"{runtime} {engine.endpoint} {engine.identity} {engine.version} {engine.api} {found.id} {profiled}"
    name = f"container-{hashlib.sha256(about.encode()).hexdigest()[:16]}"
    key = await waiting.call(partial(probe_record.key, ("_container", "guest"), about))
    known = None if afresh else await waiting.call(partial(probe_record.recorded, name, key))
    if known is not None:
        return known
    prover = _Prover(backend, waiting, engine)
    try:
        await prover.limits()
        await prover.attempts()
        await prover.status(found)
    except TierUnavailable as error:
        prover.failures.extend(error.failures)
    except BackendError as error:
        # Its own text has the fix in it already.
        cause, remedy = f"{error.step} failed: {error.cause}", error.hint or _AGAIN
        prover.failures.append(ProbeFailure(guarantee="all", cause=cause, remedy=remedy))
    except FastnessError as error:
        prover.failures.append(ProbeFailure(guarantee="all", cause=str(error), remedy=_AGAIN))
    proven = {proof.guarantee for proof in prover.proofs} - {failure.guarantee for failure in prover.failures}
    verdict = Probe(
        backend=backend.name,
        tier=Tier.CONTAINER.value,
        guarantees=tuple(sorted(proven)),
        failures=tuple(prover.failures),
        proofs=tuple(prover.proofs),
        layers={name: text for name, text in prover.layers.items() if name in proven},
        versions=await waiting.call(partial(_versions, engine, found, backend.access.runtime)),
        micros=round((time.monotonic() - began) * 1e6),
        notes=_notes(engine, backend.access.runtime),
    )
    await waiting.call(partial(probe_record.record, name, key, verdict))
    return verdict


_NOTE = "Access to an engine is root on the machine where it runs: give it to nobody who is not root there."


def _notes(engine: Engine, named: str) -> tuple[str, ...]:
    found = [_NOTE, f"The engine is {engine.kind} {engine.version} at {engine.endpoint}."]
    others = [name for name in engine.runtimes if gvisor.NAME in name]
    if gvisor.is_gvisor(engine, named):
        found.append(f"Containers are gVisor's ({gvisor.version(engine, named)}): how old it is, is yours to judge.")
    elif others and engine.kind == "docker":
        # Podman lists runtimes that it knows of, installed or not.
        found.append(f"It has gVisor as the runtime {others[0]!r}; FASTNESS_ENGINE_RUNTIME={others[0]} uses it.")
    return tuple(found)


def _versions(engine: Engine, found: Image, named: str) -> dict[str, str]:
    versions = {engine.kind: engine.version, "api": engine.api, "cgroup": engine.cgroup_version}
    versions["runtime"] = gvisor.runtime_of(engine, named) or "the engine's own"
    if gvisor.is_gvisor(engine, named):
        versions["gVisor"] = gvisor.version(engine, named)
    versions["image"] = f"{found.flavour or 'other'} {found.id[:12]}"
    try:
        ours = image.list_ours(engine.client(), Deadline(PROBE_S))
        versions["images"] = str(len({one.id for one in ours}))
    except EngineFault:
        pass
    return versions

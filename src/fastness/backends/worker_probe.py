"""
Proof that the ``worker`` tier keeps its promises on this host, by making each of them deny something.

A few workers are started and try what they may not.  A verdict that holds is kept for this boot; ``doctor`` always
asks anew.
"""

from __future__ import annotations

import os
import platform
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from fastness.backends import probe_record
from fastness.backends.base import Report, Staged
from fastness.errors import FastnessError
from fastness.limits import MIB, Limits
from fastness.runs import OutcomeKind, RunRequest
from fastness.tier import Guarantee, Probe, ProbeFailure, Proof, Tier

if TYPE_CHECKING:
    from fastness.backends.worker import WorkerBackend
    from fastness.waiting import Waiting

_VARIABLE = "FASTNESS_PROBE_VARIABLE"
_LIMITS = Limits(wall_s=10.0, cpu_s=10.0, memory=64 * MIB, output_total_bytes=4096, file_bytes=MIB)

_ENVIRONMENT = f"""
import os
start = open("/proc/self/environ", "rb").read()
[{_VARIABLE!r} in os.environ, {_VARIABLE!r}.encode() in start, len(os.environ)]
"""
_MEMORY = """
try:
    bytearray(256 << 20)
except MemoryError:
    held = True
else:
    held = False
held
"""
_FIREWALL = """
import os
held = []
for attempt in (lambda: os.system("true"), lambda: __import__("_ctypes"), lambda: __import__("socket").socket()):
    try:
        attempt()
    except (PermissionError, ImportError):
        held.append(True)
    else:
        held.append(False)
all(held)
"""


class _Prover:
    def __init__(self, backend: WorkerBackend) -> None:
        self._backend = backend
        self.proofs: list[Proof] = []
        self.failures: list[ProbeFailure] = []
        self.layers: dict[str, str] = {}

    async def run(self, code: str, **limits: float) -> Report:
        bounds = msgspec.structs.replace(_LIMITS, **limits)
        request = RunRequest(code=code, runtime="python", tier="worker", limits=bounds)
        return await self._backend.run(request, Staged(), None)

    def note(self, guarantee: Guarantee, held: bool, mechanism: str, observed: str, remedy: str = "") -> None:
        if held:
            self.proofs.append(Proof(guarantee.value, mechanism, observed))
            self.layers[guarantee.value] = mechanism
        else:
            fix = remedy or "please report this: the tier must not be used here"
            self.failures.append(ProbeFailure(guarantee=guarantee.value, cause=observed, remedy=fix))

    async def everything(self) -> None:
        secret = secrets.token_hex(8)
        os.environ[_VARIABLE] = secret
        try:
            report = await self.run(_ENVIRONMENT)
        finally:
            os.environ.pop(_VARIABLE, None)
        held = isinstance(report.value, list) and report.value[:2] == [False, False]
        self.note(
            Guarantee.ENV_SCRUBBED,
            held,
            "built from nothing",
            f"a variable of this process was not among the guest's: {held}",
        )
        report = await self.run("import os\nos.getpid()")
        held = report.outcome.kind is OutcomeKind.OK and report.value not in (None, os.getpid())
        self.note(
            Guarantee.ADDRESS_SPACE, held, "own process", f"the guest ran in process {report.value}, not {os.getpid()}"
        )
        report = await self.run("while True: pass", wall_s=0.05)
        held = report.outcome.kind is OutcomeKind.TIMEOUT and report.usage.wall_s < 1.0
        self.note(Guarantee.WALL_KILL, held, "timer+SIGKILL", f"an endless loop ended as {report.outcome.kind.value}")
        report = await self.run(_MEMORY)
        self.note(
            Guarantee.MEM_CAP,
            report.value is True,
            "rlimit",
            f"asking for four times the limit was refused: {report.value is True}",
        )
        report = await self.run("while True: print('x' * 1000)")
        held = report.outcome.kind is OutcomeKind.OUTPUT_LIMIT and len(report.stdout) <= _LIMITS.output_total_bytes
        self.note(Guarantee.OUTPUT_CAP, held, "reader", f"endless output ended as {report.outcome.kind.value}")
        report = await self.run("import os\nos.abort()")
        after = await self.run("1 + 1")
        held = report.outcome.kind is OutcomeKind.CRASHED and after.value == 2
        self.note(
            Guarantee.CRASH_CONTAINED,
            held,
            "own process",
            f"an abort ended as {report.outcome.kind.value}; the next run worked: {after.value == 2}",
        )
        report = await self.run(_FIREWALL)
        if report.value is not True:
            self.failures.append(
                ProbeFailure(
                    guarantee="all",
                    cause=f"the module firewall let something through ({report.outcome.detail or 'no refusal'})",
                    remedy="please report this: the tier must not be used here",
                )
            )
        else:
            self.layers["MODULE_FIREWALL"] = "audit hook"


def _key() -> str:
    return probe_record.key(("_native", "guest"), "")


async def probe(backend: WorkerBackend, waiting: Waiting, *, afresh: bool) -> Probe:
    """Try everything, or take this boot's verdict unless ``afresh``."""
    key = await waiting.call(_key)
    found = None if afresh else await waiting.call(partial(probe_record.recorded, Tier.WORKER.value, key))
    if found is not None:
        return found
    verdict = await _probe(backend)
    await waiting.call(partial(probe_record.record, Tier.WORKER.value, key, verdict))
    return verdict


async def _probe(backend: WorkerBackend) -> Probe:
    began = time.monotonic()
    prover = _Prover(backend)
    try:
        await prover.everything()
    except FastnessError as error:
        prover.failures.append(
            ProbeFailure(guarantee="all", cause=str(error), remedy="see the cause; then run: fastness doctor")
        )
    proven = {p.guarantee for p in prover.proofs} - {f.guarantee for f in prover.failures}
    return Probe(
        backend=backend.name,
        tier=Tier.WORKER.value,
        guarantees=tuple(sorted(proven)),
        failures=tuple(prover.failures),
        proofs=tuple(prover.proofs),
        layers=prover.layers,
        versions={"kernel": platform.release(), "python": platform.python_version(), "machine": platform.machine()},
        micros=round((time.monotonic() - began) * 1e6),
    )

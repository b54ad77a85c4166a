"""
What proves that the ``wasm`` tier keeps its promises on this host: each of them is made to deny something.

Two parts: the engine process's own confinement is attacked by throw-away processes (:mod:`fastness._linux.proof`),
and a small module (``data/probe.wat``) tries inside a real engine what a guest might.
"""

from __future__ import annotations

import base64
import os
import platform
import secrets
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fastness._linux import proof
from fastness._wasi import keys
from fastness.errors import ConfigurationError, FastnessError
from fastness.limits import MIB, Limits
from fastness.runs import DenialCode, OutcomeKind, RunRequest
from fastness.tier import Guarantee, Probe, ProbeFailure, Proof, Tier

if TYPE_CHECKING:
    from fastness.backends.base import Report
    from fastness.waiting import Waiting

Run = Callable[[RunRequest], Awaitable["Report"]]
#: What engines that serve or wait have put on themselves, by guarantee.
Layers = Callable[[], dict[str, str]]

#: ``data/probe.wat`` assembled.
PROBE_MODULE = base64.b85decode(
    "0AX`&0RR910Wk+)0)Kx2e_#ZEe}8`ge_#oJe}8{}etv&{0e@fxe}8{}e*u4B0e=8s0e=C1U;qFD*#QO?cVTmBUvq9@aC2yHbYF0C"
    "Wp-(0cQFWIa%Xd2XJvE%02X&)b7^05Zeeh9Xm501aB^jKX=QgY5oK<6X>xCFUvp`CWpiI=Wpn@l7I$HDX<u`0VQ_P3Z**U9a%FaD"
    "Wp^<MW@KM?a%psB009<vVRLC;b8ca9b7*gLUvP3|c4=jIF$r*CbZB31aAj@)0v2~+b7^05Zeeh9Xm501aB^jKX=QgY33G2_YhQC^"
    "Ze#!h7I$HDX<u`0VQ_P3Z**U9a%FaDWp^<NaB^>BUuAe{bN~bc0|EsG1p@&90S6NT25n_+Z*qA800v)kbYXII00#>G0RkZb0e>I>"
    "AprwGAOS4^00clF0YL$3Apr~l3kx6tAOLF%*#Q9oe?fo<L4Y6-02)Dr2q*#oEdT%^03ZNC>;OgtKm$Mw01FEs072~lMg%}X{~tgA"
    "L4QXO1q&bmLGJ)Y1VBLmL4d#jHUa=a1VMlZHUa<xKtTaP06_sk2oM4q3;+uYAOJ!107e8r01F@hLFE8O1VBLmK?D#18bJUk0ss&N"
    "3m^bN<^V<nKtTgR06~ZdC;|XMhzKYG01yU2073#n06_pj5D)_p1q&bmLGA!X1VBLmL4d#jHUa=a1VI5d0suh+K>$GkK>$Gr5Cjkf"
    "3qj)m5CsbWi2(#|VQpmrQ3n7BVRC14UuR`>0TE?xc4=~NZeMe0dS!E8XJvE(2xeqocXDZTWdjLtVRUF;Z*XO91POC*V{2b?Wo~2z"
    "32<_6V_#)>X><k#Y-Mg|bZ7z=0tNyA1axJ1bO8fpZe#}m00ehvVRQo*0tNv91a4(`bO!<f1Z8$*as&izZ*pY"
)
#: ``(module (import "env" "system" (func)) (memory (export "memory") 1) (func (export "_start")))``
FOREIGN_MODULE = bytes.fromhex(
    "0061736d01000000010401600000020e0103656e760673797374656d0000030201000503010001071302066d656d6f7279"
    "0200065f737461727400010a040102000b"
)
_ENOENT = 44
_TENANT = "fastness-probe"


def _request(what: str, *args: str, module: bytes = PROBE_MODULE, **limits: float) -> RunRequest:
    bounds = {"wall_s": 5.0, "cpu_s": 5.0, "memory": MIB, "output_total_bytes": 4096, **limits}
    return RunRequest(
        module=module,
        runtime="wasi",
        args=(what, *args),
        preopens=("/",),
        tenant=_TENANT,
        limits=Limits(**bounds),  # type: ignore[arg-type]  # each name goes with its own type
    )


class _Prover:
    """Collects proofs and failures."""

    def __init__(self, run: Run, pids: Callable[[], list[int]], layers: Layers) -> None:
        self._run = run
        self._engine_layers = layers
        self._pids = pids
        self.proofs: list[Proof] = []
        self.failures: list[ProbeFailure] = []
        self.layers: dict[str, str] = {}

    def note(self, guarantee: Guarantee, held: bool, mechanism: str, observed: str, remedy: str = "") -> None:
        if held:
            self.proofs.append(Proof(guarantee.value, mechanism, observed))
            self.layers[guarantee.value] = mechanism
        else:
            fix = remedy or "please report this: the tier must not be used here"
            self.failures.append(ProbeFailure(guarantee=guarantee.value, cause=observed, remedy=fix))

    async def guest(self) -> None:
        """What only a guest can try."""
        run = self._run
        report = await run(_request("l", wall_s=0.05))
        over = report.usage.wall_s - 0.05
        held = report.outcome.kind is OutcomeKind.TIMEOUT and over < 0.2
        self.note(Guarantee.WALL_KILL, held, "epoch+parent timer", f"an endless loop ended as {_kind(report)}")
        report = await run(_request("m"))
        held = report.exit_code == 0
        self.note(
            Guarantee.MEM_CAP, held, "store limiter", "growing past the limit was refused" if held else _kind(report)
        )
        report = await run(_request("o"))
        held = report.outcome.kind is OutcomeKind.OUTPUT_LIMIT and len(report.stdout) <= 4096 + 64
        self.note(Guarantee.OUTPUT_CAP, held, "engine+reader", f"endless output ended as {_kind(report)}")
        report = await run(_request("t"))
        after = await run(_request("x"))
        held = report.outcome.kind is OutcomeKind.CRASHED and after.exit_code == 99
        self.note(Guarantee.CRASH_CONTAINED, held, "trap", f"a trap ended as {_kind(report)}; the next run worked")
        report = await run(_request("e"))
        self.note(
            Guarantee.ENV_SCRUBBED,
            report.exit_code == 0 and bool(os.environ),
            "built from nothing",
            f"the guest saw {report.exit_code} of this process's {len(os.environ)} variables",
            "run with at least one environment variable, so that there is something to hide",
        )
        pids = self._pids()
        held = bool(pids) and os.getpid() not in pids
        self.note(
            Guarantee.ADDRESS_SPACE, held, "engine process", f"guests ran in process {pids}, not in {os.getpid()}"
        )

    async def files_and_network(self, outside: frozenset[str]) -> None:
        """The guest's view, and the engine's behind it."""
        with tempfile.TemporaryDirectory(prefix=f"fastness-probe-{os.getpid()}-") as folder:
            canary = Path(folder) / "canary"
            secret = secrets.token_hex(16)
            canary.write_text(secret)
            report = await self._run(_request("f", str(canary).lstrip("/")))
            held = report.exit_code == _ENOENT and secret.encode() not in report.stdout
        walls = Guarantee.FS_CONFINED in outside
        self.note(
            Guarantee.FS_CONFINED,
            held and Guarantee.FS_CONFINED in outside,
            self._engine_layers().get(Guarantee.FS_CONFINED, "memory tree"),
            "a file of this machine did not exist for the guest, and an engine could not open it either"
            if held and walls
            else f"guest errno {report.exit_code}; engine process {'held' if walls else 'could open files'}",
            "run on Linux 5.13 or newer with seccomp",
        )
        report = await self._run(_request("n"))
        held = any(d.operation == "sock_send" and d.code is DenialCode.WASI_REFUSED for d in report.denials)
        walls = Guarantee.NET_CONFINED in outside
        self.note(
            Guarantee.NET_CONFINED,
            held and walls,
            self._engine_layers().get(Guarantee.NET_CONFINED, "no sockets"),
            "a socket call was refused and recorded, and an engine could not connect either"
            if held and walls
            else f"guest refused: {held}; engine process confined: {walls}",
            "run on Linux with seccomp",
        )

    async def closed(self, outside: frozenset[str]) -> None:
        """Nothing can be reached but preview 1, and no program can be started."""
        try:
            await self._run(_request("x", module=FOREIGN_MODULE))
            held, observed = False, "a module with an import of its own was accepted"
        except ConfigurationError as error:
            held, observed = True, f"a module with an import of its own was refused: {error.value}"
        self.note(Guarantee.NO_SYSCALLS, held, "46 imports of preview 1", observed)
        self.note(
            Guarantee.NO_EXEC,
            Guarantee.NO_EXEC in outside,
            "seccomp",
            "an engine could not start a program"
            if Guarantee.NO_EXEC in outside
            else "an engine could start a program",
            "run on Linux with seccomp",
        )


def _kind(report: Report) -> str:
    return report.outcome.kind.value


async def probe(run: Run, pids: Callable[[], list[int]], layers: Layers, waiting: Waiting) -> Probe:
    """Try everything, in at most a few seconds."""
    began = time.monotonic()
    prover = _Prover(run, pids, layers)
    versions = {"kernel": platform.release(), "python": platform.python_version(), "machine": platform.machine()}
    observations: list[proof.Observation] = []
    try:
        versions["wasmtime"] = keys.wasmtime()[0]
        observations = await waiting.call(lambda: proof.prove_engine(sys.executable))
    except (OSError, FileNotFoundError) as error:
        prover.failures.append(_missing(error))
    # The kernel package spells guarantees in lower case: it may not know this enum.
    outside = frozenset(name.upper() for name in proof.held_guarantees(observations)) if observations else frozenset()
    if observations:
        try:
            await prover.guest()
            await prover.files_and_network(outside)
            await prover.closed(outside)
        except FastnessError as error:
            prover.failures.append(
                ProbeFailure(guarantee="all", cause=str(error), remedy="see the cause; then run: fastness doctor")
            )
    for extra in sorted(outside - {p.guarantee for p in prover.proofs}):
        mine = [o for o in observations if o.guarantee.upper() == extra]
        prover.proofs.append(
            Proof(
                extra,
                "seccomp and others",
                "1 attempt was refused" if len(mine) == 1 else f"{len(mine)} attempts were refused",
            )
        )
    proven = sorted({p.guarantee for p in prover.proofs} - {f.guarantee for f in prover.failures})
    return Probe(
        backend="wasmtime",
        tier=Tier.WASM.value,
        guarantees=tuple(proven),
        failures=tuple(prover.failures),
        proofs=tuple(prover.proofs),
        layers=prover.layers,
        versions=versions,
        micros=round((time.monotonic() - began) * 1e6),
    )


def _missing(error: Exception) -> ProbeFailure:
    if isinstance(error, FileNotFoundError):
        return ProbeFailure(guarantee="all", cause=str(error), remedy="pip install 'fastness[wasm]'")
    return ProbeFailure(
        guarantee="all", cause=f"the engine's confinement cannot be tried here: {error}", remedy="use Linux on x86-64"
    )

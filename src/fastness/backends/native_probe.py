"""
The verdict on ``confined`` and ``isolated`` on this host: this boot's record of it, or the proofs made anew.
"""

from __future__ import annotations

import platform
import time
from functools import partial
from typing import TYPE_CHECKING

from fastness._linux import landlock, why_unsupported
from fastness.backends import native_gaps, native_slots, probe_record
from fastness.errors import FastnessError, TierUnavailable
from fastness.tier import Probe, ProbeFailure

if TYPE_CHECKING:
    from fastness.backends.native import NativeBackend
    from fastness.waiting import Waiting


async def probe(backend: NativeBackend, waiting: Waiting, *, afresh: bool) -> Probe:
    """Try everything, in at most a few seconds; or this boot's verdict."""
    tier = backend.tier
    reason = why_unsupported()
    if reason:
        failure = ProbeFailure(guarantee="all", cause=reason, remedy="use Linux on x86-64")
        return Probe(backend=backend.name, tier=tier.value, failures=(failure,))
    try:
        wanted = await waiting.call(partial(_key, backend))
    except FastnessError as error:
        return Probe(backend=backend.name, tier=tier.value, failures=(native_gaps.explain(tier, error),))
    except OSError as error:
        failure = ProbeFailure(guarantee="all", cause=f"{error.filename}: {error.strerror}", remedy="mount /proc")
        return Probe(backend=backend.name, tier=tier.value, failures=(failure,))
    if not afresh:
        found = await waiting.call(partial(probe_record.recorded, tier.value, wanted))
        if found is not None:
            return found
    # Its imports take longer than reading the record.
    from fastness.backends.native_proofs import TENANT, Prover

    began = time.monotonic()
    prover = Prover(backend, waiting)
    try:
        await prover.limits()
        await prover.attempts()
        await prover.status()
    except TierUnavailable as error:
        prover.failures.extend(error.failures)
    except FastnessError as error:
        prover.failures.append(native_gaps.explain(tier, error))
    finally:
        # Nobody but this asks for its guests.
        backend.end_tenant(TENANT)
    proven = {proof.guarantee for proof in prover.proofs} - {failure.guarantee for failure in prover.failures}
    verdict = Probe(
        backend=backend.name,
        tier=tier.value,
        guarantees=tuple(sorted(proven)),
        failures=tuple(prover.failures),
        proofs=tuple(proof for proof in prover.proofs if proof.guarantee in proven),
        layers={name: layer for name, layer in prover.layers.items() if name in proven},
        versions={
            "kernel": platform.release(),
            "python": platform.python_version(),
            "machine": platform.machine(),
            "landlock": f"abi {landlock.abi()}",
            "control groups": backend.groups_in_words(),
        },
        micros=round((time.monotonic() - began) * 1e6),
        notes=(native_slots.programs_in_words(),) if "command" in backend.runtimes else (),
    )
    await waiting.call(partial(probe_record.record, tier.value, wanted, verdict))
    return verdict


def _key(backend: NativeBackend) -> str:
    return probe_record.key(("_native", "guest"), backend.groups_in_words())

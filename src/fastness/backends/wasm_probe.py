"""
The verdict on ``wasm`` on this host: this boot's record of it, or the proofs of :mod:`fastness.backends.wasm_proofs`.

It is kept in a private file, because neither kernel nor code changes meanwhile; ``doctor`` always asks anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastness._wasi import keys
from fastness.backends import probe_record

if TYPE_CHECKING:
    from fastness.tier import Probe


def _key() -> str:
    return probe_record.key(("_wasi",), keys.wasmtime()[0])


def recorded() -> Probe | None:
    """This boot's verdict, if one that holds was recorded for this code, user and interpreter."""
    try:
        return probe_record.recorded("wasm", _key())
    except (OSError, FileNotFoundError):
        return None


def record(verdict: Probe) -> None:
    """Keep a verdict that holds; failures are looked for anew each time.  Never raises for the disk's sake."""
    try:
        probe_record.record("wasm", _key(), verdict)
    except (OSError, FileNotFoundError):
        return

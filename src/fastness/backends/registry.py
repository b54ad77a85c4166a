"""
Which backend serves a tier on this host, and what is said of tiers that none serves.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fastness.errors import ConfigurationError, TierUnavailable
from fastness.tier import ProbeFailure, Tier

if TYPE_CHECKING:
    from fastness.backends.base import Backend

#: What ``FASTNESS_RUNTIME`` may say, and the tier that it names.
RUNTIME_WORDS = {"wasm": "wasm", "native": "isolated", "docker": "container", "auto": "auto"}
#: The order in which ``auto`` looks.
AUTO = (Tier.WASM, Tier.ISOLATED, Tier.CONTAINER)
#: Tiers that this version has a backend for.
SERVED = frozenset({Tier.WASM, Tier.WORKER, Tier.CONFINED, Tier.ISOLATED, Tier.CONTAINER})


def resolve(argument: str | None, variables: dict[str, str]) -> str:
    """
    The tier asked for: the argument, else ``FASTNESS_TIER``, else ``FASTNESS_RUNTIME``, else the configuration's, else
    ``wasm``.

    Returns a tier's name, ``auto`` or ``local``.  Raises ConfigurationError for a word that means nothing.
    """
    return named(argument, variables) or Tier.WASM.value


def named(argument: str | None, variables: dict[str, str]) -> str | None:
    """As :func:`resolve`; None where nobody names one."""
    if argument is not None:
        if argument in ("auto", "local"):
            return argument
        return Tier.parse(argument, ("auto", "local")).value
    named = variables.get("FASTNESS_TIER")
    if named:
        if named == "local":
            raise ConfigurationError("FASTNESS_TIER", named, 'a tier; the unsandboxed fallback needs tier="local" too')
        if named == "auto":
            return named
        try:
            return Tier.parse(named, ("auto",)).value
        except ConfigurationError as error:
            raise ConfigurationError("FASTNESS_TIER", error.value, error.allowed) from None
    word = variables.get("FASTNESS_RUNTIME")
    if word:
        if word not in RUNTIME_WORDS:
            raise ConfigurationError("FASTNESS_RUNTIME", word, ", ".join(RUNTIME_WORDS))
        return RUNTIME_WORDS[word]
    from fastness import config

    return config.load().tier or None


def unavailable(tier: Tier) -> TierUnavailable:
    """Why a tier that has no backend here is refused."""
    failure = ProbeFailure(
        guarantee="all",
        cause=f"this version of Fastness has no backend for the tier {tier.value!r}",
        remedy=f"use one of {', '.join(sorted(tier.value for tier in SERVED))}",
    )
    return TierUnavailable(tier.value, (failure,))


def make(tier: Tier, **options: Any) -> Backend:
    """A backend for the tier.  Raises TierUnavailable: nothing weaker is ever returned."""
    if tier not in SERVED:
        raise unavailable(tier)
    if not sys.platform.startswith("linux"):
        failure = ProbeFailure(
            guarantee="all", cause=f"untested on {sys.platform}", remedy="use Linux on x86-64, where it is tested"
        )
        raise TierUnavailable(tier.value, (failure,))
    if tier is Tier.WORKER:
        from fastness.backends.worker import WorkerBackend

        return WorkerBackend(waiting=options.get("waiting"), workers=options.get("engines"))
    if tier in (Tier.CONFINED, Tier.ISOLATED):
        from fastness.backends.native import NativeBackend

        return NativeBackend(
            tier, waiting=options.get("waiting"), guests=options.get("engines"), pool=options.get("pool")
        )
    if tier is Tier.CONTAINER:
        from fastness.backends.container import ContainerBackend

        return ContainerBackend(waiting=options.get("waiting"), guests=options.get("engines"), pool=options.get("pool"))
    from fastness.backends.wasm import WasmBackend

    return WasmBackend(engines=options.get("engines"), waiting=options.get("waiting"))

"""
Fastness runs code that its user did not write, and says what it enforced.

Names are loaded when first used, so that importing the package stays cheap.
"""

from __future__ import annotations

# `typing` alone takes longer to import than all that an engine process needs of this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fastness.api import AsyncSandbox, AsyncSession
    from fastness.broker.functions import HostFunction, stubs
    from fastness.capability import Scope
    from fastness.environment import guest_env
    from fastness.errors import (
        AdapterError,
        ApplyRefused,
        BackendError,
        CapabilityError,
        ConfigurationError,
        Denied,
        FastnessError,
        GrantError,
        GuestError,
        GuestProtocolError,
        HostBug,
        HostProtocolError,
        LimitExceeded,
        ManifestError,
        PackageChanged,
        PluginError,
        PluginTimeout,
        PluginViolation,
        PolicyError,
        ProtocolError,
        QuotaExceeded,
        Revoked,
        RunCancelled,
        RunFailed,
        RunTimeout,
        StagingError,
        TierUnavailable,
    )
    from fastness.grant import Ceiling, Grant
    from fastness.limits import Limits
    from fastness.manifest import Manifest
    from fastness.plugins.blocking import PluginHost
    from fastness.plugins.host import AsyncPluginHost
    from fastness.plugins.isolated import IsolatedPlugin
    from fastness.plugins.ledger import MediationPolicy
    from fastness.plugins.lifecycle import DefaultPluginHost, PluginState
    from fastness.plugins.mediation import sandbox_plugin
    from fastness.plugins.scheduling import Fired
    from fastness.plugins.shown import Revocation, Shown
    from fastness.runs import (
        Applied,
        Changes,
        Denial,
        DenialCode,
        File,
        Files,
        Outcome,
        OutcomeKind,
        RunRequest,
        RunResult,
        Usage,
    )
    from fastness.sync import Sandbox, Session, run
    from fastness.tier import Guarantee, Probe, ProbeFailure, Tier

__version__ = "0.1.0"

_HOME = {
    "fastness.api": ("AsyncSandbox", "AsyncSession"),
    "fastness.broker.functions": ("HostFunction", "stubs"),
    "fastness.environment": ("guest_env",),
    "fastness.errors": (
        "ApplyRefused",
        "BackendError",
        "CapabilityError",
        "ConfigurationError",
        "Denied",
        "FastnessError",
        "GuestError",
        "GuestProtocolError",
        "GrantError",
        "PluginError",
        "AdapterError",
        "Revoked",
        "QuotaExceeded",
        "PackageChanged",
        "PolicyError",
        "ManifestError",
        "HostBug",
        "HostProtocolError",
        "LimitExceeded",
        "PluginTimeout",
        "PluginViolation",
        "ProtocolError",
        "RunCancelled",
        "RunFailed",
        "RunTimeout",
        "StagingError",
        "TierUnavailable",
    ),
    "fastness.capability": ("Scope",),
    "fastness.grant": ("Ceiling", "Grant"),
    "fastness.limits": ("Limits",),
    "fastness.manifest": ("Manifest",),
    "fastness.plugins.blocking": ("PluginHost",),
    "fastness.plugins.host": ("AsyncPluginHost",),
    "fastness.plugins.isolated": ("IsolatedPlugin",),
    "fastness.plugins.ledger": ("MediationPolicy",),
    "fastness.plugins.lifecycle": ("DefaultPluginHost", "PluginState"),
    "fastness.plugins.mediation": ("sandbox_plugin",),
    "fastness.plugins.scheduling": ("Fired",),
    "fastness.plugins.shown": ("Revocation", "Shown"),
    "fastness.runs": (
        "Applied",
        "Changes",
        "Denial",
        "DenialCode",
        "File",
        "Files",
        "Outcome",
        "OutcomeKind",
        "RunRequest",
        "RunResult",
        "Usage",
    ),
    "fastness.sync": ("Sandbox", "Session", "run"),
    "fastness.tier": ("Guarantee", "Probe", "ProbeFailure", "Tier"),
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module 'fastness' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_WHERE))


__all__ = [
    # running code
    "run",
    "Sandbox",
    "Session",
    "AsyncSandbox",
    "AsyncSession",
    # what is asked for and what came of it
    "RunRequest",
    "RunResult",
    "Limits",
    "guest_env",
    "Outcome",
    "OutcomeKind",
    "Usage",
    "Changes",
    "Applied",
    "File",
    "Files",
    "Denial",
    "DenialCode",
    # functions of the host that code may call
    "HostFunction",
    "stubs",
    # plugins: what one asks, an owner grants and the operator permits
    "PluginHost",
    "AsyncPluginHost",
    "Manifest",
    "Grant",
    "Ceiling",
    "Scope",
    "Shown",
    "Revocation",
    "Fired",
    # plugins of a host in this process: held to a policy there, or run in guests
    "DefaultPluginHost",
    "PluginState",
    "sandbox_plugin",
    "MediationPolicy",
    "IsolatedPlugin",
    # tiers
    "Tier",
    "Guarantee",
    "Probe",
    "ProbeFailure",
    # errors
    "FastnessError",
    "ConfigurationError",
    "TierUnavailable",
    "StagingError",
    "ApplyRefused",
    "BackendError",
    "ProtocolError",
    "GuestProtocolError",
    "HostProtocolError",
    "RunFailed",
    "GuestError",
    "RunTimeout",
    "RunCancelled",
    "LimitExceeded",
    "CapabilityError",
    "Denied",
    "GrantError",
    "ManifestError",
    "PolicyError",
    "PackageChanged",
    "QuotaExceeded",
    "Revoked",
    "AdapterError",
    "PluginError",
    "PluginViolation",
    "PluginTimeout",
    "HostBug",
]

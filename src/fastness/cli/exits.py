"""
Exit codes.  They are part of the public contract; a guest's own status is only in ``RunResult.exit_code``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastness import errors

if TYPE_CHECKING:
    from fastness.runs import OutcomeKind

OK = 0
#: The guest failed, an attack escaped or was void, or a check found damage.
FAILED = 1
#: The caller asked for something that does not exist or cannot be staged.
USAGE = 2
#: The tier does not hold on this machine.
UNAVAILABLE = 3
#: The guest met a limit.
LIMIT = 4
#: A plugin on trial tried what its policy does not list.
DENIED = 5
#: The machinery failed: this machine's fault or ours.
BROKEN = 70
#: Cancelled, or Ctrl-C.
CANCELLED = 130

_OUTCOMES = {
    "ok": OK,
    "guest_error": FAILED,
    "crashed": FAILED,
    "protocol": FAILED,
    "timeout": LIMIT,
    "memory": LIMIT,
    "cpu": LIMIT,
    "output_limit": LIMIT,
    "call_limit": LIMIT,
    "disk": LIMIT,
    "cancelled": CANCELLED,
}


def of_outcome(kind: OutcomeKind) -> int:
    """The exit code for how a run ended."""
    return _OUTCOMES[kind.value]


def of_error(error: errors.FastnessError) -> int:
    """The exit code for what the host could not do."""
    if isinstance(error, errors.RunFailed) and getattr(error, "result", None) is not None:
        return of_outcome(error.result.outcome.kind)
    if isinstance(error, (errors.ConfigurationError, errors.StagingError)):
        return USAGE
    if isinstance(error, errors.TierUnavailable):
        return UNAVAILABLE
    if isinstance(error, (errors.GuestProtocolError, errors.ApplyRefused)):
        return FAILED
    if isinstance(error, errors.QuotaExceeded):
        return LIMIT
    return BROKEN

"""Exit codes are a contract."""

from __future__ import annotations

import pytest

from fastness import errors
from fastness.cli import exits
from fastness.runs import Outcome, OutcomeKind, RunResult


@pytest.mark.parametrize("kind", list(OutcomeKind))
def test_every_outcome_has_a_code(kind: OutcomeKind) -> None:
    """0 for ok, 1 for the guest's own failures, 4 for every limit, 130 for cancelled."""
    expected = {"ok": 0, "guest_error": 1, "crashed": 1, "protocol": 1, "cancelled": 130}.get(kind.value, 4)
    assert exits.of_outcome(kind) == expected


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigurationError("tier", "x", "y"), 2),
        (errors.StagingError("x", "y"), 2),
        (errors.TierUnavailable("isolated"), 3),
        (errors.BackendError("step"), 70),
        (errors.HostBug("x"), 70),
        (errors.HostProtocolError("x"), 70),
        (errors.GuestProtocolError("x"), 1),
        (errors.RunTimeout(RunResult(outcome=Outcome(OutcomeKind.TIMEOUT))), 4),
        (errors.GuestError(RunResult(outcome=Outcome(OutcomeKind.CRASHED))), 1),
    ],
)
def test_errors_have_the_documented_codes(error: errors.FastnessError, code: int) -> None:
    """2 for usage, 3 for a tier that does not hold, 70 for what is this machine's fault or ours."""
    assert exits.of_error(error) == code

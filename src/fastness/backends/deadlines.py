"""
A request's deadline, which covers waiting for a guest too, as the time that its run may take.
"""

from __future__ import annotations

import time

import msgspec

from fastness.backends.base import Report
from fastness.runs import OutcomeKind, RunRequest


def left(request: RunRequest, began: float) -> float | None:
    """Seconds until the request's deadline; None where it has none.  Raises TimeoutError where none are left."""
    if request.deadline is None:
        return None
    remaining = request.deadline - (time.monotonic() - began)
    # A millisecond is the least that a run may be given.
    if remaining < 0.001:
        raise TimeoutError
    return remaining


def until(request: RunRequest, began: float) -> RunRequest:
    """The request with no more time than its deadline leaves, now that it starts."""
    remaining = left(request, began)
    if remaining is None or remaining >= request.limits.wall_s:
        return request
    return msgspec.structs.replace(request, limits=msgspec.structs.replace(request.limits, wall_s=remaining))


def told(report: Report | None, whole: RunRequest, request: RunRequest) -> Report | None:
    """Say so where it was the deadline, not the run's own time, that ended it."""
    if report is None or request is whole or report.outcome.kind is not OutcomeKind.TIMEOUT:
        return report
    detail = f"the deadline of {whole.deadline:.3g} s passed"
    return msgspec.structs.replace(report, outcome=msgspec.structs.replace(report.outcome, detail=detail))

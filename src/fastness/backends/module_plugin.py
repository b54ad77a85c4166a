"""
A method of a plugin that is a command module: what the module is started with, and what is taken for its answer.

A module of preview 1 is a program.  So it is told what to do as programs are: the method is an argument, what it is
given is on its standard input, and what it says on its standard output is the answer.
"""

from __future__ import annotations

import msgspec

from fastness._wasi.calls import NUMBER
from fastness.backends.base import Report
from fastness.errors import ConfigurationError, GuestProtocolError
from fastness.runs import Outcome, OutcomeKind, RunRequest
from fastness.wire import values

__all__ = ["VARIABLE", "answered", "asked", "told"]

#: The variable that tells a module which of its descriptors takes calls; it is there where calls are possible.
VARIABLE = "FASTNESS_CALLS"


def told(request: RunRequest) -> RunRequest:
    """The run of a module that may make calls."""
    made: RunRequest = msgspec.structs.replace(request, env={**request.env, VARIABLE: str(NUMBER)})
    return made


def asked(request: RunRequest) -> RunRequest:
    """The run of its plugin's method.  Raises ConfigurationError for arguments that are no plain data."""
    call = request.plugin
    assert call is not None
    try:
        given = values.encode(call.arguments)
    except values.NotPlain as error:
        raise ConfigurationError("arguments", str(error), "plain data") from None
    made: RunRequest = msgspec.structs.replace(request, args=(call.method,), stdin=given + b"\n", filename=call.module)
    return made


def answered(report: Report) -> Report:
    """The report with the answer as its value; what is none makes it a failure of the guest's."""
    if report.outcome.kind is not OutcomeKind.OK:
        return report
    if report.outcome.dropped_bytes:
        return _failed(report, "its answer is longer than limits.output_bytes")
    text = report.stdout.strip()
    if not text:
        return report
    try:
        return msgspec.structs.replace(report, value=values.decode(text))
    except GuestProtocolError as error:
        return _failed(report, f"its standard output is no plain data as JSON: {error}")


def _failed(report: Report, why: str) -> Report:
    outcome = Outcome(OutcomeKind.GUEST_ERROR, why, None, report.outcome.dropped_bytes)
    made: Report = msgspec.structs.replace(report, outcome=outcome)
    return made

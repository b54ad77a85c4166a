"""
One brokered call that no guest makes: of a plugin that is data, acted upon by its host under the plugin's policy.

It goes the way of a guest's calls and has no other: encoded, decided, recorded, done, recorded and answered.
"""

from __future__ import annotations

import select
import time
from typing import Any

from fastness.brokered import Answer, Calls, TooManyCalls
from fastness.errors import AdapterError, ConfigurationError, Denied, QuotaExceeded, Revoked
from fastness.runs import DenialCode
from fastness.wire import values

__all__ = ["act", "check_operation"]

_NUMBER = 1


def check_operation(operation: object) -> str:
    """The text of what is to be done.  Raises ConfigurationError."""
    if not isinstance(operation, str):
        allowed = "a kind and what it does, such as net.request"
        raise ConfigurationError("operation", type(operation).__name__, allowed)
    return operation


def act(calls: Calls, operation: str, arguments: dict[str, Any], seconds: float) -> Any:
    """
    What comes of ``operation``, such as ``net.request``, within ``seconds``.  Blocks.

    Raises Denied, QuotaExceeded, Revoked and AdapterError; ConfigurationError for arguments that are no plain data.
    """
    capability, _, name = operation.partition(".")
    try:
        data = values.encode(arguments)
    except values.NotPlain as error:
        raise ConfigurationError("args", str(error), "plain data") from None
    try:
        calls.submit(_NUMBER, capability, name, data)
    except TooManyCalls:
        raise QuotaExceeded("its policy allows no call") from None
    ends = time.monotonic() + seconds
    while True:
        for answer in calls.answers():
            return _value(answer, operation)
        poll = select.poll()
        poll.register(calls.fileno(), select.POLLIN)
        left = ends - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000 + 1):
            raise AdapterError(f"{operation}: no answer within {seconds:g} seconds")


def _value(answer: Answer, operation: str) -> Any:
    if not answer.code:
        return values.decode(answer.value) if answer.value else None
    if answer.code == DenialCode.REVOKED:
        raise Revoked(f"{operation}: the grant was revoked")
    if answer.code == DenialCode.QUOTA:
        raise QuotaExceeded(f"{operation}: {answer.message}")
    if answer.code in set(DenialCode):
        raise Denied(DenialCode(answer.code), operation)
    raise AdapterError(f"{operation}: {answer.message or answer.code}")

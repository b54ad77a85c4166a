"""
The guest's own answer, inside a result: what the code around user code in the guest says of it.

User code can change that code's answer as it likes, so it is decoded like everything else of a guest's, and believed
about nothing but what the program came to.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from fastness.errors import GuestProtocolError
from fastness.wire import values
from fastness.wire.messages import EXACT_MAX, ROWS_MAX, Count, ExitCode, Head, Label, Name, Signed64

#: Longest texts of a guest's own answer; the guest's boot code cuts to less before it escapes.
VALUE_REPR_CHARS: Final = 32_768
ERROR_MESSAGE_CHARS: Final = 16_384


class ClaimHead(Head, frozen=True):
    """Something that the guest's boot code says was tried inside; it proves nothing."""

    operation: Name
    target: Label
    count: Annotated[int, Meta(ge=1, le=EXACT_MAX)] = 1


class GuestPayload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    What user code came to, in the words of the code around it in the guest.

    ``value`` is plain data, restored from its tags; None also where there was none to send, and then ``value_repr``
    may describe it.  ``exit_code`` goes with ``exit``; ``error_type``, ``error_message`` and ``errno`` with
    ``exception``.
    """

    kind: Literal["ok", "exception", "exit"]
    value: Any = None
    value_repr: Annotated[str, Meta(max_length=VALUE_REPR_CHARS)] | None = None
    error_type: Label = ""
    error_message: Annotated[str, Meta(max_length=ERROR_MESSAGE_CHARS)] = ""
    errno: Signed64 | None = None
    exit_code: ExitCode | None = None
    claims: Annotated[tuple[ClaimHead, ...], Meta(max_length=ROWS_MAX)] = ()
    claims_dropped: Count = 0


# Most processes decode none of them, or one kind.
@functools.cache
def _payload() -> msgspec.json.Decoder[GuestPayload]:
    return msgspec.json.Decoder(GuestPayload)


@functools.cache
def _claim_line() -> msgspec.json.Decoder[tuple[Name, Label]]:
    return msgspec.json.Decoder(tuple[Name, Label])


def decode_claims(data: bytes) -> tuple[ClaimHead, ...]:
    """
    Claims that a guest told line by line, merged; lines that are none are left out.

    For a run that was ended: one that came to an end has them in its payload.
    """
    counts: dict[tuple[str, str], int] = {}
    for line in data.split(b"\n")[: 4 * ROWS_MAX]:
        try:
            key = _claim_line().decode(line)
        except (ValueError, RecursionError):
            continue
        if key in counts or len(counts) < ROWS_MAX:
            counts[key] = counts.get(key, 0) + 1
    return tuple(ClaimHead(operation, target, count) for (operation, target), count in counts.items())


def decode_payload(data: bytes) -> GuestPayload:
    """
    The payload of a result, its value restored.

    Raises GuestProtocolError for anything that is not exactly such a payload, and for a value that would take far
    more memory here than it took on the wire.
    """
    values.check_containers(data, ROWS_MAX + 2)
    try:
        payload = _payload().decode(data)
    except RecursionError:
        raise GuestProtocolError("the guest's payload is nested too deeply") from None
    except ValueError as error:
        raise GuestProtocolError(f"the guest's payload is not valid: {str(error)[:300]}") from None
    value = payload.value
    if value is not None:
        restored = values.restore(value)
        if restored is not value:
            return msgspec.structs.replace(payload, value=restored)
    return payload

"""What a guest is offered, what it is understood to have asked, and how long its call may take."""

from __future__ import annotations

import math
import time
from typing import Any

import msgspec
import pytest
from test_broker_calls import SPEC, Notes, NoteScope

from fastness.broker.asked import TEXT_MAX, Asker, Invalid, described
from fastness.broker.gate import Allowed
from fastness.capability import Operation
from fastness.limits import Limits
from fastness.wire import values


class Both(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str = ""
    size: int = 1


def allowed(**options: Any) -> Allowed:
    told: dict[str, Any] = {"name": "look", "arguments": Both, "target": lambda given: given.key, "summary": "Look."}
    return Allowed(Operation(**{**told, **options}), NoteScope(limit=7), Notes(print))


def asker(deadline: float | None = None, seconds: float = 5.0) -> Asker:
    return Asker("r", "p", "o", Limits(net_requests=3), deadline, seconds)


def test_what_a_guest_finds_in_its_ctx() -> None:
    """Which arguments may be left out, and the longer of the words about it."""
    put = described("notes", SPEC.operations[0])
    assert (put.capability, put.operation, put.parameters) == ("notes", "put", (("key", False), ("value", True)))
    assert put.summary == "Keep a value."
    assert described("notes", allowed(documentation="Look at it long.").operation).summary == "Look at it long."


def test_arguments_that_are_left_out() -> None:
    """A guest that sends nothing has asked with none, which an operation may do with."""
    given, intent = asker().understood(allowed(), "notes", "look", b"")
    assert given == Both()
    assert (intent.run, intent.plugin, intent.owner, intent.capability, intent.operation, intent.target) == (
        "r", "p", "o", "notes", "look", "",
    )  # fmt: skip
    assert not intent.leaves
    with pytest.raises(Invalid, match="key"):
        asker().understood(allowed(arguments=SPEC.operations[0].arguments), "notes", "put", b"")


@pytest.mark.parametrize(
    ("sent", "words"),
    [(b"{", "the arguments cannot be read"), (values.encode({"size": "2"}), "size"), (values.encode({"no": 1}), "no")],
)
def test_arguments_that_are_none(sent: bytes, words: str) -> None:
    """Said in words that are fit for the guest: what could not be read, or which of them."""
    with pytest.raises(Invalid, match=words):
        asker().understood(allowed(), "notes", "look", sent)


def test_what_is_recorded_of_a_target() -> None:
    """So many characters of it, and that the call leaves the machine where it does."""
    sent = values.encode({"key": "k" * 600})
    given, intent = asker().understood(allowed(leaves=True), "notes", "look", sent)
    assert given == Both("k" * 600)
    assert (intent.target, intent.leaves) == ("k" * TEXT_MAX, True)
    assert TEXT_MAX == 500


def test_what_is_recorded_of_words_that_are_no_call() -> None:
    """Of what was not granted or could not be read: whose it is, without a target, and nothing that leaves."""
    intent = asker().intent("fs", "read")
    assert (intent.run, intent.capability, intent.operation, intent.target, intent.leaves) == (
        "r",
        "fs",
        "read",
        "",
        False,
    )


def test_all_calls_of_a_run_end_with_it() -> None:
    """At the deadline that it was given, whatever seconds there are beside; an adapter is told of all it is asked for."""
    one = asker(deadline=1234.5)
    context = one.context(allowed())
    assert context.deadline == one.context(allowed()).deadline == 1234.5
    assert (context.plugin, context.owner, context.run) == ("p", "o", "r")
    assert (context.scope, context.limits) == (NoteScope(limit=7), Limits(net_requests=3))


def test_without_a_deadline_the_first_call_begins_the_time() -> None:
    """So many seconds from then on for all of them; none at all is no bound."""
    one = asker(seconds=50.0)
    before = time.monotonic()
    first = one.context(allowed()).deadline
    assert before + 50.0 <= first <= time.monotonic() + 50.0
    assert one.context(allowed()).deadline == first
    assert asker(seconds=0.0).context(allowed()).deadline == math.inf


def test_what_calls_of_a_run_share() -> None:
    """What they have used up and left open, and with no other run."""
    one = asker()
    first, second, other = one.context(allowed()), one.context(allowed()), asker().context(allowed())
    first.spent["requests"] = 2
    assert second.spent == {"requests": 2}
    assert other.spent == {}
    assert first.opened is second.opened is one.opened
    assert other.opened is not one.opened

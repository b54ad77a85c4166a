"""The decision about one call: what of a policy is there, what of it somebody here does, and when it has ended."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from test_broker_calls import SPEC, Notes, NoteScope

from fastness.broker.gate import Allowed, Gate, Refused, arguments_of
from fastness.errors import Denied
from fastness.runs import DenialCode


def gate(**options: Any) -> Gate:
    adapters = options.pop("adapters", {"notes": Notes(print)})
    return Gate({"notes": NoteScope()}, {"notes": options.pop("spec", SPEC)}, adapters, **options)


def code(one: Gate, operation: str, capability: str = "notes") -> str:
    """Why it is refused; "" where it is not."""
    decided = one.decide(capability, operation)
    return decided.code.value if isinstance(decided, Refused) else ""


def test_a_kind_is_known_where_it_is_in_the_policy() -> None:
    """Whatever else this host knows of."""
    one = Gate({"notes": NoteScope(), "gone": NoteScope()}, {"notes": SPEC, "fs": SPEC}, {})
    assert [one.knows(kind) for kind in ("notes", "fs", "gone", "")] == [True, False, False, False]


def test_a_grant_that_nobody_changed_stands() -> None:
    """Its revision is the one that the run was made at; any other, later or earlier, is a revocation."""
    now = [0]
    first, later = gate(revision=lambda: now[0]), gate(revision=lambda: now[0], made_at=3)
    assert (code(first, "put"), code(later, "put")) == ("", "revoked")
    now[0] = 3
    assert (code(first, "put"), code(later, "put")) == ("revoked", "")
    now[0] = 4
    assert (code(first, "put"), code(later, "put")) == ("revoked", "revoked")


def test_a_grant_ends_at_its_last_second() -> None:
    """Not a moment after it."""
    now = [99.9]
    one = gate(expires=100.0, clock=lambda: now[0])
    one.stand("a")
    now[0] = 100.0
    assert code(one, "put") == "expired"
    with pytest.raises(Denied) as refused:
        one.stand("a")
    assert (refused.value.code, refused.value.target) == (DenialCode.EXPIRED, "a")


def test_what_this_process_knows_comes_first() -> None:
    """Over is over, for that reason, though revision and clock say otherwise."""
    one = gate(revision=lambda: 0, expires=2.0, clock=lambda: 1.0)
    assert code(one, "put") == ""
    one.over = DenialCode.CANCELLED
    assert code(one, "put") == "cancelled"
    assert one.ended() is DenialCode.CANCELLED


def test_what_can_end_is_looked_at() -> None:
    """A run whose grant can end before it is looked at while its calls go on; of one that cannot there is nothing to see."""
    assert not gate().may_end
    assert gate(revision=lambda: 0).may_end
    assert gate(expires=1e9).may_end
    one = gate()
    one.over = DenialCode.REVOKED
    assert one.may_end


class Actions(Notes):
    """Does more than the machine's description of its kind knows of, as an adapter with actions of the operator's does."""

    spec = msgspec.structs.replace(
        SPEC,
        operations=tuple(msgspec.structs.replace(SPEC.operations[0], name=name) for name in ("put", "mail", "ring")),
    )


NAMED = msgspec.structs.replace(SPEC, offered=lambda scope: ("mail", "fax"))


def test_operations_that_are_granted_one_by_one() -> None:
    """Those are there that the grant names and somebody does; what only one of the two has is refused as that."""
    one = gate(spec=NAMED, adapters={"notes": Actions(print)})
    assert [(kind, operation.name) for kind, operation in one.operations()] == [("notes", "mail")]
    assert isinstance(one.decide("notes", "mail"), Allowed)
    assert code(one, "fax") == "no_adapter"
    # It is done here, and was not granted: no word about whether there is such a thing.
    assert [code(one, name) for name in ("ring", "put", "nothing")] == ["not_granted"] * 3


def test_operations_that_nobody_does() -> None:
    """Without an adapter each that was granted by name is refused as what nobody here does."""
    one = gate(spec=NAMED, adapters={})
    assert one.operations() == []
    assert [code(one, name) for name in ("mail", "fax", "put")] == ["no_adapter", "no_adapter", "not_granted"]


def test_operations_of_which_a_policy_has_some() -> None:
    """The others are there for nobody, and of a kind that was granted whole it is said that there is no such thing."""
    one = gate(offered={"notes": ("put",), "fs": ("read",)})
    assert [code(one, name) for name in ("put", "send", "drop")] == ["", "unsupported", "unsupported"]
    assert [code(one, name, "fs") for name in ("read", "put")] == ["not_granted"] * 2
    assert [operation.name for _, operation in gate(offered={}).operations()] == ["put", "send"]
    assert gate(offered={"notes": ()}).operations() == []


def test_arguments_are_not_coerced() -> None:
    """A number in the place of a text is no text, and a text is not taken for bytes."""
    operation = SPEC.operations[0]
    assert arguments_of(operation, {"key": "a", "value": b"x"}).value == b"x"
    for given in ({"key": 1}, {"key": "a", "value": "eA=="}, {"key": b"a"}):
        with pytest.raises(msgspec.ValidationError):
            arguments_of(operation, given)
    with pytest.raises(msgspec.ValidationError, match="UTF-8 does not have"):
        arguments_of(operation, {"key": "a", "\ud800": 1})

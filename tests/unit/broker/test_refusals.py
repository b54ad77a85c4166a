"""Refusals as a result tells them: which are one row, how many rows there are, and what of the rest is known."""

from __future__ import annotations

from typing import Any

from fastness.broker.refusals import Refusals
from fastness.broker.trail import Intent
from fastness.runs import DenialCode


def intent(**fields: Any) -> Intent:
    told: dict[str, Any] = {"capability": "notes", "operation": "put", "target": "a", "leaves": False}
    return Intent(run="r", plugin="p", owner="o", **{**told, **fields})


def test_equal_refusals_are_one_row() -> None:
    """What differs in what was asked, why it was refused, or whether it may have happened, is another one; in order."""
    one = Refusals()
    for _ in range(3):
        one.note(intent(), DenialCode.OUTSIDE)
    one.note(intent(capability="fs"), DenialCode.OUTSIDE)
    one.note(intent(operation="get"), DenialCode.OUTSIDE)
    one.note(intent(target="b"), DenialCode.OUTSIDE)
    one.note(intent(), DenialCode.QUOTA)
    one.note(intent(), DenialCode.OUTSIDE, effect=True)
    rows, dropped = one.rows()
    assert [(row.capability, row.operation, row.target, row.code.value, row.layer, row.count) for row in rows] == [
        ("notes", "put", "a", "outside", "broker", 3), ("fs", "put", "a", "outside", "broker", 1),
        ("notes", "get", "a", "outside", "broker", 1), ("notes", "put", "b", "outside", "broker", 1),
        ("notes", "put", "a", "quota", "broker", 1), ("notes", "put", "a", "outside", "answer", 1),
    ]  # fmt: skip
    assert dropped == 0


def test_a_flood_of_refusals_is_counted() -> None:
    """64 rows are kept; each refusal that is in none of them counts as dropped, and those that are in one still count there."""
    one = Refusals()
    assert one.rows() == ((), 0)
    for number in range(64):
        one.note(intent(target=str(number)), DenialCode.OUTSIDE)
    assert (len(one.rows()[0]), one.rows()[1]) == (64, 0)
    for _ in range(2):
        one.note(intent(target="64"), DenialCode.OUTSIDE)
    one.note(intent(target="0"), DenialCode.OUTSIDE)
    rows, dropped = one.rows()
    assert (len(rows), dropped, rows[0].count) == (64, 2, 2)


def test_when_something_was_refused() -> None:
    """In seconds from the beginning of the run; of equal ones, the first."""
    one = Refusals()
    one._began -= 5
    one.note(intent(), DenialCode.OUTSIDE)
    one._began -= 5
    one.note(intent(), DenialCode.OUTSIDE)
    ((row,), _) = one.rows()
    assert 5 <= row.at < 10

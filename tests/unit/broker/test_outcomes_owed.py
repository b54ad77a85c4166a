"""Outcomes that are recorded after their answer: at once where the trail is free, in the loop where it is not, and all of them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fastness.broker import portal
from fastness.broker.outcomes import Outcomes
from fastness.broker.trail import Intent
from fastness.errors import BackendError

INTENT = Intent(run="r", plugin="p", owner="o", capability="notes", operation="put", target="a", leaves=False)


class Slow:
    """A trail that may always wait."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, str]] = []
        self.broken = False

    def done(self, number: int, intent: Intent, **told: Any) -> None:
        assert intent is INTENT
        if self.broken:
            raise BackendError("writing the audit trail", "the disk is full")
        self.rows.append((threading.current_thread().name, number, told["code"]))


class Quick(Slow):
    """One that can tell whether it would."""

    free = True

    def intend_at_once(self, intent: Intent) -> int | None:
        return None

    def done_at_once(self, number: int, intent: Intent, **told: Any) -> bool:
        if self.free:
            self.done(number, intent, **told)
        return self.free


def owing(trail: Any) -> Outcomes:
    made = Outcomes(trail)
    assert not made
    made.owe(1, INTENT, code="")
    made.owe(2, INTENT, code="failed")
    assert made
    return made


def _served() -> None:
    """What the loop was asked for is done."""
    done = threading.Event()
    portal.soon(done.set)
    assert done.wait(10)


HERE, LOOP = threading.current_thread().name, "fastness-broker"


def test_a_trail_that_is_free_is_written_at_once() -> None:
    """Here, in order, each once."""
    trail = Quick()
    one = owing(trail)
    one.settle(wait=False)
    assert trail.rows == [(HERE, 1, ""), (HERE, 2, "failed")]
    assert not one
    one.settle(wait=False)
    assert len(trail.rows) == 2


@pytest.mark.parametrize("trail", [Slow(), Quick()])
def test_a_trail_that_would_wait_is_written_in_the_loop(trail: Slow) -> None:
    """Also where it cannot tell."""
    trail.free = False  # type: ignore[attr-defined]  # of one of them
    one = owing(trail)
    one.settle(wait=False)
    assert not one
    _served()
    assert trail.rows == [(LOOP, 1, ""), (LOOP, 2, "failed")]


@pytest.mark.parametrize("trail", [Slow(), Quick()])
def test_who_waits_has_it_written(trail: Slow) -> None:
    """When it returns, all is there."""
    trail.free = False  # type: ignore[attr-defined]  # as above
    owing(trail).settle(wait=True)
    assert trail.rows == [(HERE, 1, ""), (HERE, 2, "failed")]


def test_a_trail_that_cannot_be_written_keeps_it_itself() -> None:
    """Whoever settles goes on: the answer was given already."""
    trail = Slow()
    trail.broken = True
    one = owing(trail)
    one.settle(wait=True)
    assert not one
    assert trail.rows == []


def test_which_trails_can_tell() -> None:
    assert Outcomes(Slow()).quick is None  # type: ignore[arg-type]  # it does what is asked of it here
    quick = Quick()
    assert Outcomes(quick).quick is quick  # type: ignore[arg-type]  # as above

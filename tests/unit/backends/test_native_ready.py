"""Guests that wait: the oldest first, few of kinds that nobody asks for, and none of a zygote that has gone."""

from __future__ import annotations

from typing import Any

import pytest

from fastness.backends.native_ready import Ready


class Waiter:
    """What is looked at of a guest."""

    def __init__(self, kind: int, zygote: str = "z") -> None:
        self.key = (kind, 0, ())
        self.zygote = zygote


def put(ready: Ready, *kinds: int, others: int = 3) -> list[int]:
    """The kinds of those that had to go."""
    dropped: list[Any] = []
    for kind in kinds:
        dropped += ready.put(Waiter(kind), others)  # type: ignore[arg-type]  # as above
    return [one.key[0] for one in dropped]


def kinds(ready: Ready) -> list[int]:
    return [guest.key[0] for guest in ready.values()]


def test_the_oldest_first() -> None:
    """A guest that has waited is used before it gets old."""
    ready = Ready()
    one, two = Waiter(1), Waiter(1)
    for guest in (one, two):
        assert not ready.put(guest, 3)  # type: ignore[arg-type]  # as above
    assert [ready.take(one.key), ready.take(one.key), ready.take(one.key)] == [one, two, None]


def test_other_kinds_are_bounded() -> None:
    """Those longest unused go first, and never one of the kind that was put."""
    ready = Ready()
    assert put(ready, 1, 2, 3, 4) == []
    assert put(ready, 5) == [1]
    ready.take((2, 0, ()))
    assert put(ready, 6, 7) == [3]
    assert kinds(ready) == [4, 5, 6, 7]
    assert put(ready, 7, 7, 7, 7) == []
    assert ready.count((7, 0, ())) == 5
    assert put(ready, 8) == [4, 5, 6, 7, 7]


@pytest.mark.parametrize("others", [0, 1, 10])
def test_no_more_than_that(others: int) -> None:
    """However many kinds there are."""
    ready = Ready()
    put(ready, *range(50), others=others)
    assert kinds(ready) == list(range(49 - others, 50))


def test_what_a_zygote_has_made_goes_with_it() -> None:
    """Only that, and all of it; without a zygote all that wait."""
    ready = Ready()
    guests = [Waiter(number % 2, "old" if number < 3 else "new") for number in range(6)]
    for guest in guests:
        ready.put(guest, 10)  # type: ignore[arg-type]  # as above
    dropped: list[Any] = list(ready.drop("old"))  # type: ignore[arg-type]  # as above
    assert {id(one) for one in dropped} == {id(one) for one in guests[:3]}
    assert len(ready.drop()) == 3
    assert ready.values() == []

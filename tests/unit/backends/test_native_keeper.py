"""What the keeper makes ahead: one guest that nobody has asked for, once runs have stopped to follow one another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fastness.backends import native_keeper
from fastness.backends.native_keeper import Keeper
from fastness.errors import BackendError


class _Family:
    """A family that writes down what is made, and when."""

    def __init__(self) -> None:
        self.made: list[tuple[str, float]] = []
        self.waiting = 0
        self.some = threading.Event()
        self.error: Exception | None = None

    def waiting_count(self, key: str) -> int:
        return self.waiting

    async def make(self, key: str, waiting: object, *, ahead: bool, early: object) -> str:
        assert ahead
        self.made.append((key, time.monotonic()))
        self.some.set()
        if self.error is not None:
            raise self.error
        return key

    def put_ready(self, guest: str) -> None:
        self.waiting += 1


@pytest.fixture
def keeper() -> Iterator[Any]:
    """One that is closed afterwards."""
    made = Keeper()
    yield made
    made.close()


def test_one_is_made_once_it_is_quiet(keeper: Any) -> None:
    """Not beside runs that follow each other, of which each puts it off; and one alone, however many there were."""
    family = _Family()
    for _ in range(5):
        last = time.monotonic()
        keeper.spare(family, "a", None)
        time.sleep(native_keeper._QUIET_S / 4)
    assert family.some.wait(5)
    time.sleep(5 * native_keeper._QUIET_S)
    ((key, at),) = family.made
    assert key == "a"
    assert at >= last + native_keeper._QUIET_S
    assert not keeper._wanted
    assert not keeper._spare


def test_each_kind_has_its_own(keeper: Any) -> None:
    """And where one waits already, no other is made; nor does a fault of one keep others from being made."""
    family, other = _Family(), _Family()
    family.error = BackendError("making a guest", "no", "none")
    for key in ("a", "b"):
        keeper.spare(family, key, None)
    other.waiting = 1
    keeper.spare(other, "a", None)
    end = time.monotonic() + 5
    while len(family.made) < 2 and time.monotonic() < end:
        time.sleep(0.005)
    assert sorted(key for key, _ in family.made) == ["a", "b"]
    family.error = None
    keeper.spare(family, "a", None)
    while len(family.made) < 3 and time.monotonic() < end:
        time.sleep(0.005)
    assert [key for key, _ in family.made[2:]] == ["a"]
    assert not other.made


def test_nothing_is_made_by_one_that_is_closed() -> None:
    """What was wanted meanwhile is dropped."""
    family, keeper = _Family(), Keeper()
    keeper.spare(family, "a", None)  # type: ignore[arg-type]  # as much of a family as it needs
    keeper.close()
    keeper.spare(family, "a", None)  # type: ignore[arg-type]  # as above
    time.sleep(3 * native_keeper._QUIET_S)
    assert not family.made

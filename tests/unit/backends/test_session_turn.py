"""Whoever has a session's guest gives it back, once, whatever the order in which it is executed and closed."""

from __future__ import annotations

import pytest

from fastness.backends.session_turn import Turn
from fastness.errors import BackendError, ConfigurationError


def test_closing_what_nobody_uses() -> None:
    """Who closes gives back, the first time only."""
    turn = Turn()
    turn.take()
    assert not turn.leave()
    assert turn.close()
    assert not turn.close()
    with pytest.raises(BackendError, match="closed"):
        turn.take()


def test_closing_what_somebody_uses() -> None:
    """The execute gives back."""
    turn = Turn()
    turn.take()
    assert not turn.close()
    assert turn.closed
    assert not turn.close()
    assert turn.leave()


def test_one_at_a_time() -> None:
    """A second execute is refused, and the first goes on."""
    turn = Turn()
    turn.take()
    with pytest.raises(ConfigurationError, match="busy"):
        turn.take()
    assert not turn.leave()
    turn.take()


def test_looks_while_nobody_uses_it() -> None:
    """A look comes to nothing where somebody uses the guest, or has given it back."""
    seen: list[int] = []
    turn = Turn()
    turn.idly(lambda: seen.append(1))
    turn.take()
    turn.idly(lambda: seen.append(2))
    turn.leave()
    turn.idly(lambda: seen.append(3))
    turn.close()
    turn.idly(lambda: seen.append(4))
    assert seen == [1, 3]

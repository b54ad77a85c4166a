"""
An invocation that has begun, handed from the thread that began it to whoever waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from fastness.broker.calls import RunCalls
from fastness.policy import Policy
from fastness.runs import RunRequest

__all__ = ["Begun", "Invocation"]


class Invocation:
    """One invocation, from the moment that it may begin to its end."""

    __slots__ = ("calls", "cpu_s", "policy", "request", "run")

    def __init__(self, run: str, request: RunRequest, policy: Policy, calls: RunCalls) -> None:
        self.run = run
        self.request = request
        self.policy = policy
        self.calls = calls
        #: Seconds of processor time that it took; None while that is not known.
        self.cpu_s: float | None = None


class Begun:
    """
    Where a thread leaves the invocation that it has begun for whoever waits for it.

    A task that is cancelled does not wait for the thread: what that begins afterwards has nobody, and is ended at once.
    """

    def __init__(self, end: Callable[[Invocation, str], None]) -> None:
        self._end = end
        self._lock = threading.Lock()
        self._one: Invocation | None = None
        self._over = False

    def put(self, one: Invocation) -> None:
        """From the thread."""
        with self._lock:
            self._one, over = one, self._over
        if over:
            self._end(one, "cancelled")

    def get(self) -> Invocation:
        """What was begun."""
        assert self._one is not None
        return self._one

    def end(self, how: str) -> Callable[[], None] | None:
        """Nobody waits for it any more; what is to be called for one that was begun and ended so."""
        with self._lock:
            one, self._over = self._one, True
        return None if one is None else partial(self._end, one, how)

"""
What a plugin may do to the host that it lives in, and the account of what it did.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from fastness.errors import ConfigurationError, PluginViolation, meant
from fastness.plugins import phases
from fastness.plugins.words import visible
from fastness.wildcard import MATCH_MAX, matches_any, pattern_problem

__all__ = ["Decision", "Ledger", "WORDS", "MediationPolicy", "check_seconds", "policy_of"]

#: Decisions that are kept, the latest; older ones are counted.
ROWS_MAX = 10_000
_TIMEOUT_MAX = 86_400.0
_PROVIDES_MAX = 10_000
#: The list of a policy for each operation.
#: Operations as a sentence has them.
WORDS = {"provide": "provide", "lookup": "look up", "declare_capability": "declare"}
_LISTS = {"provide": "provide", "lookup": "lookup", "declare_capability": "declare"}


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """
    One operation of a plugin and what was decided: ``allowed`` or ``denied``, with the ``reason`` in words.

    ``operation`` is ``lookup``, ``provide`` or ``declare_capability``, ``target`` the name.  ``at`` is seconds since
    1970.
    """

    operation: str
    target: str
    decision: str
    reason: str
    at: float


class MediationPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    What a plugin may do to its host.  An empty list denies, and all are empty unless given.

    ``provide``, ``lookup`` and ``declare`` are patterns of names: ``*`` is any run of characters, ``?`` one.
    ``max_provides`` bounds the calls of ``provide`` in the plugin's life.  ``setup_timeout``, ``start_timeout`` and
    ``stop_timeout`` are seconds, 0 for no limit.  ``on_violation`` is called with each denied :class:`Decision`.

    Raises ConfigurationError.
    """

    provide: tuple[str, ...] = ()
    lookup: tuple[str, ...] = ()
    declare: tuple[str, ...] = ()
    max_provides: int = 16
    setup_timeout: float = 10.0
    start_timeout: float = 10.0
    stop_timeout: float = 5.0
    on_violation: Callable[[Decision], object] | None = None

    def __post_init__(self) -> None:
        for name in ("provide", "lookup", "declare"):
            patterns: object = getattr(self, name)
            if isinstance(patterns, str) or not isinstance(patterns, (list, tuple, set, frozenset)):
                raise ConfigurationError(f"policy.{name}", patterns, "a list of patterns, such as ['cache:*']")
            for pattern in patterns:
                why = pattern_problem(pattern)
                if why:
                    raise ConfigurationError(f"policy.{name}", pattern, f"patterns of names: this one {why}")
            msgspec.structs.force_setattr(self, name, tuple(patterns))
        most: object = self.max_provides
        if isinstance(most, bool) or not isinstance(most, int) or not 0 <= most <= _PROVIDES_MAX:
            raise ConfigurationError("policy.max_provides", most, f"0 to {_PROVIDES_MAX}")
        for phase in phases.PHASES:
            check_seconds(f"policy.{phase}_timeout", self.seconds(phase))
        if self.on_violation is not None and not callable(self.on_violation):
            raise ConfigurationError("policy.on_violation", self.on_violation, "a callable taking a Decision")

    def seconds(self, phase: str) -> float:
        """Seconds that ``setup``, ``start`` or ``stop`` may take; 0 for no limit."""
        found: float = getattr(self, f"{phase}_timeout")
        return found


def check_seconds(field: str, value: object) -> float:
    """A timebox in seconds.  Raises ConfigurationError."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    # A NaN fails both comparisons.
    if not good or not 0 <= value <= _TIMEOUT_MAX:  # type: ignore[operator]  # it is a number by now
        raise ConfigurationError(field, value, f"0 (no limit) to {_TIMEOUT_MAX:g} seconds")
    return float(value)  # type: ignore[arg-type]  # it is a number by now


def policy_of(given: MediationPolicy | Mapping[str, Any] | None) -> MediationPolicy:
    """A policy from one, from a dict of its fields, or, of None, the one that denies.  Raises ConfigurationError."""
    if isinstance(given, MediationPolicy):
        return given
    if given is None:
        return MediationPolicy()
    if not isinstance(given, Mapping):
        raise ConfigurationError("policy", given, "a fastness.MediationPolicy or a dict of its fields")
    fields = MediationPolicy.__struct_fields__
    for name in given:
        if name not in fields:
            raise ConfigurationError(f"policy.{name}", given[name], ", ".join(fields) + meant(name, fields))
    return MediationPolicy(**given)


class Ledger:
    """The decisions about one plugin, the latest kept.  Any thread may use it."""

    def __init__(self, plugin: str, policy: MediationPolicy) -> None:
        self.plugin = plugin
        self.policy = policy
        self._lock = threading.Lock()
        self._rows: deque[Decision] = deque(maxlen=ROWS_MAX)
        self._count = self._denied = self._provides = 0
        self._over = ""

    def audit(self) -> tuple[Decision, ...]:
        """Every decision so far, oldest first; see :attr:`dropped`."""
        with self._lock:
            return tuple(self._rows)

    @property
    def dropped(self) -> int:
        """How many older decisions are no longer kept."""
        with self._lock:
            return self._count - len(self._rows)

    @property
    def denied(self) -> int:
        """How many operations were denied so far."""
        with self._lock:
            return self._denied

    def close(self, why: str) -> None:
        """From now on everything is denied, for the reason given.  Idempotent; the first reason stays."""
        with self._lock:
            self._over = self._over or why

    def open(self) -> None:
        """A plugin that was stopped begins a new life: what it provided before no longer counts."""
        with self._lock:
            self._over, self._provides = "", 0

    def decide(self, operation: str, name: object) -> str:
        """Decide one operation; the name where it is allowed.  Raises PluginViolation."""
        with self._lock:
            why = self._why_not(operation, name)
            if not why and operation == "provide":
                self._provides += 1
        target = name if type(name) is str else f"a {type(name).__name__}"
        return self.record(operation, target, why)

    def record(self, operation: str, target: str, why: str, code: str = "not_granted") -> str:
        """Write down a decision, denied where there is a reason; the target where not.  Raises PluginViolation."""
        shown = visible(target[:MATCH_MAX])
        row = Decision(
            operation=operation,
            target=shown,
            decision="denied" if why else "allowed",
            reason=why or f"the policy's {_LISTS.get(operation, operation)} list names it",
            at=time.time(),
        )
        with self._lock:
            self._rows.append(row)
            self._count += 1
            self._denied += bool(why)
        if not why:
            return target
        error = PluginViolation(
            f"plugin {self.plugin!r} may not {WORDS.get(operation, operation)} {shown!r}: {why}",
            plugin=self.plugin,
            operation=operation,
            target=shown,
            reason=why,
            code=code,
        )
        if self.policy.on_violation is not None:
            try:
                self.policy.on_violation(row)
            except Exception as failure:  # noqa: BLE001  # what counts is the denial, whoever is told of it
                error.add_note(f"on_violation raised {type(failure).__name__}: {failure}")
        raise error

    def _why_not(self, operation: str, name: object) -> str:
        if self._over:
            return self._over
        if type(name) is not str:
            return "a name must be text"
        which = _LISTS[operation]
        patterns: tuple[str, ...] = getattr(self.policy, which)
        if not patterns:
            return f"the policy's {which} list is empty"
        if not matches_any(patterns, name):
            return f"no pattern of the policy's {which} list matches it"
        if operation == "provide" and self._provides >= self.policy.max_provides:
            return f"it has provided {self._provides} times, as often as max_provides lets it"
        return ""

"""
The states of a plugin and the ways between them.
"""

from __future__ import annotations

import enum

import msgspec

from fastness.errors import ConfigurationError

__all__ = ["CRASHES_MAX", "Known", "Source", "State", "check_move"]

#: Crashes since a plugin was last enabled after which it is quarantined.
CRASHES_MAX = 3


class State(enum.StrEnum):
    """
    Where a plugin stands.

    ``discovered``: there is such a package.  ``verified``: its files were copied and its manifest is valid.
    ``awaiting_grant``: no owner has allowed what it asks for now.  ``enabled``: owners with a grant may call it.
    ``disabled``: nobody may.  ``quarantined``: nobody may, as it crashed, broke the protocol, or the operator said so.
    ``removed``: it is gone; its id may be installed anew and starts from nothing.
    """

    DISCOVERED = "discovered"
    VERIFIED = "verified"
    AWAITING_GRANT = "awaiting_grant"
    ENABLED = "enabled"
    DISABLED = "disabled"
    QUARANTINED = "quarantined"
    REMOVED = "removed"


class Source(enum.StrEnum):
    """Who a plugin is from: ourselves, this machine's own people, or strangers."""

    BUILTIN = "builtin"
    LOCAL = "local"
    MARKETPLACE = "marketplace"


#: From each state, those that may follow.
MOVES: dict[State, frozenset[State]] = {
    State.DISCOVERED: frozenset({State.VERIFIED, State.REMOVED}),
    State.VERIFIED: frozenset({State.AWAITING_GRANT, State.REMOVED}),
    State.AWAITING_GRANT: frozenset({State.ENABLED, State.DISABLED, State.REMOVED}),
    State.ENABLED: frozenset({State.DISABLED, State.QUARANTINED, State.AWAITING_GRANT}),
    State.DISABLED: frozenset({State.ENABLED, State.AWAITING_GRANT, State.REMOVED}),
    State.QUARANTINED: frozenset({State.DISABLED, State.REMOVED}),
    State.REMOVED: frozenset({State.DISCOVERED}),
}


def check_move(plugin: str, old: State, new: State) -> None:
    """Raises ConfigurationError where a plugin cannot go from ``old`` to ``new``."""
    if new not in MOVES[old]:
        after = ", ".join(sorted(MOVES[old]))
        raise ConfigurationError(f"the new state of plugin {plugin!r}", new.value, f"{after}, as it is {old.value}")


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """
    What the store knows of one plugin.

    ``digest`` names its installed package.  ``tier`` is the one that the operator chose, empty for the default, and
    ``trust`` is ``reviewed`` where that is a weaker one.  ``crashes`` counts since it was last enabled; ``why`` says
    why it is quarantined or waits.  ``changed_at`` is seconds since 1970.
    """

    id: str
    version: str
    digest: str
    source: Source
    state: State
    tier: str = ""
    trust: str = ""
    crashes: int = 0
    why: str = ""
    changed_at: float = 0.0

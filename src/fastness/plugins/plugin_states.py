"""
Where plugins of a host in this process stand, and what went wrong with them.
"""

from __future__ import annotations

import enum

import msgspec

__all__ = ["ENDED", "PluginFault", "PluginState"]


class PluginState(enum.StrEnum):
    """
    Where a registered plugin stands.

    ``registered``: nothing of it has run, or it was stopped and may start anew.  ``ready``: its ``setup`` went well.
    ``started``, ``stopped``.  ``error``: a phase failed, and nothing of it is called again.  ``dead``: a phase goes on
    past its time in a thread that nothing can end.
    """

    REGISTERED = "registered"
    READY = "ready"
    STARTED = "started"
    STOPPED = "stopped"
    ERROR = "error"
    DEAD = "dead"


#: States after which nothing of a plugin counts any more.
ENDED = (PluginState.STOPPED, PluginState.ERROR, PluginState.DEAD)


class PluginFault(msgspec.Struct, frozen=True, kw_only=True):
    """
    An error that the host collected: which ``plugin``, in which ``phase``, and when, in seconds since 1970.

    The phase is ``running`` where a guest has ended by itself between two of them.
    """

    plugin: str
    phase: str
    error: Exception
    at: float

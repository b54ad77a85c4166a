"""
What a plugin host tells of what was used, and what owners do with what plugins remember.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fastness.errors import ConfigurationError
from fastness.metering.ledger import Left, Used
from fastness.metering.quotas import today
from fastness.plugins.core import Core
from fastness.plugins.decisions import Decisions
from fastness.waiting import Waiting

__all__ = ["Reckoning"]

#: The year 10000: later than any day that is counted, and what is no number is not before it either.
_END_S = 253_402_300_800


class Reckoning:
    """A part of :class:`fastness.plugins.host.AsyncPluginHost`."""

    _core: Core
    _decisions: Decisions
    _waiting: Waiting

    def usage(self, *, plugin: str | None = None, owner: str | None = None, since: float = 0.0) -> list[Used]:
        """
        What plugins used for owners, by day (of UTC) and kind of capability, from the day of ``since`` on, which is
        seconds since 1970.  Also of plugins that were removed.  Raises ConfigurationError, BackendError.
        """
        if type(since) not in (int, float) or not abs(since) < _END_S:
            raise ConfigurationError("since", since, "seconds since 1970")
        return self._core.ledger.used(plugin=plugin, owner=owner, since=today(since))

    def quotas(self, plugin: str, owner: str) -> list[Left]:
        """How far each quota of the operator's is used up that these two count for.  Raises BackendError."""
        return self._core.ledger.left(plugin, owner)

    @property
    def currency(self) -> str:
        """What the operator's prices are in; empty where nobody said so."""
        return self._core.adapters.currency

    async def export_memory(self, owner: str, *, plugin: str | None = None) -> list[dict[str, Any]]:
        """
        All notes that were kept for an owner, or those that one plugin wrote: what ``ctx.memory.get`` gives, and
        ``shared``, whether plugins share it.  Raises AdapterError.
        """
        return await self._waiting.call(partial(self._decisions.export_memory, owner, plugin))

    async def erase_memory(self, owner: str, *, plugin: str | None = None) -> int:
        """
        Forget all notes that were kept for an owner, or those that one plugin wrote, so that no word of them is left;
        how many they were.  A plugin whose grant stands may note again.  Raises AdapterError.
        """
        return await self._waiting.call(partial(self._decisions.erase_memory, owner, plugin))

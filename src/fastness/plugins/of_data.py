"""
Plugins of data: files that a host's program reads, and what it does because of them, under the plugin's own policy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from fastness.errors import ConfigurationError
from fastness.plugins import running
from fastness.plugins.acting import act, check_operation
from fastness.plugins.core import Core
from fastness.plugins.standing import Standing
from fastness.policy import Policy
from fastness.waiting import Waiting

__all__ = ["OfData"]


class OfData:
    """A part of :class:`fastness.plugins.host.AsyncPluginHost`."""

    _core: Core
    _waiting: Waiting

    async def data(self, plugin: str, *, owner: str) -> dict[str, bytes]:
        """
        The files of a plugin of ``data``, by path, as they were installed; needs a grant as any other plugin does.

        They are the plugin's and not the host's: what is done because of them is done with :meth:`call`, under the
        policy of the plugin.
        """

        def read() -> dict[str, bytes]:
            standing, _ = self._may_data(plugin, owner, "data")
            found = self._core.files(standing.known, owner)
            return {path: member.content for path, member in found.files.items()}

        return await self._waiting.call(read)

    async def call(self, plugin: str, operation: str, args: Mapping[str, Any] | None = None, *, owner: str) -> Any:
        """
        Do one thing under the policy of a plugin of ``data``, such as ``net.request`` or ``storage.put``, and not with
        the host's own rights: judged, recorded and answered as if a guest had asked.

        Raises GrantError and its like as :meth:`invoke`, Denied, QuotaExceeded, Revoked and AdapterError.
        """
        named = check_operation(operation)

        def work() -> Any:
            standing, policy = self._may_data(plugin, owner, named)
            run = os.urandom(8).hex()
            given = running.check_arguments(args)
            # No guest runs, and so it takes no processor time.
            meter, _ = self._core.metered(policy, msgspec.structs.replace(policy.limits, cpu_s=0.001), named)
            calls = self._core.begin(standing, policy, run, meter)
            try:
                return act(calls, named, given, policy.limits.wall_s)
            finally:
                self._core.end(run, 0.0)

        return await self._waiting.call(work)

    def _may_data(self, plugin: str, owner: str, what: str) -> tuple[Standing, Policy]:
        found = self._core.may(plugin, owner, what)
        if found[0].manifest.runtime != "data":
            raise ConfigurationError("plugin", plugin, "a plugin of the runtime data; this one is code")
        return found

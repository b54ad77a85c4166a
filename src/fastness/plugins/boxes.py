"""
Where programs of the capability ``process`` run: each in a fresh box of a tier of its own, with this host's runner.

The boxes belong to the broker's loop, since adapters run there; a call that is cancelled ends its program.
"""

from __future__ import annotations

import hashlib

import msgspec

from fastness.backends import registry
from fastness.backends.base import Backend
from fastness.broker import portal
from fastness.capabilities.process import Ended, Wanted
from fastness.errors import AdapterError, ConfigurationError, StagingError, TierUnavailable
from fastness.limits import MIB, Limits
from fastness.looping import LoopWaiting
from fastness.runner import request as requests
from fastness.runner.runner import Runner
from fastness.tier import Tier

__all__ = ["Boxes"]

_CLOSE_S = 20.0
_PROBE_S = 120.0
#: Seconds that a program which does nothing may take.
_PROVED_S = 20.0
#: What a program may leave and say; more could not be given to a guest in one answer.
_LEFT_BYTES = 4 * MIB
_OUTPUT_BYTES = 1 * MIB


class Boxes:
    """
    Runs programs, all of them in the tier ``everywhere`` where the operator has named one.

    Nothing is started before one is wanted.  Any thread may make, ask and close it.
    """

    def __init__(self, everywhere: str = "") -> None:
        self._everywhere = everywhere
        self._waiting = LoopWaiting()
        self._runner: Runner | None = None

    def _ready(self) -> Runner:
        if self._runner is None:
            self._runner = Runner(self._backend, self._waiting)
        return self._runner

    def _backend(self, tier: Tier) -> Backend:
        return registry.make(tier, waiting=self._waiting)

    async def run(self, wanted: Wanted) -> Ended:
        """Run one and say how it ended; in the broker's loop.  Raises AdapterError, TierUnavailable, BackendError."""
        limits = Limits(
            wall_s=wanted.seconds,
            cpu_s=wanted.seconds,
            memory=wanted.memory,
            file_bytes=_LEFT_BYTES + sum(map(len, wanted.files.values())),
            output_bytes=_OUTPUT_BYTES,
        )
        options = {
            "command": list(wanted.argv),
            "files": dict(wanted.files),
            "limits": limits,
            # Whatever the names in it, it says whose box it is and nothing else.
            "tenant": "process/" + hashlib.sha256(wanted.tenant.encode()).hexdigest()[:32],
        }
        try:
            request = msgspec.structs.replace(requests.make(None, options, {}), tier=self._everywhere or wanted.tier)
            result = await self._ready().run(request)
        except StagingError as error:
            raise AdapterError(f"{str(error.path)[:200]}: {error.why}") from error
        except ConfigurationError as error:
            raise AdapterError(f"{error.field} cannot be used") from error
        return Ended(
            outcome=result.outcome.kind.value,
            exit_code=result.exit_code,
            stdout=result.stdout_bytes,
            stderr=result.stderr_bytes,
            files={path: file.read() for path, file in result.files.items()},
            cpu_s=result.usage.cpu_s,
        )

    def check(self, tier: str) -> None:
        """
        Prove that programs that were granted this tier can run here, now and not at their first call.

        Raises TierUnavailable.
        """
        tier = self._everywhere or tier
        if portal.inside():
            raise TierUnavailable(tier, reason="it cannot be proven from within the broker's own loop")
        try:
            portal.wait(self._prove(tier), _PROBE_S)
        except TimeoutError:
            raise TierUnavailable(tier, reason=f"it was not proven within {_PROBE_S:g} s") from None

    async def _prove(self, tier: str) -> None:
        await self._ready().plan(tier, "command")
        # A tier may hold and run no programs all the same, as where an ordinary user has no control groups.
        # An image may have no program but the one that the tier needs itself.
        command = ["python3", "-I", "-S", "-c", ""] if tier == Tier.CONTAINER.value else ["true"]
        request = requests.make(None, {"command": command, "tenant": "process/proof", "timeout": _PROVED_S}, {})
        result = await self._ready().run(msgspec.structs.replace(request, tier=tier))
        if not result.ok:
            raise TierUnavailable(tier, reason=f"a program that does nothing ended as {result.outcome.kind.value}")

    def close(self) -> None:
        """End every box.  Idempotent."""
        runner, self._runner = self._runner, None
        if runner is not None:
            portal.wait(runner.aclose(), _CLOSE_S)

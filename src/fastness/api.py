"""
The asynchronous API.  The blocking one, ``fastness.sync``, is a thin layer over it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import msgspec

from fastness.backends import registry
from fastness.backends.base import Backend, BackendSession
from fastness.errors import ConfigurationError, meant
from fastness.looping import LoopWaiting
from fastness.runner import request as requests
from fastness.runner.runner import Runner, result
from fastness.runs import RunRequest, RunResult
from fastness.tier import Probe, Tier
from fastness.waiting import Waiting

#: Options that one execute of a session may have of its own.
_PER_EXECUTE = frozenset({"timeout", "files", "stdin", "filename", "on_event"})


def _check_count(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigurationError(name, value, f"{low} to {high}")


class AsyncSandbox:
    """
    Runs code that somebody else wrote.

    ``tier`` is a promise (see ``fastness.Tier``); what cannot be proven here raises ``TierUnavailable`` and nothing
    runs.  All other arguments are defaults for :meth:`run`.  ``pool`` guests are started ahead on entering;
    ``engines`` bounds how many serve at once.  Guests are never shared between tenants, and never reused with
    anything of an earlier run in them.

    Use as ``async with``, or call :meth:`aclose`.
    """

    def __init__(
        self,
        *,
        tier: str | None = None,
        pool: int | None = None,
        engines: int | None = None,
        _make: Any = None,
        _waiting: Waiting | None = None,
        **defaults: Any,
    ) -> None:
        unknown = sorted(set(defaults) - set(requests.OPTIONS))
        if unknown:
            allowed = ", ".join(("pool", "engines", *requests.OPTIONS))
            raise ConfigurationError(unknown[0], defaults[unknown[0]], allowed + meant(unknown[0], requests.OPTIONS))
        if pool is not None:
            _check_count("pool", pool, 0, 256)
        if engines is not None:
            _check_count("engines", engines, 1, 256)
        self._tier = registry.resolve(tier, dict(os.environ))
        self._defaults = requests.with_functions({name: one for name, one in defaults.items() if one is not None})
        self._pool = pool
        self._engines = engines
        self._waiting = _waiting or LoopWaiting()
        self._runner = Runner(_make or self._backend, self._waiting)
        # Mistakes in the defaults are told here, where they were written.
        what = ("entry", "module", "command", "runtime", "work", "include", "bind")
        plain = {name: value for name, value in self._defaults.items() if name not in what}
        base = requests.make("", {}, plain)
        self._base = msgspec.structs.replace(base, tier=self._tier) if plain == self._defaults else None

    def _backend(self, tier: Tier) -> Backend:
        return registry.make(tier, engines=self._engines, waiting=self._waiting, pool=self._pool)

    def _request(self, code: Any, options: dict[str, Any]) -> RunRequest:
        if not options and self._base is not None and code is not None:
            return requests.with_code(self._base, code)
        tier = options.pop("tier", None)
        made = requests.make(code, options, self._defaults)
        return msgspec.structs.replace(made, tier=self._tier if tier is None else registry.resolve(tier, {}))

    async def run(self, code: str | None = None, **options: Any) -> RunResult:
        """
        Run code in a clean guest and return what came of it.

        Options: ``entry`` (a file instead of code), ``module`` (bytes of a WASI module), ``command``; ``runtime``,
        ``tier``, ``timeout`` (seconds), ``memory`` (bytes or "256M"), ``limits``, ``files`` ({destination: bytes, str
        or Path}), ``stdin``, ``args``, ``env``, ``preload``, ``preopens``, ``image``, ``bind`` (a folder that is /work
        itself, in the tier container), ``seed``, ``time``, ``deadline``, ``tenant``, ``fresh``, ``filename``,
        ``on_event(name, data)``, ``functions`` ({name: callable}) for the code to call.

        Raises ConfigurationError, StagingError, TierUnavailable, BackendError.  What the guest did never raises; see
        ``RunResult.raise_for_outcome``.
        """
        return await self._runner.run(self._request(code, options))

    def session(self, **options: Any) -> AsyncSession:
        """A guest that keeps its state over several ``execute`` calls; use as ``async with``."""
        return AsyncSession(self, options)

    async def probe(self) -> Probe:
        """What was proven of this sandbox's tier here.  Raises TierUnavailable."""
        _, probe = await self._runner.plan(self._tier)
        return probe

    async def warm(self, count: int | None = None) -> None:
        """Start guests ahead, with the sandbox's own defaults."""
        if count is not None:
            _check_count("count", count, 0, 256)
        await self._runner.warm(self._request("", {}), self._pool or 0 if count is None else count)

    def cancel(self) -> None:
        """Ask every run in progress to end; each returns with the outcome ``cancelled``.  Callable from any thread."""
        self._runner.cancel_all()

    async def __aenter__(self) -> Self:
        if self._pool:
            await self.warm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End every guest.  Idempotent."""
        await self._runner.aclose()


class AsyncSession:
    """
    A live guest.  Variables, imports and files stay from one :meth:`execute` to the next.

    ``result.state`` tells what became of them: ``kept``, or ``lost`` where the guest had to be ended.
    """

    def __init__(self, sandbox: AsyncSandbox, options: dict[str, Any]) -> None:
        self._sandbox = sandbox
        self._options = requests.with_functions(options)
        self._session: BackendSession | None = None
        self._with: tuple[Backend, Probe] | None = None
        self._begun = False

    async def open(self) -> Self:
        """Take a guest.  ``async with`` does this."""
        request = self._sandbox._request("", dict(self._options))
        self._session, backend, probe = await self._sandbox._runner.open_session(request)
        self._with = (backend, probe)
        return self

    async def execute(self, code: str, **options: Any) -> RunResult:
        """
        Run code in the session's guest.  ``timeout``, ``files``, ``stdin``, ``filename`` and ``on_event`` may be given.

        Files given to the session, or to its sandbox, are put in once, before the first execute.
        """
        if self._session is None or self._with is None:
            raise ConfigurationError("session", "not open", "a session inside its with block")
        other = sorted(set(options) - _PER_EXECUTE)
        if other:
            # The guest exists already: what decided how it was made cannot be another thing now.
            raise ConfigurationError(other[0], options[other[0]], f"{', '.join(sorted(_PER_EXECUTE))} in an execute")
        request = self._sandbox._request(code, self._over(options))
        staged = await self._sandbox._runner.stage(request)
        report = await self._session.execute(request, staged, request.on_event)
        self._begun = True
        return result(*self._with, request, report, os.urandom(8).hex())

    def _over(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options of one execute over those of the session."""
        merged = {**self._options, **options}
        first = self._options.get("files") or self._sandbox._defaults.get("files")
        if first:
            own = options.get("files") or {}
            # Anything but a dict is left for the check that names it.
            both = isinstance(first, Mapping) and isinstance(own, Mapping) and not self._begun
            merged["files"] = {**first, **own} if both else own
        return merged

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the guest.  Idempotent."""
        if self._session is not None:
            await self._session.aclose()
            self._session = None

"""
The blocking API: the same coroutines as the asynchronous one, run to their end in the calling thread.

Threads may share a sandbox.  It needs no event loop and disturbs none, though it blocks the one whose thread calls it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from types import TracebackType
from typing import Any, Self

from fastness.api import AsyncSandbox, AsyncSession
from fastness.errors import ConfigurationError
from fastness.runs import RunResult
from fastness.tier import Probe
from fastness.waiting import ThreadWaiting, drive


class Sandbox:
    """The blocking form of ``AsyncSandbox``; same arguments.  Use as ``with``, or call :meth:`close`."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._inner = AsyncSandbox(_waiting=ThreadWaiting(), **options)
        self._pid = os.getpid()
        _all.add(self)

    def _sandbox(self) -> AsyncSandbox:
        if self._pid != os.getpid():
            # Guests belong to the process that started them; a forked child starts its own.
            self._inner = AsyncSandbox(_waiting=ThreadWaiting(), **self._options)
            self._pid = os.getpid()
        return self._inner

    def run(self, code: str | None = None, **options: Any) -> RunResult:
        """Run code in a clean guest; see ``AsyncSandbox.run``."""
        return drive(self._sandbox().run(code, **options))

    def session(self, **options: Any) -> Session:
        """A guest that keeps its state; use as ``with``."""
        return Session(self._sandbox().session(**options))

    def probe(self) -> Probe:
        """What was proven of this sandbox's tier here.  Raises TierUnavailable."""
        return drive(self._sandbox().probe())

    def warm(self, count: int | None = None) -> None:
        """Start guests ahead."""
        drive(self._sandbox().warm(count))

    def cancel(self) -> None:
        """Ask every run in progress to end; each returns with the outcome ``cancelled``.  For other threads."""
        if self._pid == os.getpid():
            self._inner.cancel()

    def __enter__(self) -> Self:
        drive(self._sandbox().__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every guest.  Idempotent."""
        if self._pid == os.getpid():
            drive(self._inner.aclose())
            _all.discard(self)


class Session:
    """The blocking form of ``AsyncSession``."""

    def __init__(self, inner: AsyncSession) -> None:
        self._inner = inner
        self._pid = os.getpid()

    def execute(self, code: str, **options: Any) -> RunResult:
        """Run code in the session's guest."""
        if self._pid != os.getpid():
            raise ConfigurationError("session", "of the parent process", "a session that this process opened itself")
        return drive(self._inner.execute(code, **options))

    def __enter__(self) -> Self:
        drive(self._inner.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the guest, also while another thread executes in it.  Idempotent; a forked child leaves it alone."""
        if self._pid == os.getpid():
            drive(self._inner.aclose())


_lock = threading.Lock()
# Weak: a sandbox that nobody holds any more must not live, with its engines, until the process ends.
_all: weakref.WeakSet[Sandbox] = weakref.WeakSet()
_default: dict[str, Sandbox] = {}


def run(code: str | None = None, **options: Any) -> RunResult:
    """
    Run code in the process-wide default sandbox: one call, a result.

    The tier is the ``tier`` option, else ``FASTNESS_TIER`` or ``FASTNESS_RUNTIME``, else ``wasm``.
    """
    from fastness.backends import registry

    tier = registry.resolve(options.pop("tier", None), dict(os.environ))
    sandbox = _default.get(tier)
    if sandbox is None:
        with _lock:
            sandbox = _default.setdefault(tier, Sandbox(tier=tier))
    return sandbox.run(code, **options)


def _close_all() -> None:
    """End guests before the interpreter does; engines of a process that just dies end by themselves."""
    for sandbox in list(_all):
        with contextlib.suppress(Exception):  # at exit there is nobody to tell
            sandbox.close()


# Threads are joined before atexit handlers run; this comes before both, while threads can still be started.
threading._register_atexit(_close_all)  # type: ignore[attr-defined]  # the hook that concurrent.futures uses

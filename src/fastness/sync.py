"""
The blocking API: the asynchronous one behind one event loop thread per process.

The thread is started at the first use, started anew after a fork, and serves callers of any number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from fastness.api import AsyncSandbox, AsyncSession
from fastness.runs import RunResult
from fastness.tier import Probe

T = TypeVar("T")

_lock = threading.Lock()
_portal: BlockingPortal | None = None
_keeper: AbstractContextManager[BlockingPortal] | None = None
_pid = -1


def _get_portal() -> BlockingPortal:
    global _portal, _keeper, _pid
    portal = _portal
    if portal is not None and _pid == os.getpid():
        return portal
    with _lock:
        if _portal is None or _pid != os.getpid():
            # A forked child has the object of its parent but not the thread behind it.
            _keeper = start_blocking_portal("asyncio", name="fastness")
            _portal = _keeper.__enter__()
            _pid = os.getpid()
        return _portal


def _call(function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """
    Run a coroutine function on the loop thread and wait for it.

    An interrupt of the waiting thread (Ctrl-C) cancels the coroutine, waits until it is gone, and goes on.
    """
    future = _get_portal().start_task_soon(function, *args)
    try:
        return future.result()
    except BaseException:
        if not future.done():
            future.cancel()
            try:
                future.result(timeout=2)
            except (CancelledError, TimeoutError, Exception):  # noqa: BLE001  # only the first reason counts
                pass
        raise


class Sandbox:
    """The blocking form of ``AsyncSandbox``; same arguments.  Use as ``with``, or call :meth:`close`."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._inner = AsyncSandbox(**options)
        self._pid = os.getpid()
        _all.add(self)

    def _sandbox(self) -> AsyncSandbox:
        if self._pid != os.getpid():
            # Guests belong to the process that started them; a forked child starts its own.
            self._inner = AsyncSandbox(**self._options)
            self._pid = os.getpid()
        return self._inner

    def run(self, code: str | None = None, **options: Any) -> RunResult:
        """Run code in a clean guest; see ``AsyncSandbox.run``."""
        return _call(_run, self._sandbox(), code, options)

    def session(self, **options: Any) -> Session:
        """A guest that keeps its state; use as ``with``."""
        return Session(self._sandbox().session(**options))

    def probe(self) -> Probe:
        """What was proven of this sandbox's tier here.  Raises TierUnavailable."""
        return _call(self._sandbox().probe)

    def warm(self, count: int | None = None) -> None:
        """Start guests ahead."""
        _call(self._sandbox().warm, count)

    def cancel(self) -> None:
        """Ask every run in progress to end; each returns with the outcome ``cancelled``.  For other threads."""
        if self._pid == os.getpid():
            _get_portal().start_task_soon(self._inner.cancel).result()

    def __enter__(self) -> Self:
        _call(self._sandbox().__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every guest.  Idempotent."""
        if self._pid == os.getpid():
            _call(self._inner.aclose)
            _all.discard(self)


class Session:
    """The blocking form of ``AsyncSession``."""

    def __init__(self, inner: AsyncSession) -> None:
        self._inner = inner

    def execute(self, code: str, **options: Any) -> RunResult:
        """Run code in the session's guest."""
        return _call(_execute, self._inner, code, options)

    def __enter__(self) -> Self:
        _call(self._inner.open)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the guest.  Idempotent."""
        _call(self._inner.aclose)


async def _run(sandbox: AsyncSandbox, code: str | None, options: dict[str, Any]) -> RunResult:
    return await sandbox.run(code, **options)


async def _execute(session: AsyncSession, code: str, options: dict[str, Any]) -> RunResult:
    return await session.execute(code, **options)


_all: set[Sandbox] = set()
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
    """End guests before the interpreter does; the loop thread would otherwise be waited for."""
    global _portal
    if _pid != os.getpid() or _portal is None:
        return
    for sandbox in list(_all):
        try:
            sandbox.close()
        except Exception:  # noqa: BLE001  # at exit there is nobody to tell, and engines end with us anyway
            pass
    if _keeper is not None:
        _keeper.__exit__(None, None, None)
    _portal = None


# Threads are joined before atexit handlers run, and the loop thread would never end: this comes first.
threading._register_atexit(_close_all)  # type: ignore[attr-defined]  # the hook that concurrent.futures uses

"""
The blocking API: the asynchronous one behind one event loop thread per process.

The thread is started at the first use, started anew after a fork, and serves callers of any number of threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from fastness.api import AsyncSandbox, AsyncSession
from fastness.errors import HostBug
from fastness.runs import RunResult
from fastness.tier import Probe

T = TypeVar("T")


class _Loop:
    """An event loop in a thread of its own, for the process that made it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._ready = threading.Event()
        self.loop: asyncio.AbstractEventLoop
        self.thread = threading.Thread(target=self._run, name="fastness", daemon=True)
        self.thread.start()
        self._ready.wait()

    def _run(self) -> None:
        async def main() -> None:
            self.loop = asyncio.get_running_loop()
            self._stop = asyncio.Event()
            self._ready.set()
            await self._stop.wait()

        asyncio.run(main())

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self.thread.join(timeout=5)


_lock = threading.Lock()
_current: list[_Loop] = []


def _get_loop() -> asyncio.AbstractEventLoop:
    # A forked child has the object of its parent but not the thread behind it.
    if _current and _current[0].pid == os.getpid():
        return _current[0].loop
    with _lock:
        if not _current or _current[0].pid != os.getpid():
            _current[:] = [_Loop()]
        return _current[0].loop


def _call(function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
    """
    Run a coroutine function on the loop thread and wait for it.

    An interrupt of the waiting thread (Ctrl-C) cancels the coroutine, waits until it is gone, and goes on.
    """
    loop = _get_loop()
    if threading.get_ident() == _current[0].thread.ident:
        raise HostBug("the blocking API was called from its own event loop thread; use AsyncSandbox there")
    future = asyncio.run_coroutine_threadsafe(function(*args), loop)
    try:
        return future.result()
    except BaseException:
        if not future.done():
            future.cancel()
            with contextlib.suppress(BaseException):  # only the first reason counts
                # The coroutine ends its guest before it ends itself; a moment for that.
                asyncio.run_coroutine_threadsafe(_settle(), loop).result(timeout=2)
        raise


async def _settle() -> None:
    """Let cancelled tasks come to their end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    cancelled = [task for task in others if task.cancelling()]
    if cancelled:
        await asyncio.wait(cancelled, timeout=1)


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
            _get_loop().call_soon_threadsafe(self._inner.cancel)

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
    """End guests before the interpreter does; engines of a process that just dies end by themselves."""
    if not _current or _current[0].pid != os.getpid():
        return
    for sandbox in list(_all):
        with contextlib.suppress(Exception):  # at exit there is nobody to tell
            sandbox.close()
    _current[0].stop()
    _current.clear()


# Threads are joined before atexit handlers run; this comes before both, while threads can still be started.
threading._register_atexit(_close_all)  # type: ignore[attr-defined]  # the hook that concurrent.futures uses

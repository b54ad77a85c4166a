"""
The loop that adapters run in: one thread for each process, made at the first call and made anew after a fork.

A guest's host may be a thread without a loop, or a loop that must not wait for a database; so calls have one of their
own.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
_STOP_S = 5.0


def loop() -> asyncio.AbstractEventLoop:
    """The loop of this process.  Raises RuntimeError where no thread can be started."""
    with _lock:
        found = _loops.get(os.getpid())
        if found is None:
            _loops.clear()
            found = asyncio.new_event_loop()
            thread = threading.Thread(target=_run, args=(found,), name="fastness-broker", daemon=True)
            try:
                thread.start()
            except BaseException:
                found.close()
                raise
            _loops[os.getpid()] = found
            atexit.register(_stop, os.getpid(), found, thread)
        return found


def _run(found: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(found)
    try:
        found.run_forever()
    finally:
        found.close()


def _stop(pid: int, found: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if os.getpid() == pid and not found.is_closed():
        found.call_soon_threadsafe(found.stop)
        thread.join(_STOP_S)


def soon(function: Callable[..., object], *arguments: object) -> None:
    """Have the loop's thread call this next."""
    # A context of its own: in the caller's, which may be of another kind of loop, libraries would think to be there.
    loop().call_soon_threadsafe(function, *arguments, context=contextvars.Context())


def wait(coroutine: Coroutine[Any, Any, Any], seconds: float) -> Any:
    """Run a coroutine in the loop from another thread and wait for it; raises TimeoutError past ``seconds``."""
    return asyncio.run_coroutine_threadsafe(coroutine, loop()).result(seconds)


def inside() -> bool:
    """Whether the caller is the loop's own thread, which must not wait for the loop."""
    try:
        return asyncio.get_running_loop() is _loops.get(os.getpid())
    except RuntimeError:
        return False


def _in_child() -> None:
    # Another thread of the parent may have held it; the parent's loop has no thread here.
    global _lock  # noqa: PLW0603  # one place for the loop in a process
    _lock = threading.Lock()
    _loops.clear()


os.register_at_fork(after_in_child=_in_child)

"""
The loop that adapters run in: one thread for each process, made at the first call and made anew after a fork.

A guest's host may be a thread without a loop, or a loop that must not wait for a database; so calls have one of their
own.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

_lock = threading.Lock()
_lines: dict[int, _Line] = {}
_STOP_S = 5.0


class _Line:
    """A loop that has a thread, and what other threads want done there."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._wanted: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self.bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def run(self) -> None:
        """In its thread: serve until the loop is stopped."""
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.add_reader(self.bell, self._hear)
            while not self._served():
                pass
        finally:
            self.loop.close()

    def _served(self) -> bool:
        """Run the loop; False where something in it has asked for the end of the program."""
        try:
            self.loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            self.loop.call_exception_handler({"message": "the broker's loop goes on", "exception": error})
            return False
        return True

    def want(self, function: Callable[..., object], arguments: tuple[object, ...]) -> None:
        """
        From any thread: have the loop call this next.

        The loop's own way (``call_soon_threadsafe``) takes three times as long, which is a good part of a short call.
        """
        if self.loop.is_closed():
            raise RuntimeError("the broker's loop is closed")
        self._wanted.append((function, arguments))
        os.eventfd_write(self.bell, 1)

    def _hear(self) -> None:
        os.eventfd_read(self.bell)
        self.serve()

    def serve(self) -> None:
        """In the loop: call what is wanted by now.  What comes meanwhile rings anew."""
        for _ in range(len(self._wanted)):
            function, arguments = self._wanted.popleft()
            try:
                # A context of its own: in another one, which may be of another kind of loop, libraries would think to
                # be there.
                contextvars.Context().run(function, *arguments)
            except Exception as error:  # noqa: BLE001  # as the loop does with what it calls
                told = {"message": f"{function!r} failed in the broker's loop", "exception": error}
                self.loop.call_exception_handler(told)


def _line() -> _Line:
    """The loop of this process.  Raises RuntimeError where no thread can be started."""
    found = _lines.get(os.getpid())
    if found is not None:
        return found
    with _lock:
        found = _lines.get(os.getpid())
        if found is None:
            found = _Line()
            thread = threading.Thread(target=found.run, name="fastness-broker", daemon=True)
            try:
                thread.start()
            except BaseException:
                found.loop.close()
                os.close(found.bell)
                raise
            _lines[os.getpid()] = found
            atexit.register(_stop, os.getpid(), found.loop, thread)
        return found


def _stop(pid: int, found: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if os.getpid() == pid and not found.is_closed():
        found.call_soon_threadsafe(found.stop)
        thread.join(_STOP_S)


def soon(function: Callable[..., object], *arguments: object) -> None:
    """Have the loop's thread call this next."""
    _line().want(function, arguments)


def wait(coroutine: Coroutine[Any, Any, Any], seconds: float) -> Any:
    """Run a coroutine in the loop from another thread and wait for it; raises TimeoutError past ``seconds``."""
    line = _line()

    async def after() -> Any:
        # What was wanted before this comes before this.
        line.serve()
        return await coroutine

    return asyncio.run_coroutine_threadsafe(after(), line.loop).result(seconds)


def rest(coroutine: Coroutine[Any, Any, Any], seconds: float) -> None:
    """The same, but no longer than that: it goes on in the loop, and nobody waits for the end of it."""
    with contextlib.suppress(TimeoutError):
        wait(coroutine, seconds)


def inside() -> bool:
    """Whether the caller is the loop's own thread, which must not wait for the loop."""
    line = _lines.get(os.getpid())
    try:
        return line is not None and asyncio.get_running_loop() is line.loop
    except RuntimeError:
        return False


def _in_child() -> None:
    # Another thread of the parent may have held it; the parent's loop has no thread here.
    global _lock  # noqa: PLW0603  # one place for the loop in a process
    _lock = threading.Lock()
    for line in _lines.values():
        os.close(line.bell)
    _lines.clear()


os.register_at_fork(after_in_child=_in_child)

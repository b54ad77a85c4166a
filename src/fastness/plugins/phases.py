"""
The phases of a plugin's life in this process: each in a thread of its own, and no longer than its time.

A thread cannot be stopped.  One that goes on past its time is left behind, marked, and noted where ``doctor`` looks;
what it calls of its host from then on is refused by the ctx that it holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from fastness import errors
from fastness._linux import procs
from fastness._wasi import home
from fastness.plugins.told import told

__all__ = ["PHASES", "Stuck", "in_loop", "run", "stuck"]

PHASES = ("setup", "start", "stop")
#: Seconds that a coroutine has to end after it was cancelled.
_REST_S = 0.25
_PREFIX = "stuck-"
_NOTE_CAP = 4096


class Stuck(msgspec.Struct, frozen=True, kw_only=True):
    """
    A phase whose thread goes on past its time.

    ``process`` and ``thread`` are their numbers, ``started`` is when the thread was, in clock ticks since boot:
    together they name it for good.  ``since`` is when its time was over, in seconds since 1970.
    """

    plugin: str
    phase: str
    process: int
    thread: int
    started: int
    since: float


def run(
    plugin: str,
    phase: str,
    seconds: float,
    function: Callable[..., Any],
    *arguments: Any,
    end: Callable[[], None] = lambda: None,
) -> Any:
    """
    What a function returns that is called in a thread of its own, and awaited there where it is a coroutine.

    Past ``seconds`` (0: never) ``end`` is called, which may bring it to its end.  Raises what the function raises, or
    what can be told of it, which is made within its time; PluginTimeout past its time, with ``dead`` set where its
    thread goes on; PluginError where it tried to end the process.
    """
    attempt = _Attempt(plugin, phase, function, arguments)
    inside = contextvars.copy_context()
    thread = threading.Thread(target=inside.run, args=(attempt.go,), name=f"fastness-{plugin}-{phase}", daemon=True)
    thread.start()
    ended = False
    try:
        ended = attempt.ended.wait(seconds or None)
    finally:
        # Also where the caller is interrupted: nobody waits for this thread any more.
        dead = not ended and not attempt.give_up(end, lambda: _note(plugin, phase, thread))
    if not ended:
        raise errors.PluginTimeout(
            f"{phase} of plugin {plugin!r} took longer than its {seconds:g} s"
            + (", and goes on in a thread that cannot be ended; end the process to be rid of it" if dead else ""),
            plugin=plugin,
            phase=phase,
            seconds=seconds,
            dead=dead,
        )
    return attempt.outcome()


class _Attempt:
    """One call in its thread."""

    def __init__(self, plugin: str, phase: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._plugin = plugin
        self._phase = phase
        self._function = function
        self._arguments = arguments
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._value: Any = None
        self._error: Exception | None = None
        self._forget: Callable[[], None] | None = None
        #: Set when nothing of it goes on.
        self.ended = threading.Event()

    def go(self) -> None:
        """The thread."""
        try:
            value = self._function(*self._arguments)
            self._value = asyncio.run(self._awaited(value)) if hasattr(type(value), "__await__") else value
        except BaseException as error:  # noqa: BLE001  # whatever a plugin raises is its host's to collect
            # Here and now: what its class does to have a text is part of the phase.
            self._error = told(error, self._plugin, self._phase)
        finally:
            self.ended.set()
            with self._lock:
                if self._forget is not None:
                    self._forget()

    async def _awaited(self, value: Any) -> Any:
        with self._lock:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        return await value

    def give_up(self, end: Callable[[], None], note: Callable[[], Callable[[], None]]) -> bool:
        """Have it end; whether the thread has.  Where it has not, ``note`` it until it does."""
        end()
        with self._lock:
            if self._loop is not None and self._task is not None and not self._loop.is_closed():
                # The loop may close between the two.
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._task.cancel)
        if self.ended.wait(_REST_S):
            return True
        with self._lock:
            if self.ended.is_set():
                return True
            self._forget = note()
        return False

    def outcome(self) -> Any:
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._value


def in_loop() -> bool:
    """Whether the caller runs in an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# What goes on past its time, where other processes see it.


def _note(plugin: str, phase: str, thread: threading.Thread) -> Callable[[], None]:
    """Note a thread; what removes the note again."""
    number = thread.native_id or 0
    found = Stuck(
        plugin=plugin,
        phase=phase,
        process=os.getpid(),
        thread=number,
        started=procs.start_time(number) or 0,
        since=time.time(),
    )
    path = ""
    # The note is for people: where it cannot be made, the caller's error says the same.
    with contextlib.suppress(OSError, errors.FastnessError):
        path = os.path.join(home.folder("runtime"), f"{_PREFIX}{found.process}-{found.thread}-{found.started}")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.encode(found))

    def forget() -> None:
        with contextlib.suppress(OSError):
            os.unlink(path)

    return forget


def stuck() -> list[Stuck]:
    """Phases of living processes of this home that go on past their time; notes of dead ones are removed."""
    found = []
    for path in _notes():
        try:
            with open(path, "rb") as file:
                one = msgspec.json.decode(file.read(_NOTE_CAP), type=Stuck)
        except (OSError, msgspec.DecodeError):
            continue
        if procs.start_time(one.thread) == one.started:
            found.append(one)
            continue
        with contextlib.suppress(OSError):
            os.unlink(path)
    return sorted(found, key=lambda one: one.since)


def _notes() -> Iterator[str]:
    base = home.place("runtime")
    try:
        names = os.listdir(base)
    except OSError:
        return
    for name in names:
        if name.startswith(_PREFIX):
            yield os.path.join(base, name)

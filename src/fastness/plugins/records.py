"""
What the audit trail says of plugins of a host in this process: each phase, and each operation of a ctx that is here.

An intent is committed before anything of a plugin runs, so that a host that dies meanwhile leaves a record of what it
died of.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from fastness.broker.trail import Intent, Trail
from fastness.errors import BackendError, PluginTimeout, PluginViolation

__all__ = ["LOADED", "denied", "open_trail", "operation", "phase", "recorded_as"]

#: What stands before the ids of plugins that were not installed: authors choose them, and no id of an installed plugin
#: has a colon, so that rows of the one are never found under the name of the other.
LOADED = "loaded:"


def recorded_as(plugin: str) -> str:
    """What the trail calls a plugin that its program loaded by itself."""
    return LOADED + plugin


def open_trail() -> Trail:
    """The trail of this home."""
    from fastness.runner import trail

    return trail.open_trail()


@contextlib.contextmanager
def phase(trail: Trail, plugin: str, name: str, tier: str, *, run: str = "") -> Iterator[None]:
    """
    Record that a phase is about to run in a tier, and how it ended.  Raises BackendError: then it must not run.
    """
    about = Intent(run=run, plugin=recorded_as(plugin), owner="", capability="plugin", operation=name, target=tier)
    with _recorded(trail, about):
        yield


def operation(trail: Trail, plugin: str, name: str, target: str, do: Callable[[], Any]) -> Any:
    """Record that an operation of ctx is about to happen, do it, and record how it ended."""
    with _recorded(trail, _of_ctx(plugin, name, target)):
        return do()


def denied(trail: Trail, plugin: str, name: str, target: str, code: str) -> None:
    """Record what a policy denied.  It did not happen, so what cannot be recorded stands all the same."""
    with contextlib.suppress(BackendError):
        trail.refused(_of_ctx(plugin, name, target), code=code)


def _of_ctx(plugin: str, name: str, target: str) -> Intent:
    return Intent(run="", plugin=recorded_as(plugin), owner="", capability="ctx", operation=name, target=target)


@contextlib.contextmanager
def _recorded(trail: Trail, about: Intent) -> Iterator[None]:
    number = trail.intend(about)
    began, code = time.monotonic_ns(), "failed"
    try:
        yield
        code = ""
    except PluginTimeout:
        code = "timeout"
        raise
    except PluginViolation as error:
        code = error.code
        raise
    finally:
        micros = (time.monotonic_ns() - began) // 1000
        # Where something is raised already, that is what counts; an outcome that is late is written with the next one.
        with contextlib.suppress(*(() if not code else (BackendError,))):
            trail.done(number, about, code=code, micros=micros, bytes_in=0, bytes_out=0)

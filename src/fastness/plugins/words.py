"""
What plugins are to a host in this process: their names, their phases, and the answers of their ctx.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from typing import Any

from fastness import unseen
from fastness.errors import ConfigurationError
from fastness.plugins.phases import in_loop

__all__ = ["LEVELS", "Answer", "answer", "id_of", "in_guest", "manifest_of", "phase_of", "settled", "visible"]

#: Levels of a plugin's log.
LEVELS = ("debug", "info", "warning", "error")
#: Characters of one line of a plugin's log.
LOG_MAX = 4096
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/-]{0,99}")


class Answer:
    """
    What a call of ctx gives in an event loop, for ``await``.

    The same code then runs in this process and in a guest, where the answer takes a way.
    """

    __slots__ = ("_error", "_value")

    def __init__(self, value: Any, error: Exception | None = None) -> None:
        self._value = value
        self._error = error

    def __await__(self) -> Generator[Any, None, Any]:
        yield from ()
        return self.settled()

    def settled(self) -> Any:
        """The value.  Raises what the call raised."""
        if self._error is not None:
            raise self._error
        return self._value


def answer(do: Callable[[], Any]) -> Any:
    """What ``do`` returns: at once, or in an event loop as something to await."""
    if not in_loop():
        return do()
    try:
        return Answer(do())
    except Exception as error:  # noqa: BLE001  # it comes out where the answer is awaited
        return Answer(None, error)


def settled(value: Any) -> Any:
    """The value of an answer of ours; anything else is as it is."""
    return value.settled() if type(value) is Answer else value


def manifest_of(plugin: Any) -> Any:
    """What a plugin says of itself: ``manifest``, or a module's ``MANIFEST``."""
    found = getattr(plugin, "manifest", None)
    return getattr(plugin, "MANIFEST", None) if found is None else found


def id_of(plugin: Any) -> str:
    """The id of a plugin.  Raises ConfigurationError."""
    manifest = manifest_of(plugin)
    found = manifest.get("id") if isinstance(manifest, Mapping) else getattr(manifest, "id", None)
    if not isinstance(found, str) or _ID.fullmatch(found) is None:
        shown = repr(found)[:80] if manifest is not None else f"a {type(plugin).__name__} without a manifest"
        raise ConfigurationError("plugin", shown, "an object or a module whose manifest has an id, such as 'my-plugin'")
    return found


def in_guest(plugin: Any) -> bool:
    """Whether a plugin's code runs in a guest of ours, so that its ``close`` ends it whatever it does."""
    return getattr(plugin, "in_guest", False) is True


def phase_of(plugin: Any, phase: str) -> Callable[..., Any] | None:
    """The function of a phase, or None where a plugin has none.  Raises ConfigurationError."""
    found: Callable[..., Any] | None = getattr(plugin, phase, None)
    if found is not None and not callable(found):
        raise ConfigurationError(f"{phase} of plugin {id_of(plugin)!r}", type(found).__name__, "a function")
    return found


def visible(text: str) -> str:
    """A text of a plugin on one line, with what cannot be seen spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(ascii(letter)[1:-1] if unseen.is_unseen(letter) else letter for letter in text)

"""
The scope of the capability ``signals``: which topics a plugin may publish and receive, and its words for owners.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from fastness.capability import Scope
from fastness.limits import KIB, in_words
from fastness.wildcard import covers, matches, matches_any

__all__ = ["SIGNAL_BYTES_MAX", "TOPIC", "Handler", "SignalsScope", "exceeds", "meet", "methods", "risk"]

#: Bytes of what one signal carries, at most, whoever sends it.
SIGNAL_BYTES_MAX = 64 * KIB
_MOST = 64
_TOPIC_MAX = 128
#: Words of lower-case letters, digits, ``_`` and ``-``, joined by dots.  ``\Z``: ``$`` would let a line end pass.
_WORDS = r"[a-z0-9_-]+(\.[a-z0-9_-]+)*"
TOPIC = Annotated[str, msgspec.Meta(max_length=_TOPIC_MAX, pattern=rf"^{_WORDS}\Z")]
_PATTERN = re.compile(r"[a-z0-9_.*-]+")
_METHOD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}|\*")


class Handler(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    The ``method`` of a plugin that is called with each signal of a ``topic``, which is a pattern.

    In a grant or a ceiling the method ``*`` stands for whichever the plugin names.
    """

    topic: str
    method: str


class SignalsScope(Scope, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="signals"):
    """
    Which topics a plugin may publish, and which it receives, of one owner's signals; by default none.

    ``publish`` and ``subscribe`` are patterns, in which ``*`` stands for any run of characters.  ``handlers`` name the
    methods that are called with what comes; the first whose topic fits is.  What has no handler waits until it is
    taken.  ``queue`` is how many signals may wait, ``signal_bytes`` what one may carry.  Raises ValueError.
    """

    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    handlers: tuple[Handler, ...] = ()
    queue: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    signal_bytes: Annotated[int, msgspec.Meta(ge=1, le=SIGNAL_BYTES_MAX)] = 16 * KIB

    def __post_init__(self) -> None:
        for name in ("publish", "subscribe", "handlers"):
            if len(getattr(self, name)) > _MOST:
                raise ValueError(f"{name}: at most {_MOST}")
        for name in ("publish", "subscribe"):
            for pattern in getattr(self, name):
                _check(name, pattern)
        for handler in self.handlers:
            _check("handlers", handler.topic)
            if _METHOD.fullmatch(handler.method) is None:
                raise ValueError("handlers: names of methods")

    def may_publish(self, topic: str) -> bool:
        """Whether a plugin may publish this topic."""
        return matches_any(self.publish, topic)

    def receives(self, topic: str) -> bool:
        """Whether a plugin receives this topic."""
        return matches_any(self.subscribe, topic)

    def handler(self, topic: str) -> str | None:
        """The method that is called with a signal of this topic, or None."""
        if not self.receives(topic):
            return None
        return next((one.method for one in self.handlers if matches(one.topic, topic)), None)


def _check(field: str, pattern: str) -> None:
    if len(pattern) > _TOPIC_MAX or _PATTERN.fullmatch(pattern) is None:
        raise ValueError(f"{field}: topics of lower-case letters, digits, _, - and dots, and * for any run of them")


def methods(scope: SignalsScope) -> tuple[str, ...]:
    """The methods that a scope names."""
    return tuple(dict.fromkeys(one.method for one in scope.handlers))


def meet(asked: SignalsScope, allowed: SignalsScope) -> SignalsScope | None:
    """The widest scope within both, or None where that is nothing."""
    publish, subscribe = _shared(asked.publish, allowed.publish), _shared(asked.subscribe, allowed.subscribe)
    if not publish and not subscribe:
        return None
    handlers = tuple(one for one in asked.handlers if subscribe and _handles(allowed, one))
    return SignalsScope(
        publish=publish,
        subscribe=subscribe,
        handlers=handlers,
        queue=min(asked.queue, allowed.queue),
        signal_bytes=min(asked.signal_bytes, allowed.signal_bytes),
    )


def _shared(asked: tuple[str, ...], allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Of two patterns the narrower one; of two that only overlap neither, which allows less."""
    found = [one if covers(wide, one) else wide for one in asked for wide in allowed if _nested(one, wide)]
    return tuple(dict.fromkeys(found))[:_MOST]


def _nested(one: str, other: str) -> bool:
    return covers(one, other) or covers(other, one)


def _handles(scope: SignalsScope, handler: Handler) -> bool:
    return any(one.method in ("*", handler.method) and covers(one.topic, handler.topic) for one in scope.handlers)


def exceeds(asked: SignalsScope, allowed: SignalsScope) -> list[str]:
    """What the first has beyond the second, in words."""
    found = [
        f"{verb} the topic {one}"
        for verb, mine, others in (
            ("publish", asked.publish, allowed.publish),
            ("receive", asked.subscribe, allowed.subscribe),
        )
        for one in mine
        if not any(covers(wide, one) for wide in others)
    ]
    if not asked.publish and not asked.subscribe:
        return []
    if asked.subscribe:
        found += [
            f"have its method {one.method} called by signals of {one.topic}"
            for one in asked.handlers
            if not _handles(allowed, one)
        ]
        if asked.queue > allowed.queue:
            found.append(f"let {asked.queue} signals wait for it")
    if asked.signal_bytes > allowed.signal_bytes:
        found.append(f"signals of up to {in_words(asked.signal_bytes)}")
    return found


def risk(scope: SignalsScope) -> str:
    """What it lets a plugin do at worst."""
    said = []
    if scope.publish:
        said.append(
            f"It can tell all that it knows to whatever receives {', '.join(scope.publish)} for you, "
            "other plugins and this program, and have their methods called."
        )
    if scope.subscribe:
        said.append(f"It learns what other plugins and this program tell of {', '.join(scope.subscribe)} for you.")
        if scope.handlers:
            said.append("It is called whenever such a signal comes, without you.")
    return " ".join(said) or "It can send and receive no signal."

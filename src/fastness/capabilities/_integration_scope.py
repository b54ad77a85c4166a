"""
The scope of the capability ``integrations``: which actions, on whom, how many a day; and its words for owners.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from fastness.capabilities import _recipients
from fastness.capabilities._recipients import ANYBODY, BadRecipient
from fastness.capability import Scope
from fastness.limits import KIB, MIB, in_words
from fastness.wildcard import covers, pattern_problem

__all__ = ["ACTION", "MAIL", "IntegrationsScope", "exceeds", "meet", "risk", "usable"]

#: What an action is called: an integration and what it does.  As names that a program in any language can have.
ACTION = re.compile(r"[a-z][a-z0-9_]{0,30}\.[a-z][a-z0-9_]{0,30}")
#: The action that Fastness itself does; who it writes to is in ``recipients``.
MAIL = "email.send"
_MOST = 64
_MOST_PATTERNS = 256
_TARGET = re.compile(r"([^:]*):(.+)", re.DOTALL)


class IntegrationsScope(Scope, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="integrations"):
    """
    Which actions of integrations may be asked for, none by default: ``actions`` such as ``email.send``.

    ``per_day`` is how many effects they may have together for each owner and day (of UTC), 0 unless given: a mail
    counts once for each recipient, any other action once for each target.  ``message_bytes`` bounds the texts of a
    call, all together.

    ``recipients`` are who may be written to: ``ann@example.com`` is that address, ``example.com`` every address there,
    ``*.example.com`` every one below it, ``*`` anybody.  ``targets`` are what other actions may act on, each
    ``ACTION:PATTERN`` with ``*`` for any run of characters and ``?`` for one.

    Raises ValueError.
    """

    actions: Annotated[tuple[str, ...], msgspec.Meta(max_length=_MOST)] = ()
    per_day: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    message_bytes: Annotated[int, msgspec.Meta(ge=1, le=4 * MIB)] = 256 * KIB
    recipients: Annotated[tuple[str, ...], msgspec.Meta(max_length=_MOST_PATTERNS)] = ()
    targets: Annotated[tuple[str, ...], msgspec.Meta(max_length=_MOST_PATTERNS)] = ()

    def __post_init__(self) -> None:
        for action in self.actions:
            if not ACTION.fullmatch(action):
                raise ValueError("actions: an integration and what it does, such as email.send")
        try:
            recipients = tuple(dict.fromkeys(_recipients.pattern_of(one) for one in self.recipients))
        except BadRecipient as error:
            raise ValueError(f"recipients: {error}; an address, a domain, *.domain or *") from None
        for target in self.targets:
            found = _TARGET.fullmatch(target)
            if found is None or not ACTION.fullmatch(found[1]) or pattern_problem(found[2]):
                raise ValueError("targets: an action, a colon and a pattern, such as tickets.open:support-*")
        msgspec.structs.force_setattr(self, "actions", tuple(dict.fromkeys(self.actions)))
        msgspec.structs.force_setattr(self, "recipients", recipients)

    def patterns(self, action: str) -> tuple[str, ...]:
        """The patterns of what an action may act on."""
        return tuple(one.partition(":")[2] for one in self.targets if one.partition(":")[0] == action)


def usable(scope: IntegrationsScope) -> tuple[str, ...]:
    """The actions of a scope that can have an effect under it."""
    if not scope.per_day:
        return ()
    return tuple(action for action in scope.actions if action != MAIL or scope.recipients)


def meet(asked: IntegrationsScope, allowed: IntegrationsScope) -> IntegrationsScope | None:
    """The widest scope within both, or None where that is nothing."""
    both = IntegrationsScope(
        actions=tuple(action for action in asked.actions if action in allowed.actions),
        per_day=min(asked.per_day, allowed.per_day),
        message_bytes=min(asked.message_bytes, allowed.message_bytes),
        recipients=_recipients.meet_patterns(asked.recipients, allowed.recipients),
        targets=_meet_targets(asked.targets, allowed.targets),
    )
    actions = usable(both)
    return msgspec.structs.replace(both, actions=actions) if actions else None


def _meet_targets(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    # Of two patterns that share some names and not all of either, what they share is no pattern: then it is nothing.
    both = [
        one if covers(other, one) else other
        for one in some
        for other in others
        if covers(other, one) or covers(one, other)
    ]
    return tuple(dict.fromkeys(both))


def exceeds(asked: IntegrationsScope, allowed: IntegrationsScope) -> list[str]:
    """What the first has beyond the second, in words; what can do nothing has nothing."""
    actions = usable(asked)
    if not actions:
        return []
    found = [f"do {action}" for action in actions if action not in usable(allowed)]
    if asked.per_day > allowed.per_day:
        found.append(f"have up to {asked.per_day} effects a day for each owner")
    if asked.message_bytes > allowed.message_bytes:
        found.append(f"calls of up to {in_words(asked.message_bytes)}")
    if MAIL in actions:
        found += [
            f"send mail to {_whom(one)}"
            for one in asked.recipients
            if not any(_recipients.covers(wide, one) for wide in allowed.recipients)
        ]
    for one in asked.targets:
        if one.partition(":")[0] in actions and not any(covers(wide, one) for wide in allowed.targets):
            found.append(f"do {one.replace(':', ' to ', 1)}")
    return found


def _whom(pattern: str) -> str:
    if pattern == ANYBODY:
        return "anybody"
    if "@" in pattern:
        return pattern
    return f"anybody below {pattern[2:]}" if pattern.startswith("*.") else f"anybody at {pattern}"


def risk(scope: IntegrationsScope) -> str:
    """What it lets a plugin do at worst."""
    actions = usable(scope)
    if not actions:
        return "It can ask no integration for anything."
    said = []
    if MAIL in actions:
        whom = ", ".join(_whom(one) for one in scope.recipients)
        said.append(f"It can write mail in the operator's name, with everything that it sees, to {whom}.")
    others = [action for action in actions if action != MAIL]
    if others:
        said.append(f"It can have the operator's integrations do {', '.join(others)}, with everything that it sees.")
    return " ".join([*said, f"All of that up to {scope.per_day} times a day for each owner."])

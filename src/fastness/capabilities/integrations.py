"""
The capability ``integrations``: effects that leave this machine, by name, with credentials that only the host has.

A plugin asks for an action, such as ``email.send``.  Which actions there are is the operator's to say: one that nobody
here does is not in a ctx, and asking for it is refused as ``no_adapter``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from fastness.capabilities._email import MOST_RECIPIENTS, Email, Send, mail_targets, named
from fastness.capabilities._email_settings import EmailSettings
from fastness.capabilities._integration import Credential, Integration, check_integration
from fastness.capabilities._integration_counts import Counts
from fastness.capabilities._integration_scope import MAIL, IntegrationsScope, exceeds, meet, risk, usable
from fastness.capabilities._recipients import matches
from fastness.capability import CallContext, Operation, Spec, size_of
from fastness.errors import (
    AdapterError,
    BackendError,
    CapabilityError,
    ConfigurationError,
    Denied,
    QuotaExceeded,
    Revoked,
)
from fastness.limits import in_words
from fastness.runs import DenialCode
from fastness.wildcard import matches_any

__all__ = ["SPEC", "Counts", "Credential", "Email", "EmailSettings", "Integration", "Integrations"]
__all__ += ["IntegrationsScope", "Send"]

_SUMMARY = "Send a mail; gives id and recipients, their number."
#: Actions of one host.
_MOST = 64


def _learned(calls: Sequence[tuple[str, Any]]) -> IntegrationsScope:
    """The least scope under which these calls may be made, each once in a day."""
    recipients: dict[str, None] = {}
    count, most = 0, 1
    for operation, given in calls:
        most = max(most, size_of(given))
        count += 1
        if operation == MAIL:
            found = named(given)
            recipients |= dict.fromkeys(map(str, found))
            count += len(found) - 1
    return IntegrationsScope(
        actions=tuple(dict.fromkeys(operation for operation, _ in calls)),
        per_day=count,
        message_bytes=most,
        recipients=tuple(recipients),
    )


SPEC = Spec(
    kind="integrations",
    scope=IntegrationsScope,
    operations=(Operation(name=MAIL, arguments=Send, target=mail_targets, summary=_SUMMARY, leaves=True),),
    meet=meet,
    exceeds=exceeds,
    risk=risk,
    offered=usable,
    learn=_learned,
    enforced=(
        "Only actions that the grant names are there, and only those that the operator has an integration for.",
        "A mail goes to addresses and domains that the grant names, and from the operator's own address alone.",
        "An address is a plain one: no quotes, no routes, no comments, and no sign by which a relay goes elsewhere.",
        "Subject and addresses cannot begin another header; a text cannot end the mail or begin a second one.",
        "Effects are counted for each owner and day, on disk and before they happen, whichever process has them.",
        f"A mail has at most {MOST_RECIPIENTS} recipients; where the server refuses one, nobody gets it.",
        "Credentials are the host's: no call reads one, and answers are searched for them.",
        "Of what a mail server says a plugin hears the three digits and nothing else.",
        "The server is asked over TLS with its certificate verified, or is on loopback; an offer without is declined.",
        "One deadline bounds all of a call, however slowly a server answers.",
        "The record of a call is on disk before anything leaves.",
    ),
)


class Integrations:
    """
    The adapter of ``integrations``.

    ``integrations`` are those of this host; of two with one name the last counts, and one that is called ``email.send``
    takes what :class:`Send` has.  ``counts`` is where effects are counted.  A call takes at most ``call_s`` seconds.
    Raises ConfigurationError.
    """

    def __init__(self, integrations: Iterable[Integration], counts: Counts, *, call_s: float = 60.0) -> None:
        self._all = {one.name: one for one in map(check_integration, integrations)}
        if len(self._all) > _MOST:
            raise ConfigurationError("integrations", f"{len(self._all)} actions", f"at most {_MOST}")
        if MAIL in self._all and not issubclass(self._all[MAIL].arguments, Send):
            raise ConfigurationError(f"integrations[{MAIL!r}].arguments", "another type", "that of Send")
        self._counts = counts
        self._call_s = call_s
        self.spec = msgspec.structs.replace(SPEC, operations=tuple(_operation(one) for one in self._all.values()))
        #: Actions that somebody here does.
        self.actions = tuple(self._all)

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Have an effect.  Raises Denied, QuotaExceeded and AdapterError."""
        scope: IntegrationsScope = context.scope
        if operation not in usable(scope):
            raise Denied(DenialCode.NOT_GRANTED, operation)
        found = self._all.get(operation)
        if found is None:
            raise Denied(DenialCode.NO_ADAPTER, operation)
        with _Said(found):
            targets = _judged(operation, found, arguments, scope)
        size = size_of(arguments)
        if size > scope.message_bytes:
            raise Denied(DenialCode.TOO_LARGE, f"{operation}: more than {in_words(scope.message_bytes)}")
        context.bytes_out = size
        return await self._counted(found, arguments, max(1, len(targets)), context)

    async def _counted(self, found: Integration, arguments: Any, count: int, context: CallContext) -> Any:
        whose = context.plugin, context.owner
        try:
            day = self._counts.take(*whose, count, context.scope.per_day)
        except BackendError:
            raise AdapterError("what is done cannot be counted, so nothing was done") from None
        try:
            return await self._done(found, arguments, context)
        finally:
            # What another's integration did is its own word; ours is known to have done nothing.
            if isinstance(found, Email) and not context.effect:
                try:
                    self._counts.give_back(*whose, count, day)
                except BackendError as error:
                    # It goes on counting, which is no less.
                    logging.getLogger("fastness").warning("what had no effect was not given back: %s", error)

    async def _done(self, found: Integration, arguments: Any, context: CallContext) -> Any:
        import anyio

        with _Said(found):
            try:
                with anyio.fail_after(max(0.0, min(self._call_s, context.deadline - time.monotonic()))):
                    return _clean(found)(await found.run(arguments, context))
            except TimeoutError:
                raise AdapterError(f"{found.name} did not end in time") from None
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # Nobody cancelled this call: something that it waited for was, and whoever asked is to hear of it.
                raise AdapterError(f"{found.name} broke off") from None

    async def aclose(self) -> None:
        """End what integrations hold.  Idempotent."""
        for one in self._all.values():
            await one.aclose()
        self._counts.close()


class _Said:
    """What an integration raises in the block, as a plugin may hear it: without its credential, whatever it is."""

    def __init__(self, found: Integration) -> None:
        self._found = found

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        clean = _clean(self._found)
        if isinstance(error, Denied):
            raise Denied(error.code, str(clean(error.target))) from None
        if isinstance(error, (QuotaExceeded, Revoked, AdapterError)):
            raise type(error)(str(clean(str(error)))) from None
        if isinstance(error, CapabilityError):
            raise AdapterError(str(clean(str(error)))) from None
        if isinstance(error, Exception):
            # It may be anybody's, and its words may name things of the host.
            raise AdapterError(f"{self._found.name} failed ({clean(type(error).__name__)})") from error


def _clean(found: Integration) -> Callable[[Any], Any]:
    return _as_it_is if found.credential is None else found.credential.clean


def _as_it_is(value: Any) -> Any:
    return value


def _operation(one: Integration) -> Operation:
    if one.name == MAIL:
        return msgspec.structs.replace(SPEC.operations[0], arguments=one.arguments)
    return Operation(
        name=one.name,
        arguments=one.arguments,
        target=partial(_target, one),
        summary=one.summary[:200],
        leaves=True,
    )


def _target(one: Integration, arguments: Any) -> str:
    try:
        return ", ".join(_named(one, arguments))
    except Exception:  # noqa: BLE001  # code of the operator's; the call itself says what is wrong
        return ""


def _named(one: Integration, arguments: Any) -> tuple[str, ...]:
    found = tuple(one.targets(arguments))
    if not all(isinstance(target, str) for target in found):
        raise TypeError("targets are texts")
    return found


def _judged(operation: str, one: Integration, arguments: Any, scope: IntegrationsScope) -> Sequence[str]:
    """What a call acts on, all of it granted.  Raises Denied, and what the integration does."""
    if operation == MAIL:
        found = named(arguments)
        for recipient in found:
            if not any(matches(pattern, recipient) for pattern in scope.recipients):
                raise Denied(DenialCode.NOT_GRANTED, str(recipient))
        return [str(recipient) for recipient in found]
    targets = _named(one, arguments)
    for target in targets:
        if not matches_any(scope.patterns(operation), target):
            raise Denied(DenialCode.NOT_GRANTED, f"{operation}: {target}")
    return targets

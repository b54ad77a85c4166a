"""
The bridge between a plugin in a guest and the ctx of the host that it is registered with: operations of ctx itself.

What crosses is plain data, both ways: what a host looks up for a guest is encoded, and refused with the place of what
cannot be.  What a guest provides was decoded with bounds before anybody here sees it.
"""

from __future__ import annotations

import threading
from typing import Annotated, Any

import msgspec

from fastness.capabilities._threads import whole
from fastness.capability import CallContext, Operation, Scope, Spec
from fastness.errors import AdapterError, Denied, PluginError, PluginViolation
from fastness.plugins.words import settled
from fastness.wire import values

__all__ = ["KIND", "SPEC", "Bridge", "CtxScope"]

#: Operations of this kind stand on the guest's ctx itself.
KIND = "ctx"
#: Longer names reach no policy; those past what a pattern may match are denied by it.
_NAME_MAX = 4096


class CtxScope(Scope, frozen=True, tag=KIND):
    """Which names may be used is the mediation policy's to say."""


class _Lookup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(max_length=_NAME_MAX)]


class _Provide(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(max_length=_NAME_MAX)]
    value: Any


class _Declare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tag: Annotated[str, msgspec.Meta(max_length=_NAME_MAX)]


def _risk(scope: CtxScope) -> str:
    return "It reads, registers and announces names among the plugins of its host, as far as its policy lists them."


SPEC = Spec(
    kind=KIND,
    scope=CtxScope,
    operations=(
        Operation(name="lookup", arguments=_Lookup, target=lambda one: one.name, summary="What a name stands for."),
        Operation(name="provide", arguments=_Provide, target=lambda one: one.name, summary="Register a value."),
        Operation(
            name="declare_capability", arguments=_Declare, target=lambda one: one.tag, summary="Announce an ability."
        ),
    ),
    meet=lambda asked, allowed: CtxScope(),
    exceeds=lambda asked, allowed: [],
    risk=_risk,
    enforced=("Each name is matched against the policy's list of its operation, on the host, call by call.",),
)


class Bridge:
    """The adapter: it hands each operation to the ``ctx`` that it has, and refuses while it has none."""

    spec = SPEC

    def __init__(self, value_bytes: int) -> None:
        self._value_bytes = value_bytes
        self._lock = threading.Lock()
        self._ctx: Any = None

    def lead_to(self, ctx: Any) -> None:
        """Hand what comes to this ctx from now on; None for nobody's."""
        with self._lock:
            self._ctx = ctx

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Do it on the host.  Raises Denied where its policy does, AdapterError with words fit for the guest."""
        # The ctx may be anybody's and may block: it must not stop the loop that serves every guest.
        return await whole(lambda _: self._do(operation, arguments))

    def _do(self, operation: str, arguments: Any) -> Any:
        with self._lock:
            ctx = self._ctx
        if ctx is None:
            raise Denied("revoked", "ctx")
        try:
            if operation == "lookup":
                return self._plain(arguments.name, settled(ctx.lookup(arguments.name)))
            if operation == "provide":
                settled(ctx.provide(arguments.name, arguments.value))
            elif operation == "declare_capability":
                settled(ctx.declare_capability(arguments.tag))
            else:
                raise Denied("unsupported", operation)
        except PluginViolation as error:
            refused = Denied(error.code, error.target)
            refused.args = (f"{error.target}: {error.reason}",)
            raise refused from None
        except PluginError as error:
            raise AdapterError(str(error)) from error
        return None

    def _plain(self, name: str, value: Any) -> Any:
        try:
            values.encode(value, self._value_bytes)
        except values.NotPlain as error:
            where = error.path.removeprefix("$").lstrip(".") or "it"
            raise AdapterError(
                f"what {name!r} stands for cannot be given to a guest: {where} is {error.type_name}, "
                "and only plain data can"
            ) from None
        return value

    async def aclose(self) -> None:
        """Nothing is held."""

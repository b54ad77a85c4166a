"""
The decision: may this call of this run happen now?

It is made for each call anew and in one place.  What a run may do at most was fixed in its policy before it began;
nothing is ever added to it, and a revocation takes away what is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from fastness.capability import Adapter, Operation, Scope, Spec
from fastness.errors import Denied
from fastness.runs import DenialCode

__all__ = ["Allowed", "Gate", "Refused"]


class Allowed(msgspec.Struct, frozen=True):
    """What a call that may happen is done with; ``at_once`` is the adapter's, where it has one."""

    operation: Operation
    scope: Scope
    adapter: Adapter
    at_once: Any = None


class Refused(msgspec.Struct, frozen=True):
    """Why a call may not happen."""

    code: DenialCode


class Gate:
    """
    The decisions of one run.

    ``scopes`` are what its policy allows, by kind; ``revision`` gives the revision of the grant as it is now, in this
    process or another, and the run lives as long as that is ``made_at``.  ``expires`` is seconds since 1970, or None.
    ``offered`` names, for a kind, the operations that the policy has of it, where those are not all.
    """

    def __init__(
        self,
        scopes: Mapping[str, Scope],
        specs: Mapping[str, Spec],
        adapters: Mapping[str, Adapter],
        *,
        made_at: int = 0,
        revision: Callable[[], int] | None = None,
        expires: float | None = None,
        clock: Callable[[], float] = time.time,
        offered: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self._known = {kind for kind in scopes if kind in specs}
        self._table: dict[tuple[str, str], Allowed | Refused] = {}
        #: Kinds whose operations are granted one by one.
        self._by_name: set[str] = set()
        for kind in self._known:
            adapter, spec = adapters.get(kind), specs[kind]
            names = (offered or {}).get(kind)
            if spec.offered is not None:
                names = spec.offered(scopes[kind])
                self._by_name.add(kind)
                # What nobody here does is refused as that, whoever knows of it.
                self._table.update({(kind, name): Refused(DenialCode.NO_ADAPTER) for name in names})
                # Which there are is known by who does them.
                spec = spec if adapter is None else adapter.spec
            for operation in spec.operations:
                if names is not None and operation.name not in names:
                    continue
                found: Allowed | Refused = Refused(DenialCode.NO_ADAPTER)
                if adapter is not None:
                    found = Allowed(operation, scopes[kind], adapter, getattr(adapter, "at_once", None))
                self._table[kind, operation.name] = found
        self._made_at = made_at
        self._revision = revision
        self._expires = expires
        self._clock = clock
        #: Set where this process knows that it is over though nobody could write it down.
        self.over: DenialCode | None = None

    def operations(self) -> list[tuple[str, Operation]]:
        """What may be called, by kind: the rest is absent from a guest's ctx."""
        found = ((kind, entry) for (kind, _), entry in self._table.items())
        return [(kind, entry.operation) for kind, entry in found if isinstance(entry, Allowed)]

    def decide(self, capability: str, operation: str) -> Allowed | Refused:
        """Whether this may happen, as things are while this is called."""
        entry = self._table.get((capability, operation))
        if entry is None:
            known = capability in self._known and capability not in self._by_name
            return Refused(DenialCode.UNSUPPORTED if known else DenialCode.NOT_GRANTED)
        ended = self.ended()
        return entry if ended is None else Refused(ended)

    def knows(self, capability: str) -> bool:
        """Whether this kind is in the policy."""
        return capability in self._known

    @property
    def may_end(self) -> bool:
        """Whether what this run may do can end before the run does."""
        return self._revision is not None or self._expires is not None or self.over is not None

    def stand(self, target: str) -> None:
        """
        Raises Denied where nothing may happen any more.

        Asked once more between a record and its effect: whoever revoked meanwhile either finds the record, or is found.
        """
        ended = self.ended()
        if ended is not None:
            raise Denied(ended, target)

    def ended(self) -> DenialCode | None:
        """Why nothing may happen any more, as things are while this is called, or None."""
        if self.over is not None:
            return self.over
        if self._revision is not None and self._revision() != self._made_at:
            return DenialCode.REVOKED
        if self._expires is not None and self._clock() >= self._expires:
            return DenialCode.EXPIRED
        return None


def arguments_of(operation: Operation, plain: Any) -> Any:
    """The decoded arguments of a call.  Raises ``msgspec.ValidationError`` that names the place; nothing is coerced."""
    # Bytes come as bytes: a text in their place would be taken for base64.
    try:
        return msgspec.convert(plain, operation.arguments, strict=True, builtin_types=(bytes,))
    except UnicodeEncodeError:
        # Half of a surrogate pair, where a name or one of a few words is expected: it is compared in UTF-8.
        raise msgspec.ValidationError("a name or a word that UTF-8 does not have") from None

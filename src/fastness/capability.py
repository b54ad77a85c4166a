"""
What a capability is, as frozen data: what may be asked for, what one call takes, and the contract of who does the work.

A capability is one file in :mod:`fastness.capabilities`: a :class:`Spec`, which says what there is, and an
:class:`Adapter`, which does it.  Neither decides whether a call is allowed beyond its own scope: plugins, owners,
revisions and budgets of calls are the broker's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from fastness.limits import Limits

__all__ = ["Adapter", "CallContext", "Later", "Opened", "Operation", "Scope", "Spec", "size_of"]


class Scope(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"):
    """
    How far a capability reaches.  Each kind has a subclass of its own, tagged with the kind's name.

    Every field has a default, and the scope of all defaults allows the least.  An empty list allows nothing.
    """


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """
    One thing that a capability does.

    ``arguments`` is a frozen ``msgspec.Struct`` that refuses unknown fields: what a guest sends is decoded into it, so
    it bounds every length.  ``target`` names what a call acts on for the audit trail: never a payload, a credential or
    a URL's query.  ``leaves`` says whether the effect leaves this machine or spends money: then the record of the
    intent is on disk before it happens.  ``summary`` is one line for whoever writes a plugin.

    ``signature`` is what a guest is shown of its parameters, as Python writes them, and ``documentation`` what it is
    told beside the summary; both may be empty.
    """

    name: str
    arguments: type[msgspec.Struct]
    target: Callable[[Any], str]
    summary: str
    leaves: bool = False
    signature: str = ""
    documentation: str = ""


def _no_methods(_: Any) -> tuple[str, ...]:
    return ()


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a kind of capability is.

    ``scope`` is its :class:`Scope` subclass.  ``meet(asked, allowed)`` is the widest scope within both, or None where
    that is nothing.  ``exceeds(asked, allowed)`` lists in words what the first has beyond the second, for the diff that
    an owner is shown.  ``risk`` says in plain words, for somebody who has never read this, what a scope lets a plugin
    do at worst.  ``enforced`` are sentences of the table of enforcement: what holds, by what means.  ``methods(scope)``
    names the methods of the plugin that a scope has called: a manifest must have them.

    ``offered(scope)``, where it is set, gives the names of the operations that a scope allows: then each is granted by
    its name, and those that there are, are the adapter's.  ``learn(calls)``, where it is set, gives the least scope
    under which these calls may be made, each an operation's name and its decoded arguments.  It may raise what an
    adapter raises for calls that no scope allows.
    """

    kind: str
    scope: type[Scope]
    operations: tuple[Operation, ...]
    meet: Callable[[Any, Any], Scope | None]
    exceeds: Callable[[Any, Any], list[str]]
    risk: Callable[[Any], str]
    enforced: tuple[str, ...]
    methods: Callable[[Any], tuple[str, ...]] = _no_methods
    offered: Callable[[Any], Collection[str]] | None = None
    learn: Callable[[Sequence[tuple[str, Any]]], Scope] | None = None

    def operation(self, name: str) -> Operation | None:
        """The operation of this name, or None."""
        return next((one for one in self.operations if one.name == name), None)


class Opened(Protocol):
    """
    What a call left open for later calls of its run.

    ``capability`` and ``target`` are for the record of its end, where the run does not end it.
    """

    capability: str
    target: str

    async def end(self) -> int:
        """End it, and say what it cost, in billionths of the operator's currency.  Idempotent, and never raises."""
        ...


class CallContext(msgspec.Struct, kw_only=True):
    """
    On whose behalf a call is made, as the host knows it: nothing here comes from the guest.

    ``scope`` is what the policy allows; ``deadline`` is the ``time.monotonic()`` by which an answer is of use.
    ``spent`` counts what the run has used of the adapter's own budgets so far, by name; it is shared by all calls of a
    run.  ``limits`` are the policy's, for the adapters whose budgets are among them.

    ``before``, where it is set, is called with a target before an effect on another one than the call's own, such as
    where a redirect leads: it records the intent, and what it raises ends the call.  ``note``, where it is set, is
    called with a target and the value of a ``DenialCode``, and records what was not accepted of an answer.

    ``cost`` is what the call cost, in billionths of the operator's currency, and ``cpu_s`` the seconds of processor
    time that it took outside of the guest: an adapter sets both.  ``opened`` has what calls of the run have left open,
    by numbers of the adapter's; all calls of a run share it, and no other run's.  ``dropped`` counts fields that an
    adapter left out of what the guest sent, because only the host may say them: it is recorded with the outcome.

    An adapter sets ``effect`` before it does what cannot be undone: what it refuses from then on is the answer, and is
    recorded so.  Where it is cancelled and cannot stop what it has begun, it leaves in ``rest`` an ``asyncio.Future``
    of the loop that it runs in, which is done when that has come to rest: what came of it is recorded then.
    """

    plugin: str
    owner: str
    run: str
    scope: Any
    deadline: float
    spent: dict[str, int] = {}
    bytes_in: int = 0
    bytes_out: int = 0
    limits: Limits = Limits()
    before: Callable[[str], None] | None = None
    note: Callable[[str, str], None] | None = None
    cost: int = 0
    cpu_s: float = 0.0
    dropped: int = 0
    opened: dict[int, Opened] = {}
    effect: bool = False
    # No future is named here: of those who import this few have a loop.
    rest: Any = None


class Later(Exception):
    """What was asked at once would have to wait, and nothing of it was done: it is to be called the other way."""


class Adapter(Protocol):
    """
    Does the work of one kind.

    ``call`` gets an operation's name and its decoded arguments and returns plain data (None, bool, int, float, str,
    bytes, list, dict with str keys).  It raises :class:`fastness.errors.Denied` with a closed code where the scope
    refuses, :class:`fastness.errors.QuotaExceeded` where a budget is used up, and
    :class:`fastness.errors.AdapterError` with a text fit for a guest where the work failed: none of them names a path
    or an address of the host.  It sets ``bytes_in`` (to the guest) and ``bytes_out`` (from the guest) of the context.
    It may be cancelled at every await, and then leaves nothing half done that a reader could see.

    An adapter may also have ``at_once(operation, arguments, context)``, a plain function that does the same where that
    takes no longer than a tenth of a millisecond or so and waits for nobody, and raises :class:`Later` where it does.
    """

    spec: Spec

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Do it; see the class."""
        ...

    async def aclose(self) -> None:
        """End what the adapter holds.  Idempotent."""
        ...


def size_of(arguments: msgspec.Struct) -> int:
    """Bytes of all texts in the arguments of a call, in UTF-8."""
    total, stack = 0, list(msgspec.to_builtins(arguments, builtin_types=(bytes,)).values())
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            total += len(one.encode("utf-8", "surrogatepass"))
        elif isinstance(one, (bytes, bytearray)):
            total += len(one)
        elif isinstance(one, Mapping):
            stack += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple)):
            stack += one
    return total

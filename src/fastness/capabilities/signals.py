"""
The capability ``signals``: what plugins of one owner, and the program that hosts them, tell each other by topics.

Whose signals they are, who sent one, and what led to it come from the host alone.  Who receives one is found when it is
sent, among those whose policy of that moment lists its topic, and looked at once more when it is received.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

import msgspec

from fastness.capabilities._forged import without_forged
from fastness.capabilities._signals_scope import (
    SIGNAL_BYTES_MAX,
    TOPIC,
    Handler,
    SignalsScope,
    exceeds,
    meet,
    methods,
    risk,
)
from fastness.capabilities._signals_store import CAUSE_MAX, HOPS_MAX, HOST, KEEP_S, Queue, Signal, Store
from fastness.capabilities._threads import Stop, Stopped, whole
from fastness.capability import CallContext, Operation, Spec
from fastness.database import busy, full
from fastness.errors import AdapterError, BackendError, Denied, GuestProtocolError
from fastness.limits import KIB
from fastness.runs import DenialCode
from fastness.wire import values

__all__ = ["SPEC", "Handler", "Queue", "Signal", "Signals", "SignalsScope"]

#: Signals that wait for the program, of one owner, and that one ``take`` gives.
HOST_PLACES = 1000
_MOST_TAKEN = 100
#: Bytes of what one ``take`` gives, beside the first.
_TAKEN_BYTES = 256 * KIB
#: Calls that the host breaks off, until their signal is dropped: it may be the signal's doing.
_TRIES = 3
_TRIED_KEPT = 1000
#: Where the cause of a run, and how far it is from there, stand among what the run has spent.
_CAUSE, _HOP = "signals.cause", "signals.hop"


class Publish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``publish``: ``data`` is plain data."""

    topic: TOPIC
    data: Any = None


class Take(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``take``."""

    most: Annotated[int, msgspec.Meta(ge=1, le=_MOST_TAKEN)] = 10


SPEC = Spec(
    kind="signals",
    scope=SignalsScope,
    operations=(
        Operation(
            name="publish",
            arguments=Publish,
            target=lambda given: given.topic,
            summary="Tell whoever receives a topic: a dict of how many queues it is in (queued) and is not (dropped).",
        ),
        Operation(
            name="take",
            arguments=Take,
            target=lambda _: "",
            summary="What waits, the oldest first, which waits no more: a dict with signals, dropped and more.",
        ),
    ),
    meet=meet,
    exceeds=exceeds,
    risk=risk,
    enforced=(
        "A signal reaches plugins of the same owner, and the program that hosts them; the host names both ends.",
        (
            "A topic is published and received only where the grant lists it; that is looked at when a signal is sent, "
            "and once more when it is taken or a method is called with it."
        ),
        "The method that is called is one that the manifest names for the topic, under the policy of that moment.",
        (
            "A queue has as many places as were granted, and one sender fills no more than half of them; what finds "
            "none is dropped, counted, and told to both sides."
        ),
        (
            "The host counts signals that lead to each other: "
            f"{HOPS_MAX} in a row, and {CAUSE_MAX} in all for one cause; the next is refused."
        ),
        "Fields that only the host may say are dropped from what is sent, at every depth, and counted in the record.",
        "Records name the topic, and nothing of what a signal carries.",
        (
            "A signal is taken in one transaction, by one process: it reaches a plugin once, or where its host is "
            f"killed just then not at all. It waits {KEEP_S / 86_400:.0f} days at most, also while no host runs."
        ),
    ),
    methods=methods,
)


class Signals:
    """
    The adapter of ``signals``, in the database file ``path``; its folder exists and is private to this user.

    Several adapters and processes may share it.  ``receivers`` gives the plugins of an owner that may receive signals
    now, and how far: it may block.
    """

    spec = SPEC

    def __init__(self, path: str, receivers: Callable[[str], Iterable[tuple[str, SignalsScope]]]) -> None:
        self._store = Store(path)
        self._receivers = receivers
        self._lock = threading.Lock()
        #: By run, the cause of runs that signals led to, and how far they are from it.
        self._caused: dict[str, tuple[int, int]] = {}
        #: How often a call was tried that the host broke off, by the number of its signal.
        self._tried: dict[int, int] = {}
        self._bells: weakref.WeakSet[_Bell] = weakref.WeakSet()

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Do it.  Raises Denied, QuotaExceeded and AdapterError."""
        if operation == "publish":
            work = self._publish(arguments, context)
        elif operation == "take":
            work = self._take(arguments, context)
        else:
            raise Denied(DenialCode.UNSUPPORTED, operation)
        try:
            # In a thread: another process may have to be waited for.
            return await whole(work)
        except (sqlite3.Error, BackendError, OSError) as error:
            raise _told(error) from error

    def _publish(self, given: Publish, context: CallContext) -> Callable[[Stop], Any]:
        scope: SignalsScope = context.scope
        if not scope.may_publish(given.topic):
            raise Denied(DenialCode.NOT_GRANTED, given.topic)
        data, context.dropped = _encoded(given.data, scope.signal_bytes, given.topic)
        context.bytes_out = len(data)
        number, hop = self._cause(context)

        def work(stop: Stop) -> dict[str, int]:
            queued, dropped = self._put(
                context.owner, context.plugin, given.topic, data, (number, hop + 1), lambda: _halt(stop)
            )
            return {"queued": queued, "dropped": dropped}

        return work

    def _take(self, given: Take, context: CallContext) -> Callable[[Stop], Any]:
        scope: SignalsScope = context.scope
        if not scope.subscribe:
            raise Denied(DenialCode.NOT_GRANTED, "")
        # What was taken and could not be given to the guest in one frame would be lost.
        size = min(_TAKEN_BYTES, context.limits.frame_bytes // 4)

        def work(stop: Stop) -> dict[str, Any]:
            found, dropped, more = self._store.take(
                context.owner, context.plugin, given.most, size, scope.receives, lambda: _halt(stop), leave=False
            )
            context.bytes_in = sum(len(one.data) for one in found)
            self._reached(context, found)
            return {"signals": [shown(one) for one in found], "dropped": dropped, "more": more}

        return work

    # causes

    def _cause(self, context: CallContext) -> tuple[int, int]:
        """What led to this run, and by how many signals."""
        hop = context.spent.get(_HOP)
        if hop is not None:
            return context.spent[_CAUSE], hop
        return self._caused.get(context.run) or (_number_of(context.run), 0)

    def _reached(self, context: CallContext, found: Iterable[Signal]) -> None:
        """A run that has taken signals is as far from a cause as the farthest of them."""
        # Calls of a run may be under way at once.
        with self._lock:
            number, hop = self._cause(context)
            for one in found:
                if one.hop > hop:
                    number, hop = one.cause, one.hop
            context.spent[_CAUSE], context.spent[_HOP] = number, hop

    @contextlib.contextmanager
    def caused(self, run: str, signal: Signal) -> Iterator[None]:
        """A run that this signal leads to goes on in the block."""
        self._caused[run] = signal.cause, signal.hop
        try:
            yield
        finally:
            self._caused.pop(run, None)

    # of the program: all of these block, and raise AdapterError

    def publish(self, owner: str, topic: str, data: Any, after: tuple[int, int] | None = None) -> tuple[int, int]:
        """
        Send a signal of the program's own to the plugins of an owner; in how many queues it is, and how many were full.

        ``after`` is the cause and the hop of the signal that led to it.  Raises Denied for one that is too large, and
        QuotaExceeded where its cause has led to enough.
        """
        text, _ = _encoded(data, SIGNAL_BYTES_MAX, topic)
        number, hop = after or (int.from_bytes(os.urandom(7), "big"), 0)
        with _Told():
            return self._put(owner, HOST, topic, text, (number, hop + 1), lambda: None)

    def received(self, owner: str, fits: Callable[[str], bool], most: int) -> tuple[list[Signal], int, bool]:
        """What plugins of an owner published, where its topic fits; how many were dropped; whether there is more."""
        with _Told():
            return self._store.take(owner, HOST, most, most * SIGNAL_BYTES_MAX, fits, lambda: None, leave=True)

    def waiting(self, owner: str, plugin: str) -> list[tuple[int, str]]:
        """Numbers and topics of what waits for a plugin, the oldest first."""
        with _Told():
            return self._store.waiting(owner, plugin)

    def claim(self, number: int) -> Signal | None:
        """A signal, which waits no more; None where somebody else was quicker."""
        with _Told():
            return self._store.claim(number)

    def put_back(self, signal: Signal, *, again: bool = True) -> bool:
        """
        Let a signal wait again whose plugin was not called; without ``again`` no more often than this process has tried
        three times, and False where it has.
        """
        with self._lock:
            tried = self._tried.pop(signal.id, 0) + (not again)
            if tried >= _TRIES:
                return False
            if len(self._tried) > _TRIED_KEPT:
                self._tried.clear()
            if tried:
                self._tried[signal.id] = tried
        with _Told():
            self._store.put_back(signal)
        return True

    def drop(self, owner: str, plugin: str, numbers: Iterable[int] | None = None, *, gone: int = 0) -> int:
        """Drop these signals, or all that wait for a plugin, and count them and ``gone`` more; how many there were."""
        with _Told():
            return self._store.drop(owner, plugin, None if numbers is None else list(numbers), gone=gone)

    def revoked(self, plugin: str, owner: str | None) -> None:
        """Drop what waits for a plugin whose grant an owner, or everybody, has ended."""
        with _Told():
            if owner is None:
                self._store.forget(plugin)
            else:
                self._store.drop(owner, plugin)

    def queues(self, owner: str | None = None) -> list[Queue]:
        """What waits, by owner and plugin."""
        with _Told():
            return self._store.queues(owner)

    def erase(self, owner: str, plugin: str | None = None) -> int:
        """Forget what waits for an owner, or for one plugin of theirs; how much that was."""
        with _Told():
            return self._store.erase(owner, plugin)

    @contextlib.contextmanager
    def bell(self) -> Iterator[_Bell]:
        """What rings where this process lets signals wait, within the block."""
        made = _Bell()
        self._bells.add(made)
        try:
            yield made
        finally:
            self._bells.discard(made)
            made.close()

    # ends

    async def forget(self, plugin: str) -> None:
        """Delete what waits for a plugin, of every owner.  Raises AdapterError where it cannot be."""

        def work(_: Stop) -> None:
            with _Told():
                self._store.forget(plugin)

        await whole(work)

    async def aclose(self) -> None:
        """Close the database; another call opens it again."""
        self._store.close()

    def _put(
        self, owner: str, sender: str, topic: str, data: bytes, cause: tuple[int, int], halt: Callable[[], None]
    ) -> tuple[int, int]:
        # A plugin hears nothing from itself, and neither does the program.
        to = [(plugin, scope.queue) for plugin, scope in self._receivers(owner) if scope.receives(topic)]
        to.append((HOST, HOST_PLACES))
        made = self._store.put(owner, sender, topic, data, cause, [one for one in to if one[0] != sender], halt)
        if made[0]:
            for bell in list(self._bells):
                bell.ring()
        return made


class _Bell:
    """A descriptor that can be read from when it has rung.  Any thread may ring it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def ring(self) -> None:
        """Have whoever waits look."""
        with self._lock:
            if self._descriptor >= 0:
                os.eventfd_write(self._descriptor, 1)

    def heard(self) -> None:
        """It has been heard, and is silent until it rings anew."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._descriptor)

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0:
                os.close(descriptor)


def shown(signal: Signal) -> dict[str, Any]:
    """A signal as whoever receives it sees it.  Raises AdapterError where what was kept is damaged."""
    try:
        data = values.decode(bytes(signal.data), 2 * SIGNAL_BYTES_MAX)
    except GuestProtocolError as error:
        raise AdapterError("a signal that was kept is damaged") from error
    return {"topic": signal.topic, "sender": signal.sender, "at": signal.at, "data": data}


def _encoded(data: Any, most: int, topic: str) -> tuple[bytes, int]:
    """What a signal carries, and how many fields were left out of it."""
    # Before it is looked through: what is too large is told to be that.
    _text(data, most, topic)
    clean, dropped = without_forged(data)
    return _text(clean, most, topic), dropped


def _text(data: Any, most: int, topic: str) -> bytes:
    try:
        return values.encode(data, most)
    except values.NotPlain as error:
        if error.type_name.startswith(("too many bytes", "more than")):
            raise Denied(DenialCode.TOO_LARGE, topic) from None
        raise AdapterError(f"what is sent is not plain data at {error.path}: {error.type_name}") from None


def _number_of(run: str) -> int:
    """A run as the number of a cause, which SQLite keeps whole."""
    return int.from_bytes(hashlib.sha256(run.encode()).digest()[:7], "big")


def _halt(stop: Stop) -> None:
    if stop:
        raise Stopped


def _told(error: BaseException) -> AdapterError:
    """An error of the database in words that name no path."""
    if busy(error):
        return AdapterError("the signals are in use; try again")
    return AdapterError("there is no room to keep this" if full(error) else "the signals cannot be used")


class _Told:
    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (sqlite3.Error, BackendError, OSError)):
            raise _told(error) from error

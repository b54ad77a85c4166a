"""
Signals of a plugin host: what the program tells its plugins, what they tell it, and the methods that are called by one.

Nothing is handed over but where the program asks for it.  A signal is taken out of its queue first, and by one process;
then its plugin is called as anybody calls it, under the policy of that moment.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from fastness.errors import (
    AdapterError,
    BackendError,
    ConfigurationError,
    GrantError,
    PackageChanged,
    PolicyError,
    QuotaExceeded,
    TierUnavailable,
)
from fastness.grant import check_owner
from fastness.plugins.core import Core
from fastness.plugins.crew import Crew
from fastness.plugins.decisions import Decisions
from fastness.runs import RunResult
from fastness.waiting import Waiting
from fastness.wildcard import matches_any, pattern_problem

if TYPE_CHECKING:
    # A host that nobody sends a signal with does without.
    from fastness.capabilities.signals import Queue, Signal, Signals, SignalsScope

__all__ = ["Delivery", "Heard", "Received", "Sent", "Signalling"]

#: Signals of one queue that are handed over before it is the next one's turn.
_TURN = 16
_MOST = 100_000
#: Queues that are handed over at once, and those of one owner.
_AT_ONCE, _EACH = 16, 4
#: Seconds after which a queue that is handed over makes room for those that had their turn before it.
_PLACE_S = 1.0
#: Seconds after which a host looks for signals that another process let wait.
_LOOK_S = 0.5


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """In how many queues a signal is, and how many were full or not for its sender any more."""

    queued: int
    dropped: int


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """
    A signal that the program took: ``sender`` is a plugin's id, ``at`` seconds since 1970, ``data`` a stranger's.

    ``cause`` and ``hop`` say what led to it, and by how many signals: give it as ``after`` to what it leads to.
    """

    topic: str
    sender: str
    at: float
    data: Any
    cause: int
    hop: int


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """
    Signals for the program, the oldest first.

    ``dropped`` were published since the last time and found no place; ``more`` says whether there are more.
    """

    signals: tuple[Heard, ...]
    dropped: int
    more: bool


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """
    A signal that was taken out of its queue for a ``method``.

    ``result`` is what came of the call; None where nothing ran, for the reason ``refused``: then it was dropped.
    ``hop`` is how many signals led to it, itself included.
    """

    owner: str
    plugin: str
    method: str
    topic: str
    sender: str
    at: float
    hop: int
    result: RunResult | None = None
    refused: str = ""


class Signalling:
    """A part of :class:`fastness.plugins.host.AsyncPluginHost`."""

    _core: Core
    _decisions: Decisions
    _waiting: Waiting

    async def _invoke(self, run: str, plugin: str, method: str, args: Any, owner: str, *how: Any) -> RunResult:
        raise NotImplementedError

    async def publish(self, topic: str, data: Any = None, *, owner: str, after: Heard | None = None) -> Sent:
        """
        Send a signal to the plugins of an owner that receive its topic just now; ``data`` is plain data, of 64 KiB at
        most.  It waits for them until :meth:`deliver` hands it over, or they take it.  ``after`` is the signal that it
        answers, so that what answers each other comes to an end.

        Raises ConfigurationError for what is no topic, Denied for too much data, QuotaExceeded where what began this
        has led to enough, AdapterError, BackendError.
        """
        from fastness.capabilities._signals_scope import TOPIC

        check_owner(owner)
        try:
            named = msgspec.convert(topic, TOPIC)
        except msgspec.ValidationError:
            allowed = "words of lower-case letters, digits, _ and -, joined by dots; 128 characters"
            raise ConfigurationError("topic", topic, allowed) from None

        def work() -> Sent:
            adapter = self._core.adapters.signals()
            self._core.events.sent(owner, named)
            queued, dropped = adapter.publish(owner, named, data, None if after is None else (after.cause, after.hop))
            return Sent(queued=queued, dropped=dropped)

        return await self._waiting.call(work)

    async def signals(self, owner: str, topics: Iterable[str] = ("*",), most: int = 100) -> Received:
        """
        Take what plugins of an owner published, the oldest first: those whose topic fits one of the patterns.

        The program has every topic; of each owner the first 1000 that nobody took are kept.  Raises
        ConfigurationError, AdapterError.
        """
        from fastness.capabilities.signals import shown

        check_owner(owner)
        if isinstance(topics, str):
            # A text is one of letters, of which none is a topic of anybody's.
            raise ConfigurationError("topics", topics, 'a list of patterns of topics, such as ["notes.*"]')
        patterns = tuple(topics)
        for pattern in patterns:
            if why := pattern_problem(pattern):
                raise ConfigurationError("topics", pattern, f"patterns of topics; this one {why}")
        count = _at_most("most", most, 1000)

        def work() -> Received:
            adapter = self._core.adapters.signals()
            found, dropped, more = adapter.received(owner, lambda topic: matches_any(patterns, topic), count)
            heard = tuple(Heard(**shown(one), cause=one.cause, hop=one.hop) for one in found)
            return Received(signals=heard, dropped=dropped, more=more)

        return await self._waiting.call(work)

    async def deliver(self, *, owner: str | None = None, most: int = 1000) -> list[Delivery]:
        """
        Hand over what waits for methods, for an owner or for all of them, and what comes of that, until nothing does.

        One call of a method after another, ``most`` of them.  Each has the policy of its moment.  What waits for a
        plugin that may not be called then is dropped and recorded; what has no method stays for ``take``.  Raises
        BackendError, TierUnavailable and AdapterError where this host cannot: then the signal waits again, and at the
        third BackendError it is dropped.
        """
        if owner is not None:
            check_owner(owner)
        left, done = _at_most("most", most, _MOST), list[Delivery]()
        adapter: Signals = self._core.adapters.signals()
        while len(done) < left:
            before = len(done)
            for queue in await self._waiting.call(partial(adapter.queues, owner)):
                if queue.plugin and queue.waiting:
                    turn = min(_TURN, left - len(done))
                    done += await self._hand_over(adapter, queue.owner, queue.plugin, turn)
            if len(done) == before:
                break
        return done

    async def serve_signals(self, stop: threading.Event | None = None) -> None:
        """
        Hand over signals as they come, of all owners, until ``stop`` is set or the task is cancelled.

        One plugin's of one owner are handed over one after another, those of up to four plugins of an owner and sixteen
        in all at once: a slow one holds up itself, and where all places are taken others wait for the end of one call.
        What this process lets wait is handed over at once, what others do
        within half a second.  Where this host cannot, that is logged and tried again.  When this ends, what was called
        has ended too.
        """
        adapter: Signals = self._core.adapters.signals()
        busy: set[tuple[str, str]] = set()
        turns: dict[tuple[str, str], float] = {}
        over = threading.Event()
        with adapter.bell() as bell:

            async def serve(owner: str, plugin: str) -> None:
                ends = 0.0

                def enough() -> bool:
                    nonlocal ends
                    # From when it is asked first on: whoever has the place hands over one signal at least.
                    first, ends = not ends, ends or time.monotonic() + _PLACE_S
                    return over.is_set() or (not first and time.monotonic() >= ends)

                try:
                    while await self._hand_over(adapter, owner, plugin, _TURN, enough) and not enough():
                        pass
                except Exception as error:  # noqa: BLE001  # whatever it is, others are handed over meanwhile
                    logging.getLogger("fastness").warning("signals wait that cannot be handed over: %s", error)
                    await self._waiting.pause(_LOOK_S)
                finally:
                    busy.discard((owner, plugin))
                    bell.ring()

            async with Crew(self._waiting) as crew:
                try:
                    while stop is None or not stop.is_set():
                        bell.heard()
                        for key in await self._waiting.call(partial(self._free, adapter, busy, turns)):
                            busy.add(key)
                            turns[key] = time.monotonic()
                            crew.start(partial(serve, *key))
                        await self._waiting.readable(bell.fileno(), _LOOK_S)
                finally:
                    over.set()

    def _free(
        self, adapter: Signals, busy: set[tuple[str, str]], turns: dict[tuple[str, str], float]
    ) -> list[tuple[str, str]]:
        """
        Queues in which something waits for a method, and that somebody may be busy with beside the others: those first
        whose last of the ``turns`` is the longest ago.
        """
        found: list[tuple[str, str]] = []
        try:
            queues = adapter.queues()
            known = {(queue.owner, queue.plugin) for queue in queues}
            for gone in turns.keys() - known - busy:
                del turns[gone]
            for queue in sorted(queues, key=lambda one: turns.get((one.owner, one.plugin), 0.0)):
                key = queue.owner, queue.plugin
                taken = [*busy, *found]
                if len(taken) >= _AT_ONCE:
                    break
                if not queue.plugin or not queue.waiting or key in taken:
                    continue
                if sum(owner == queue.owner for owner, _ in taken) < _EACH and self._wanted(adapter, *key):
                    found.append(key)
        except (BackendError, AdapterError) as error:
            logging.getLogger("fastness").warning("signals wait that cannot be handed over: %s", error)
        return found

    def signal_queues(self, owner: str | None = None) -> list[Queue]:
        """What waits, and what was dropped, by owner and plugin.  Raises AdapterError."""
        found: list[Queue] = self._core.adapters.signals().queues(owner)
        return found

    async def erase_signals(self, owner: str, *, plugin: str | None = None) -> int:
        """Forget what waits for an owner, or for one plugin of theirs; how many signals.  Raises AdapterError."""
        return await self._waiting.call(partial(self._decisions.erase_signals, owner, plugin))

    async def _hand_over(
        self, adapter: Signals, owner: str, plugin: str, turn: int, over: Callable[[], bool] = lambda: False
    ) -> list[Delivery]:
        """A turn of one queue, no further than where it is ``over``."""
        done: list[Delivery] = []
        waiting = await self._waiting.call(partial(self._wanted, adapter, owner, plugin))
        for number, topic in waiting[:turn]:
            if over():
                break
            made = await self._delivered(adapter, owner, plugin, number, topic)
            if made is not None:
                done.append(made)
        return done

    def _wanted(self, adapter: Signals, owner: str, plugin: str) -> list[tuple[int, str]]:
        """What waits for a method, by number and topic; what nobody may have any more is dropped."""
        waiting = adapter.waiting(owner, plugin)
        scope = self._scope(adapter, owner, plugin)
        if scope is None:
            return []
        lost = [number for number, topic in waiting if not scope.receives(topic)]
        if lost:
            adapter.drop(owner, plugin, lost)
            self._core.events.unheard(plugin, owner, f"{len(lost)} of topics that it receives no more", "not_granted")
        return [(number, topic) for number, topic in waiting if scope.handler(topic) is not None]

    def _scope(self, adapter: Signals, owner: str, plugin: str) -> SignalsScope | None:
        """What a plugin may receive now; where that is nothing, all that waits for it is dropped."""
        scope: Any = None
        code = "not_granted"
        try:
            scope = self._core.scope("signals", plugin, owner)
        except PolicyError as error:
            code = "expired" if error.field == "grant" else "not_permitted"
        except GrantError:
            pass
        except ConfigurationError:
            # Disabled, quarantined or removed; or its manifest is not valid any more.
            code = "disabled"
        if scope is not None and scope.subscribe:
            found: SignalsScope = scope
            return found
        count = adapter.drop(owner, plugin)
        if count:
            self._core.events.unheard(plugin, owner, f"{count} that waited", code)
        return None

    async def _delivered(self, adapter: Signals, owner: str, plugin: str, number: int, topic: str) -> Delivery | None:
        """One signal, handed over; None where somebody else has it, or its plugin has no method for it any more."""
        from fastness.capabilities.signals import shown

        run = os.urandom(8).hex()

        def claim() -> tuple[Signal, str] | None:
            scope = self._scope(adapter, owner, plugin)
            method = None if scope is None else scope.handler(topic)
            signal = None if method is None else adapter.claim(number)
            if signal is None or method is None:
                return None
            try:
                self._core.events.led(plugin, owner, topic, signal.sender, signal.hop, run)
            except BackendError:
                adapter.put_back(signal)
                raise
            return signal, method

        claimed = await self._waiting.call(claim)
        if claimed is None:
            return None
        signal, method = claimed
        made = Delivery(
            owner=owner, plugin=plugin, method=method, topic=topic, sender=signal.sender, at=signal.at, hop=signal.hop
        )
        try:
            with adapter.caused(run, signal):
                result = await self._invoke(run, plugin, method, {"signal": shown(signal)}, owner)
        except TierUnavailable:
            await self._waiting.call(partial(adapter.put_back, signal))
            raise
        except BackendError:
            # Nearly always nothing ran; where it broke off in the middle, trying for ever would call it for ever.
            if not await self._waiting.call(partial(adapter.put_back, signal, again=False)):
                await self._waiting.call(partial(self._unheard, adapter, signal, "failed"))
            raise
        except (ConfigurationError, PackageChanged, QuotaExceeded, AdapterError) as error:
            code = "quota" if isinstance(error, QuotaExceeded) else "failed"
            await self._waiting.call(partial(self._unheard, adapter, signal, code))
            return msgspec.structs.replace(made, refused=str(error))
        return msgspec.structs.replace(made, result=result)

    def _unheard(self, adapter: Signals, signal: Signal, code: str) -> None:
        adapter.drop(signal.owner, signal.plugin, (), gone=1)
        self._core.events.unheard(signal.plugin, signal.owner, signal.topic, code)


def _at_most(field: str, value: object, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise ConfigurationError(field, value, f"1 to {most}")
    return value

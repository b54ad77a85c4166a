"""
What the host of any guest does about its calls: hand them over, bring answers back, count, and leave nothing open.

Nothing here waits for a guest or writes to one: whoever holds a guest's channel takes messages from it to
:meth:`Calling.take`, watches :meth:`Calling.fileno` beside it, and puts :meth:`Calling.answers` on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from fastness.backends.base import Sink
from fastness.backends.telling import CallbackRaised
from fastness.brokered import Answer, Calls, TooManyCalls
from fastness.errors import ConfigurationError
from fastness.runs import Denial, RunRequest
from fastness.wire import frames, values
from fastness.wire import messages as m

if TYPE_CHECKING:
    from fastness.waiting import Waiting
    from fastness.wire.session import HostSession

__all__ = ["Calling", "close_calls"]

#: The capability whose functions also become names of a program.
_FUNCTIONS = "host"
#: What a log line counts for beside its text, so that empty ones are not free.
_LINE = 32
_MESSAGE = 500


class Calling:
    """
    The calls of one invoke, between the conversation ``session`` with its guest and the broker's ``calls``.

    ``made`` counts calls that the broker took; ``over`` says that the guest asked for more than its run may, so that
    the run is to be ended as ``call_limit``.
    """

    def __init__(self, calls: Calls, session: HostSession, request: RunRequest, sink: Sink | None) -> None:
        self._calls = calls
        self._session = session
        self._request = request
        self._sink = sink
        self._open: set[int] = set()
        self._log_left = request.limits.log_bytes
        self.made = 0
        self.over = False
        rows, dropped = calls.denials()
        # A session's broker tells all refusals of the session; a result has those of its own execute.
        self._before = {_key(row): row.count for row in rows}
        self._dropped_before = dropped

    def context(self) -> bytes:
        """What an invoke tells its guest of its ctx, as JSON.  Raises ConfigurationError for what is no plain data."""
        if self._request.runtime == "wasi":
            # A module has a channel, and what it may ask there it finds out by asking.
            return b"{}"
        plugin: dict[str, Any] | None = None
        asked = self._request.plugin
        if asked is not None:
            try:
                arguments = values.encode(asked.arguments)
            except values.NotPlain as error:
                raise ConfigurationError("arguments", str(error), "plain data") from None
            plugin = {"module": asked.module, "method": asked.method, "arguments": msgspec.Raw(arguments)}
            if asked.sources:
                plugin["sources"] = asked.sources
        granted = self._calls.granted
        return msgspec.json.encode(
            {
                "granted": granted,
                "functions": [_FUNCTIONS] if any(one.capability == _FUNCTIONS for one in granted) else [],
                "plugin": plugin,
                "in_flight": self._request.limits.calls_in_flight,
            }
        )

    def fileno(self) -> int:
        """Readable while there are answers to fetch."""
        return self._calls.fileno()

    def take(self, message: m.Call | m.Drop | m.Log, blob: bytes, *, at_once: bool) -> bytes:
        """
        Take a message of the guest's; never waits.  Raises CallbackRaised.

        With ``at_once`` an answer that is there at once is returned, as its frame.  A guest that has not taken those
        before is not to have it so: what is not taken waits where it is counted.
        """
        if isinstance(message, m.Call):
            if not self.over:
                try:
                    take = self._calls.ask if at_once else self._calls.submit
                    answer = take(message.id, message.capability, message.operation, blob)
                except TooManyCalls:
                    self.abandon()
                    self.over = True
                else:
                    self.made += 1
                    if answer is not None:
                        return self._frame(answer)
                    self._open.add(message.id)
                    return b""
            self._settle(message.id)
        elif isinstance(message, m.Drop):
            if message.id in self._open:
                self._open.discard(message.id)
                self._calls.drop(message.id)
            self._settle(message.id)
        else:
            self._log(message)
        return b""

    def answers(self) -> list[bytes]:
        """Frames for the guest: answers since the last time, without those that it has no more use for."""
        found = []
        for answer in self._calls.answers():
            if answer.id not in self._open:
                continue
            self._open.discard(answer.id)
            found.append(self._frame(answer))
        return [frame for frame in found if frame]

    def _frame(self, answer: Answer) -> bytes:
        if not answer.code and len(answer.value) <= frames.HOST_MAX_BLOB:
            return self._session.send(m.Reply(answer.id), answer.value)
        code, text = (answer.code, answer.message) if answer.code else ("failed", "the answer is too large")
        text = text[:_MESSAGE].encode("utf-8", "backslashreplace").decode()
        return self._session.send(m.Fault(answer.id, code[:64], text))

    def abandon(self) -> None:
        """Nobody waits for what is in flight any more: it is cancelled where it can be, and never answered."""
        for id in self._open:
            self._calls.drop(id)
        self._open.clear()
        for id in self._session.open_calls:
            self._settle(id)

    def denials(self) -> tuple[tuple[Denial, ...], int]:
        """The broker's refusals since this invoke began, and how many did not fit."""
        rows, dropped = self._calls.denials()
        found = []
        for row in rows:
            count = row.count - self._before.get(_key(row), 0)
            if count > 0:
                found.append(row if count == row.count else msgspec.structs.replace(row, count=count))
        return tuple(found), dropped - self._dropped_before

    def _settle(self, id: int) -> None:
        if id in self._session.open_calls:
            # What comes of it is not sent: the guest has said that it does not listen, or is over.
            self._session.send(m.Fault(id, "cancelled"))

    def _log(self, message: m.Log) -> None:
        self._log_left -= len(message.text.encode()) + _LINE
        if self._log_left < 0 or self._sink is None:
            return
        try:
            self._sink("log", {"level": message.level, "text": message.text})
        except BaseException as error:  # noqa: BLE001  # whatever a callback raises is its caller's
            raise CallbackRaised(error) from None


def _key(row: Denial) -> tuple[str, ...]:
    return row.capability, row.operation, row.target, row.code.value


async def close_calls(calls: Calls | None, waiting: Waiting) -> None:
    """The run is over, however it ended: cancel what is in flight and wait for its rest, cancelled or not oneself."""
    if calls is not None:
        with waiting.limit(None, shield=True):
            await waiting.call(calls.close)

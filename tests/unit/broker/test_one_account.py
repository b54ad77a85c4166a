"""The account of one call by itself: each record that it makes, what is told in it, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from test_broker_calls import SPEC, Notes, NoteScope

from fastness.broker.account import Account, told_of
from fastness.broker.gate import Gate
from fastness.broker.trail import Intent
from fastness.capability import CallContext
from fastness.errors import BackendError, Denied
from fastness.runs import DenialCode

INTENT = Intent(run="r", plugin="p", owner="o", capability="notes", operation="put", target="a", leaves=False)


class Trail:
    """Writes down all that it is told."""

    def __init__(self) -> None:
        self.ends: list[tuple[int, str, dict[str, Any]]] = []
        self.intents: list[str] = []
        self.refusals: list[tuple[str, str]] = []
        self.broken: set[int] = set()
        self.micros = -1

    def intend(self, intent: Intent) -> int:
        self.intents.append(intent.target)
        return 10 + len(self.intents)

    def done(self, number: int, intent: Intent, *, micros: int, **told: Any) -> None:
        if number in self.broken:
            raise BackendError("writing the audit trail", "the disk is full")
        self.micros = micros
        self.ends.append((number, intent.target, told))

    def refused(self, intent: Intent, *, code: str) -> None:
        self.refusals.append((intent.target, code))


class One:
    """A call that record 1 announced."""

    def __init__(self) -> None:
        self.trail = Trail()
        self.revision = 0
        self.context = CallContext(plugin="p", owner="o", run="r", scope=NoteScope(), deadline=0.0)
        gate = Gate({"notes": NoteScope()}, {"notes": SPEC}, {"notes": Notes(print)}, revision=lambda: self.revision)
        self.account = Account(gate, self.trail, 1, INTENT, self.context)  # type: ignore[arg-type]  # a trail of this test

    def leads_on(self, target: str) -> None:
        assert self.context.before is not None
        self.context.before(target)

    def codes(self) -> list[tuple[int, str]]:
        return [(number, told["code"]) for number, _, told in self.trail.ends]


def test_what_is_told_of_an_end() -> None:
    """What it cost and what was dropped only where there is any: other trails need not know of these."""
    context = CallContext(plugin="p", owner="o", run="r", scope=NoteScope(), deadline=0.0)
    context.bytes_in, context.bytes_out = 3, 4
    told = {"code": "failed", "micros": 7, "bytes_in": 3, "bytes_out": 4}
    assert told_of("failed", 7, context) == told
    context.cost = 1
    assert told_of("failed", 7, context) == {**told, "cost": 1}
    context.dropped = 1
    assert told_of("failed", 7, context) == {**told, "cost": 1, "dropped": 1}


@pytest.mark.parametrize(
    ("effect", "refused", "code"),
    [
        (False, None, "outside"), (True, None, "outside"), (False, DenialCode.OUTSIDE, "outside"),
        (True, DenialCode.OUTSIDE, "answer_outside"),
    ],
)  # fmt: skip
def test_how_a_call_ended(effect: bool, refused: DenialCode | None, code: str) -> None:
    """That its answer was refused is said where it was, and where the call may have had its effect."""
    one = One()
    one.context.effect = effect
    assert one.account.effect is effect
    assert one.account.end("outside", refused=refused)
    assert one.codes() == [(1, code)]


def test_how_long_a_call_took() -> None:
    """In microseconds, of each hop from the beginning of the call."""
    one = One()
    one.account._began -= 10**15
    one.leads_on("b")
    one.account.end("", refused=None)
    assert 10**12 <= one.trail.micros < 10**12 + 60_000_000


def test_each_hop_has_its_own_end() -> None:
    """Which of them had their effect is kept apart; what went to and fro and what it cost is told once."""
    one = One()
    one.context.effect = True
    one.leads_on("b")
    assert one.context.effect is False
    assert one.account.effect, "the first one had"
    one.leads_on("c" * 600)
    one.context.bytes_in, one.context.bytes_out, one.context.cost = 5, 6, 7
    assert one.account.end("redirect", refused=DenialCode.REDIRECT)
    assert one.trail.intents == ["b", "c" * 500]
    none = {"bytes_in": 0, "bytes_out": 0}
    assert one.trail.ends == [
        (1, "a", {"code": "answer_redirect", "bytes_in": 5, "bytes_out": 6, "cost": 7}),
        (11, "b", {"code": "redirect", **none}), (12, "c" * 500, {"code": "redirect", **none}),
    ]  # fmt: skip


def test_a_hop_without_an_effect_before_it() -> None:
    one = One()
    one.leads_on("b")
    assert not one.account.effect
    one.context.effect = True
    assert one.account.effect
    one.account.end("outside", refused=DenialCode.OUTSIDE)
    assert one.codes() == [(1, "outside"), (11, "answer_outside")]


def test_a_hop_that_may_not_be_made() -> None:
    """It is not announced, and whoever was about to make it learns why and where."""
    one = One()
    one.revision = 1
    with pytest.raises(Denied) as refused:
        one.leads_on("b")
    assert (refused.value.code, refused.value.target) == (DenialCode.REVOKED, "b")
    assert one.trail.intents == []


def test_what_was_not_accepted_stands_beside_the_call() -> None:
    """On record under so many characters; the call goes on."""
    one = One()
    assert one.context.note is not None
    one.context.note("n" * 600, "quota")
    assert one.trail.refusals == [("n" * 500, "quota")]
    assert one.trail.ends == []


def test_an_end_that_cannot_be_recorded() -> None:
    """Whoever asked learns of it; the others are recorded all the same."""
    one = One()
    one.leads_on("b")
    one.trail.broken = {1}
    assert not one.account.end("", refused=None)
    assert one.codes() == [(11, "")]


@pytest.mark.parametrize(("error", "code"), [(None, "late"), (ValueError("no"), "failed")])
@pytest.mark.parametrize("done", [True, False])
def test_work_that_nobody_could_stop(error: Exception | None, code: str, done: bool) -> None:
    """It has no end on record before it has come to rest; then what became of it, and not that its answer was refused."""

    async def run() -> None:
        one = One()
        one.context.effect = True
        one.context.rest = asyncio.get_running_loop().create_future()

        def end() -> None:
            assert one.context.rest is not None
            if error is None:
                one.context.rest.set_result(None)
            else:
                one.context.rest.set_exception(error)

        if done:
            end()
        assert one.account.end("revoked", refused=DenialCode.REVOKED)
        if not done:
            await asyncio.sleep(0)
            assert one.trail.ends == []
            end()
            await asyncio.sleep(0)
        assert one.codes() == [(1, code)]

    asyncio.run(run())

"""Calls of a run as a meter counts them, what they cost, and what they leave open."""

from __future__ import annotations

import asyncio
import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastness.audit import reading
from fastness.audit.log import AuditLog
from fastness.audit.record import AuditRecord
from fastness.audit.verify import verify
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.brokered import Answer
from fastness.capability import CallContext, Operation, Scope, Spec
from fastness.errors import AdapterError, Denied
from fastness.metering.ledger import Ledger
from fastness.metering.meter import Meter
from fastness.metering.quotas import Quota
from fastness.runs import DenialCode
from fastness.wire import values


class ShopScope(Scope, frozen=True, tag="shop"):
    pass


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str = ""


SPEC = Spec(
    kind="shop",
    scope=ShopScope,
    operations=(
        Operation(name="look", arguments=Item, target=lambda given: given.name, summary="Look at it."),
        Operation(name="buy", arguments=Item, target=lambda given: given.name, summary="Pay for it.", leaves=True),
        Operation(name="order", arguments=Item, target=lambda given: given.name, summary="Begin to.", leaves=True),
    ),
    meet=lambda asked, allowed: asked,
    exceeds=lambda asked, allowed: [],
    risk=lambda scope: "",
    enforced=(),
)


class Order:
    """Left open until somebody ends it."""

    capability = "shop"

    def __init__(self, target: str, cost: int, takes_s: float = 0.0) -> None:
        self.target = target
        self.cost = cost
        self.takes_s = takes_s
        self.ended = 0

    async def end(self) -> int:
        await asyncio.sleep(self.takes_s)
        self.ended += 1
        return self.cost


class Shop:
    """What it costs is the length of the name."""

    spec = SPEC

    def __init__(self) -> None:
        self.orders: list[Order] = []
        self.takes_s = 0.0
        self.seen: list[tuple[str, bool]] = []
        self.blocked = threading.Event()

    def at_once(self, operation: str, given: Item, context: CallContext) -> Any:
        self.seen.append((operation, True))
        context.bytes_in, context.bytes_out = 10, 1
        context.dropped = given.name.count("!")
        return given.name

    async def call(self, operation: str, given: Item, context: CallContext) -> Any:
        self.seen.append((operation, False))
        context.bytes_in, context.bytes_out, context.cost, context.cpu_s = 10, 1, len(given.name), 0.5
        context.dropped = given.name.count("!")
        if given.name == "broken":
            raise AdapterError("it broke")
        if given.name.startswith("forbidden"):
            raise Denied(DenialCode.OUTSIDE, given.name)
        if given.name == "slow":
            self.blocked.set()
            await asyncio.sleep(60)
        if given.name == "bitten":
            assert context.note is not None
            context.note("bitten: it was not what it said", DenialCode.QUOTA.value)
        if operation == "order":
            self.orders.append(Order(given.name, len(given.name), self.takes_s))
            context.opened[len(self.orders)] = self.orders[-1]
            context.cost = 0
            return len(self.orders)
        return given.name

    async def aclose(self) -> None:
        pass


class Scene:
    def __init__(self, base: Path, here: bool, quotas: tuple[Quota, ...], most: int = 1000) -> None:
        self.shop = Shop()
        self.log = AuditLog(str(base / "audit.db"), str(base / "audit.key"))
        self.ledger = Ledger(str(base / "usage.db"), quotas)
        self.meter = Meter(self.ledger, "p", "o")
        self.revision = 1
        gate = Gate(
            {"shop": ShopScope()}, {"shop": SPEC}, {"shop": self.shop}, made_at=1, revision=lambda: self.revision
        )
        self.calls = RunCalls(
            gate, self.log, run="r", plugin="p", owner="o", calls=most, value_bytes=1000,
            deadline=time.monotonic() + 30, here=here, meter=self.meter,
        )  # fmt: skip
        self.count = 0

    def submit(self, operation: str, capability: str = "shop", **given: Any) -> int:
        self.count += 1
        self.calls.submit(self.count, capability, operation, values.encode(given))
        return self.count

    def answer(self) -> Answer:
        if not select.select([self.calls], [], [], 10)[0]:
            raise AssertionError("no answer")
        (found,) = self.calls.answers()
        return found

    def ask(self, operation: str, capability: str = "shop", **given: Any) -> Answer:
        self.submit(operation, capability, **given)
        return self.answer()

    def close(self) -> None:
        self.calls.close()
        self.meter.end(0.0)

    def used(self) -> dict[str, Any]:
        return {row.kind: row for row in self.ledger.used()}

    def rows(self) -> list[AuditRecord]:
        assert verify(self.log.path, self.log.key).whole
        return list(reading.records(self.log.path))


@pytest.fixture(params=[True, False], ids=["here", "in the loop"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(*quotas: Quota) -> Scene:
        made.append(Scene(tmp_path, request.param, quotas))
        return made[-1]

    yield make
    for one in made:
        one.close()
        one.log.close()


def test_each_call_is_counted_once(scene: Callable[..., Scene]) -> None:
    """However it ends: well, as a failure, as a refusal, as what is no call; and by which way it is served."""
    one = scene()
    assert one.ask("look", name="a").code == ""
    for name, code in (("broken", "failed"), ("forbidden", "outside"), ("x", "")):
        assert one.ask("buy", name=name).code == code
    assert one.ask("look", size=1).code == "invalid"
    assert one.ask("steal").code == "unsupported"
    assert one.ask("look", "the guest's own word").code == "not_granted"
    one.close()
    used = one.used()
    assert set(used) == {"", "shop"}
    # Of a kind that is not in the policy the name is the guest's, and is not kept.
    assert (used[""].runs, used[""].calls, used[""].refused) == (1, 1, 1)
    assert (used["shop"].calls, used["shop"].refused) == (6, 2)
    assert (used["shop"].bytes_in, used["shop"].bytes_out) == (40, 4)
    assert used["shop"].cpu_micros == [once for _, once in one.shop.seen].count(False) * 500_000


def test_what_calls_cost(scene: Callable[..., Scene]) -> None:
    """It is told, and stands in the record of how each ended."""
    one = scene()
    for name in ("a", "abc", "broken"):
        one.ask("buy", name=name)
    one.ask("look", name="free")
    one.close()
    assert one.calls.cost == 1 + 3 + 6
    assert [(row.target, row.cost) for row in one.rows() if row.phase == "outcome"] == [
        ("a", 1), ("abc", 3), ("broken", 6), ("free", 0),
    ]  # fmt: skip
    assert all(row.cost == 0 for row in one.rows() if row.phase == "intent")


def test_what_was_dropped(scene: Callable[..., Scene]) -> None:
    """How many fields an adapter left out stands in the record of how the call ended, also where it was refused."""
    one = scene()
    for operation, name in (("look", "a!"), ("buy", "b!!"), ("buy", "forbidden!!!"), ("buy", "c")):
        one.ask(operation, name=name)
    one.close()
    assert [(row.code, row.dropped) for row in one.rows() if row.phase == "outcome"] == [
        ("", 1), ("", 2), ("outside", 3), ("", 0),
    ]  # fmt: skip
    assert all(row.dropped == 0 for row in one.rows() if row.phase == "intent")


def test_what_was_not_accepted_is_noted(scene: Callable[..., Scene]) -> None:
    """As a refusal beside the call, which goes on."""
    one = scene()
    assert one.ask("buy", name="bitten").code == ""
    one.close()
    noted = [row for row in one.rows() if row.decision == "refused"]
    assert [(row.op, row.target, row.code) for row in noted] == [("buy", "bitten: it was not what it said", "quota")]
    assert one.calls.denials() == ((), 0)


def test_calls_up_to_a_quota(scene: Callable[..., Scene]) -> None:
    """Those beyond are refused before anything is looked at, on record, as rows of the result, and not as calls."""
    one = scene(Quota(calls=5))
    codes = [one.ask("look", name=str(number)).code for number in range(8)]
    assert codes == [""] * 5 + ["quota"] * 3
    assert len(one.shop.seen) == 5
    one.close()
    assert (one.used()["shop"].calls, one.used()["shop"].refused) == (5, 3)
    (row,) = one.calls.denials()[0]
    assert (row.code, row.count, row.operation) == (DenialCode.QUOTA, 3, "look")
    assert [row.code for row in one.rows() if row.decision == "refused"] == ["quota"] * 3


def test_refused_calls_count_too(scene: Callable[..., Scene]) -> None:
    """Whoever asks for what is not granted uses up the quota of calls."""
    one = scene(Quota(calls=3))
    codes = [one.ask("look", "fs").code for _ in range(5)]
    assert codes == ["not_granted"] * 3 + ["quota"] * 2
    one.close()


def test_what_cannot_be_counted_does_not_happen(scene: Callable[..., Scene]) -> None:
    """A ledger that is bounded and cannot be written lets nothing through."""
    one = scene(Quota(calls=100))
    Path(one.ledger.path).write_bytes(b"no database" * 1000)
    Path(one.ledger.path).chmod(0o600)
    answer = one.ask("look", name="a")
    assert (answer.code, one.shop.seen) == ("failed", [])
    assert "could not be counted" in answer.message
    assert not Path(one.log.path).exists()


def test_what_is_left_open_ends_with_its_run(scene: Callable[..., Scene]) -> None:
    """Each with two records, and what it cost."""
    one = scene()
    for name in ("a", "bcd"):
        assert one.ask("order", name=name).code == ""
    one.close()
    assert [order.ended for order in one.shop.orders] == [1, 1]
    closed = [(row.phase, row.target, row.cost) for row in one.rows() if row.op == "close"]
    assert sorted(closed) == [("intent", "a", 0), ("intent", "bcd", 0), ("outcome", "a", 1), ("outcome", "bcd", 3)]
    assert one.calls.cost == 4


def test_what_is_left_open_ends_with_its_grant(scene: Callable[..., Scene]) -> None:
    """When it is revoked in this process, and not when the run is over."""
    one = scene()
    one.ask("order", name="a")
    one.revision = 2
    one.calls.revoke()
    ends = time.monotonic() + 10
    while not one.shop.orders[0].ended and time.monotonic() < ends:
        time.sleep(0.01)
    assert one.shop.orders[0].ended == 1
    assert one.ask("buy", name="b").code == "revoked"
    one.close()
    assert one.shop.orders[0].ended == 1


def test_many_that_are_slow_to_end(scene: Callable[..., Scene]) -> None:
    """They end together: a run is not held up by one after the other."""
    one = scene()
    one.shop.takes_s = 1.0
    for number in range(12):
        one.ask("order", name=f"{number}")
    one.close()
    assert [order.ended for order in one.shop.orders] == [1] * 12


def test_a_call_that_is_cut_short(scene: Callable[..., Scene]) -> None:
    """What it cost by then counts, and is in its record."""
    one = scene()
    one.submit("buy", name="slow")
    assert one.shop.blocked.wait(10)
    one.calls.drop(1)
    one.close()
    assert one.calls.cost == 4
    (row,) = [row for row in one.rows() if row.phase == "outcome"]
    assert (row.code, row.cost) == ("answer_cancelled", 4)
    assert one.used()["shop"].calls == 1


def test_a_run_without_a_meter(tmp_path: Path) -> None:
    """Nothing is counted, and all goes on."""
    shop = Shop()
    log = AuditLog(str(tmp_path / "audit.db"), str(tmp_path / "audit.key"))
    gate = Gate({"shop": ShopScope()}, {"shop": SPEC}, {"shop": shop})
    calls = RunCalls(gate, log, run="r", plugin="p", owner="o", calls=5, value_bytes=100, deadline=time.monotonic() + 9)
    calls.submit(1, "shop", "order", values.encode({"name": "abc"}))
    assert select.select([calls], [], [], 10)[0]
    calls.close()
    assert (calls.cost, shop.orders[0].ended) == (0, 1)
    assert [row.cost for row in reading.records(log.path) if row.op == "close"] == [0, 3]
    log.close()

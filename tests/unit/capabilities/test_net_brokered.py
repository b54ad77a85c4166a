"""
``net`` behind the broker: its loop, its decoding of arguments, its records.
"""

from __future__ import annotations

import asyncio
import select
import time
from typing import Any

import pytest

import listeners
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.broker.trail import Intent
from fastness.brokered import Answer
from fastness.capabilities.net import SPEC, Net
from fastness.testing import Case, check_capability
from fastness.wire import values
from listeners import Listener, Names, answer, guard, scope


class Paper:
    """A trail in memory."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def intend(self, intent: Intent) -> int:
        self.rows.append(("intent", intent.target, intent.leaves))
        return len(self.rows)

    def done(
        self, number: int, intent: Intent, *, code: str, micros: int, bytes_in: int, bytes_out: int, cost: int = 0
    ) -> None:
        self.rows.append(("outcome", number, code, bytes_in, bytes_out))

    def refused(self, intent: Intent, *, code: str) -> None:
        self.rows.append(("refused", intent.target, code))


def test_calls_through_the_broker() -> None:
    """What a guest sends is decoded, recorded without query or payload, done, and answered as plain data."""
    server = Listener(lambda _head: [answer(b"hello", headers=[("X-A", "1")])])
    paper = Paper()
    net = Net(guard("a.test", port=server.port), resolve=Names(a_test=["127.0.0.1"], b_test=["169.254.169.254"]))
    gate = Gate({"net": scope(server.port)}, {"net": SPEC}, {"net": net})
    calls = RunCalls(
        gate, paper, run="r", plugin="p", owner="o", calls=10, value_bytes=1 << 20, deadline=time.monotonic() + 20
    )

    def ask(number: int, **arguments: Any) -> Answer:
        calls.submit(number, "net", "request", values.encode(arguments))
        assert select.select([calls], [], [], 10)[0]
        (found,) = calls.answers()
        return found

    url = f"http://a.test:{server.port}/x"
    try:
        with listeners.nothing_leaves():
            got = ask(1, method="POST", url=f"{url}?token=1", headers={"X-B": "2"}, body=b"payload")
            assert got.code == "", got.message
            assert values.decode(got.value) == {
                "status": 200, "reason": "OK", "headers": {"x-a": "1", "content-length": "5"}, "body": b"hello", "url": f"{url}?token=1",
            }  # fmt: skip
            assert ask(2, method="GET", url=f"http://b.test:{server.port}/").code == "address"
            assert ask(3, method="GET", url="http://c.example/").code == "host"
            assert ask(4, method="GET", url=url, headers={"Cookie": "s=1"}).code == "header"
            assert ask(5, method="GET", url=url, body="aGVsbG8=").code == "invalid"
            assert ask(6, method="GET", url=url, follow=True).code == "invalid"
    finally:
        calls.close()
        server.close()
    assert paper.rows[:2] == [("intent", f"POST {url}", True), ("outcome", 1, "", 5, 7)]
    assert "payload" not in repr(paper.rows)
    assert "token" not in repr(paper.rows)
    assert [row[1:] for row in paper.rows if row[0] == "intent"][1:3] == [
        (f"GET http://b.test:{server.port}/", True),
        ("GET http://c.example/", True),
    ]
    assert len(server.requests) == 1


@pytest.mark.parametrize("adapters", [{}, {"net": Net()}])
def test_no_network_without_an_adapter_or_a_guard(adapters: dict[str, Net]) -> None:
    """A grant alone opens nothing: with no adapter, and with one that has no guard, a call is refused as ``no_adapter``."""
    paper = Paper()
    gate = Gate({"net": scope(80, hosts=("*",))}, {"net": SPEC}, adapters)
    calls = RunCalls(
        gate, paper, run="r", plugin="p", owner="o", calls=10, value_bytes=1 << 20, deadline=time.monotonic() + 20
    )
    try:
        with listeners.nothing_leaves():
            calls.submit(1, "net", "request", values.encode({"method": "GET", "url": "http://a.test/"}))
            assert select.select([calls], [], [], 10)[0]
            (found,) = calls.answers()
            assert found.code == "no_adapter"
            assert (listeners.tried, listeners.looked_up) == ([], [])
    finally:
        calls.close()


def test_it_keeps_to_what_every_capability_keeps_to() -> None:
    """The conformance kit's laws: for a call that works, and for one refusal of each kind."""
    server = Listener(
        lambda head: [
            answer(b"moved", status="302 F", headers=[("Location", "http://c.example/")])
            if b"/away" in head
            else answer(b"x")
        ]
    )
    url = f"http://a.test:{server.port}"

    def make() -> Net:
        return Net(
            guard("a.test", port=server.port),
            resolve=Names(a_test=["127.0.0.1"], b_test=["10.0.0.1"]),
            request_bytes=100,
        )

    def case(code: str = "", **arguments: Any) -> Case:
        given = {"method": "GET", "url": f"{url}/x?secret-query", **arguments}
        return Case(operation="request", arguments=given, scope=scope(server.port), code=code, payloads=("secret",))

    cases = [
        case(),
        case(method="POST", body=b"secret-body", headers={"X-A": "secret-field"}),
        case("header", headers={"Cookie": "secret"}),
        case("host", url="http://c.example/?secret"),
        case("host", url=f"http://user:secret@a.test:{server.port}/"),
        case("address", url=f"http://b.test:{server.port}/"),
        case("too_large", method="POST", body=b"secret" * 100),
        case("redirect", url=f"{url}/away"),
        case("failed", url=f"http://unknown.test:{server.port}/"),
    ]
    try:
        faults = asyncio.run(check_capability(make, cases, hidden=["127.0.0.1", "10.0.0.1"]))
    finally:
        server.close()
    assert faults == []

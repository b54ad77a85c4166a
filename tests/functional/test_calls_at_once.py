"""Calls that the thread of a run serves itself, from inside a guest of each tier: answered, and recorded like any other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import house
from fastness.audit import reading
from fastness.audit.log import AuditLog
from fastness.audit.verify import verify
from fastness.backends import registry
from fastness.backends.base import Backend, Report, Staged
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.capabilities.storage import Storage, StorageScope
from fastness.runner import request as requests
from fastness.runs import OutcomeKind
from fastness.tier import Tier
from fastness.waiting import ThreadWaiting, drive


@pytest.fixture(scope="module", params=["isolated", "confined", "worker", "wasm"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    house.require("python guest" if request.param == "wasm" else f"{request.param} tier")
    made = registry.make(Tier(request.param), waiting=ThreadWaiting())
    yield made
    drive(made.aclose())


class World:
    """A storage and a trail, and runs that may use them."""

    def __init__(self, backend: Backend, base: Path) -> None:
        self.backend = backend
        self.log = AuditLog(str(base / "audit.db"), str(base / "audit.key"))
        self.storage = Storage(str(base / "storage.db"))
        self.at_once = 0
        serve = self.storage.at_once

        def counted(*of: Any) -> Any:
            self.at_once += 1
            return serve(*of)

        self.storage.at_once = counted  # type: ignore[method-assign]  # what is counted

    def run(self, code: str, timeout: float = 30, **limits: Any) -> Report:
        gate = Gate({"storage": StorageScope(quota=10_000)}, {"storage": Storage.spec}, {"storage": self.storage})
        calls = RunCalls(
            gate, self.log, run="r", plugin="p", owner="o", calls=10_000, value_bytes=4 << 20,
            deadline=time.monotonic() + 60, here=True,
        )  # fmt: skip
        request = requests.make(code, {"timeout": timeout, "preload": (), "limits": limits}, {})
        return drive(self.backend.run(request, Staged(), None, calls))

    def value(self, code: str, **limits: Any) -> Any:
        report = self.run(code, **limits)
        assert report.outcome.kind is OutcomeKind.OK, (report.outcome, report.stderr)
        return report.value


@pytest.fixture
def world(backend: Backend, tmp_path: Path) -> Iterator[World]:
    made = World(backend, tmp_path)
    yield made
    made.log.close()


def test_each_call_has_both_records(world: World) -> None:
    """Whatever serves a call: when the run is over, each has its intent and after that its outcome."""
    value = world.value("ctx.storage.put('k', [1, b'x'])\n[ctx.storage.get('k') for _ in range(200)][-1]")
    assert value == [1, b"x"]
    # The first call opens the trail and the storage, which is never done at once.
    assert world.at_once > 150
    rows = list(reading.records(world.log.path))
    assert [row.phase for row in rows] == ["intent", "outcome"] * 201
    assert [row.intent for row in rows if row.phase == "outcome"] == [row.seq for row in rows if row.phase == "intent"]
    assert verify(world.log.path, world.log.key).whole


_RAW = """
import json, os, struct
def frame(id, key):
    head = json.dumps({"id": id, "capability": "storage", "operation": "get"}).encode()
    blob = json.dumps({"key": key}).encode()
    return struct.pack(">BBHII", 1, 0x43, 0, len(head), len(blob)) + head + blob
def answers(count):
    found, data = [], b""
    while len(found) < count:
        while len(data) < 12:
            data += os.read(FD, 65536)
        _, _, _, head, blob = struct.unpack(">BBHII", data[:12])
        while len(data) < 12 + head + blob:
            data += os.read(FD, 65536)
        found.append(json.loads(data[12:12 + head])["id"])
        data = data[12 + head + blob:]
    return found
"""


@pytest.mark.parametrize("in_flight", [1, 3, 16])
def test_many_calls_in_one_breath(world: World, in_flight: int) -> None:
    """As many as a guest likes to write at once, however few may be in flight: all are answered, in their order."""
    world.value("ctx.storage.put('k', 1)")
    number = 1002 if world.backend.tier is Tier.WASM else 3
    code = _RAW.replace("FD", str(number)) + (
        f"os.write({number}, b''.join(frame(id, 'k') for id in range(1, 13)))\nanswers(12)"
    )
    assert world.value(code, calls_in_flight=in_flight) == list(range(1, 13))


def test_a_flood_of_calls_ends_in_time(world: World) -> None:
    """A guest that calls without end is ended at its deadline, and what it was answered is recorded."""
    report = world.run("ctx.storage.put('k', 1)\nwhile True: ctx.storage.get('k')", timeout=1)
    assert report.outcome.kind is OutcomeKind.TIMEOUT
    rows = list(reading.records(world.log.path))
    intents = {row.seq for row in rows if row.phase == "intent"}
    assert intents == {row.intent for row in rows if row.phase == "outcome"}
    assert len(intents) > 10
    assert verify(world.log.path, world.log.key).whole


def test_an_async_guest_is_answered(world: World) -> None:
    """Calls that are awaited together come back together."""
    code = """
import asyncio
async def main():
    await ctx.storage.put('k', 7)
    return await asyncio.gather(*(ctx.storage.get('k') for _ in range(30)))
asyncio.run(main())
"""
    assert world.value(code) == [7] * 30

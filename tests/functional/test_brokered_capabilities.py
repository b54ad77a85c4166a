"""The broker, the audit trail and the capabilities together: nothing happens unrecorded, and no record has a payload."""

from __future__ import annotations

import select
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastness.audit import reading
from fastness.audit.log import AuditLog
from fastness.audit.verify import verify
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.brokered import Answer
from fastness.capabilities import fs, storage
from fastness.capability import Adapter, Scope
from fastness.wire import values


class World:
    """One plugin's calls on a real trail, a real folder and a real storage."""

    def __init__(self, base: Path) -> None:
        self.root = base / "root"
        self.root.mkdir()
        self.log = AuditLog(str(base / "audit.db"), str(base / "audit.key"), patience_s=0.2)
        self.adapters: dict[str, Adapter] = {
            "fs": fs.Fs(self.root),
            "storage": storage.Storage(str(base / "storage.db")),
        }
        self.scopes: dict[str, Scope] = {
            "fs": fs.FsScope(read=True, write=True),
            "storage": storage.StorageScope(quota=10_000),
        }
        self.number = 0
        self.calls = self.run()

    def run(self, owner: str = "ann") -> RunCalls:
        specs = {kind: adapter.spec for kind, adapter in self.adapters.items()}
        gate = Gate(self.scopes, specs, self.adapters)
        return RunCalls(
            gate, self.log, run="run-1", plugin="p", owner=owner, calls=100_000, value_bytes=1 << 22,
            deadline=time.monotonic() + 120,
        )  # fmt: skip

    def ask(self, capability: str, operation: str, calls: RunCalls | None = None, **arguments: Any) -> Answer:
        calls = calls or self.calls
        self.number += 1
        calls.submit(self.number, capability, operation, values.encode(arguments))
        select.select([calls], [], [], 30)
        (answer,) = calls.answers()
        return answer

    def close(self) -> None:
        self.calls.close()
        self.log.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def told(world: World) -> list[tuple[str, str, str, str]]:
    return [(row.op, row.target, row.phase, row.code) for row in reading.records(world.log.path)]


def test_calls_and_their_records(world: World) -> None:
    """Values come back, refusals have codes, and each call that was tried has its intent and its outcome."""
    assert values.decode(world.ask("fs", "write", path="a", data=b"hello").value) is True
    assert values.decode(world.ask("fs", "read", path="a").value) == b"hello"
    assert values.decode(world.ask("storage", "put", key="k", value=[1, {"x": 2}]).value) is None
    assert values.decode(world.ask("storage", "get", key="k").value) == [1, {"x": 2}]
    assert world.ask("fs", "read", path="../a").code == "escape"
    assert world.ask("net", "request", url="http://x/").code == "not_granted"
    assert world.ask("storage", "put", key="big", value=b"x" * 20_000).code == "quota"
    # An outcome may be recorded while its answer is taken; at the end of a run all are.
    world.calls.close()
    assert told(world) == [
        ("write", "a", "intent", ""), ("write", "a", "outcome", ""),
        ("read", "a", "intent", ""), ("read", "a", "outcome", ""),
        ("put", "k", "intent", ""), ("put", "k", "outcome", ""),
        ("get", "k", "intent", ""), ("get", "k", "outcome", ""),
        ("read", "../a", "intent", ""), ("read", "../a", "outcome", "escape"),
        ("request", "", "intent", "not_granted"),
        ("put", "big", "intent", ""), ("put", "big", "outcome", "quota"),
    ]  # fmt: skip
    assert verify(world.log.path, world.log.key).whole


def test_no_record_has_a_payload(world: World, tmp_path: Path) -> None:
    """What is written, kept and read is nowhere in the files of the trail."""
    secret = "PAYLOAD-4711"
    world.ask("fs", "write", path="a", data=secret)
    world.ask("fs", "read", path="a")
    world.ask("storage", "put", key="k", value={"deep": [secret]})
    world.ask("storage", "get", key="k")
    world.ask("storage", "put", key=5, value=secret)
    world.ask("fs", "write", path="a", data=secret, more=secret)
    for path in tmp_path.glob("audit*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
    assert (world.root / "a").read_text() == secret


@pytest.mark.parametrize("what", ["held", "full"])
def test_where_nothing_can_be_recorded_nothing_happens(what: str, world: World) -> None:
    """While the database is held, or cannot grow, calls are refused without effect; then they work again."""
    world.ask("fs", "write", path="before", data=b"")
    holder = sqlite3.connect(world.log.path, isolation_level=None)
    if what == "held":
        holder.execute("BEGIN IMMEDIATE")
    else:
        connection = world.log._database._connection
        assert connection is not None
        connection.execute("PRAGMA max_page_count=1")
        while world.ask("storage", "get", key="k").code == "":
            pass
    answers = [
        world.ask("fs", "write", path="during", data=b""),
        world.ask("fs", "delete", path="before"),
        world.ask("storage", "put", key="k", value=1),
    ]
    assert {(answer.code, answer.value) for answer in answers} == {("failed", b"")}
    assert not any("/" in answer.message for answer in answers)
    assert sorted(path.name for path in world.root.iterdir()) == ["before"]
    if what == "held":
        holder.execute("ROLLBACK")
    else:
        connection.execute("PRAGMA max_page_count=100000")
    holder.close()
    assert values.decode(world.ask("storage", "get", key="k").value) is None
    assert values.decode(world.ask("fs", "write", path="after", data=b"").value) is True
    assert verify(world.log.path, world.log.key).whole


def test_owners_are_apart(world: World) -> None:
    """Another owner's run of the same plugin has keys of its own, and records that say so."""
    world.ask("storage", "put", key="k", value="ann's")
    other = world.run("bob")
    assert values.decode(world.ask("storage", "get", other, key="k").value) is None
    other.close()
    assert [row.owner for row in reading.records(world.log.path)] == ["ann", "ann", "bob", "bob"]


def test_many_calls_at_once(world: World) -> None:
    """Calls of several runs in flight together: each is recorded as its own, and the chain is whole."""

    def work(owner: str, failures: list[str]) -> None:
        calls = world.run(owner)
        for number in range(40):
            calls.submit(number + 1, "storage", "put", values.encode({"key": f"k{number % 5}", "value": owner}))
        got = 0
        while got < 40 and select.select([calls], [], [], 30)[0]:
            for answer in calls.answers():
                got += 1
                failures.extend([answer.message] if answer.code else [])
        failures.extend([] if got == 40 else ["lost"])
        calls.close()

    failures: list[str] = []
    threads = [threading.Thread(target=work, args=(f"o{number}", failures)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    rows = list(reading.records(world.log.path))
    intents = {row.seq: row.owner for row in rows if row.phase == "intent"}
    outcomes = {row.intent: row.owner for row in rows if row.phase == "outcome"}
    assert intents == outcomes
    assert len(intents) == 160
    assert verify(world.log.path, world.log.key).whole


def test_a_cancelled_write_is_whole_or_not_there(world: World) -> None:
    """A run that ends with writes in flight: each file is whole, and nothing is written after the end."""
    data = b"x" * 500_000
    for round_ in range(5):
        calls = world.run()
        for number in range(8):
            path = f"{round_}-{number}"
            calls.submit(number + 1, "fs", "write", values.encode({"path": path, "data": data}))
        time.sleep(0.002 * round_)
        calls.close()
        now = {path.name: path.stat().st_size for path in world.root.iterdir()}
        assert set(now.values()) <= {len(data)}
        time.sleep(0.05)
        assert {path.name: path.stat().st_size for path in world.root.iterdir()} == now
        recorded = {row.target for row in reading.records(world.log.path)}
        assert set(now) <= recorded
    assert verify(world.log.path, world.log.key).whole

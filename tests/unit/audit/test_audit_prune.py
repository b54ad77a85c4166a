"""Pruning: a sealed checkpoint stands for what went, the rest verifies, and nothing goes that is damaged or needed."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastness.audit import reading, schema
from fastness.audit.log import AuditLog
from fastness.audit.prune import prune
from fastness.audit.verify import Anchor, Kind, anchor, verify
from fastness.broker.trail import Intent
from fastness.errors import BackendError

Make = Callable[..., Intent]
Tamper = Callable[..., None]


@pytest.fixture
def old(log: AuditLog, intent: Make, monkeypatch: pytest.MonkeyPatch) -> AuditLog:
    """Ten records of an hour ago, and two of now."""
    with monkeypatch.context() as patch:
        real = time.time
        patch.setattr("fastness.audit.log.time.time", lambda: real() - 3600)
        for number in range(5):
            log.done(log.intend(intent(target=f"old-{number}")), intent(target=f"old-{number}"))
    log.done(log.intend(intent(target="new")), intent(target="new"))
    return log


def an_hour_ago() -> float:
    return time.time() - 1800


def test_a_checkpoint_stands_for_what_went(old: AuditLog) -> None:
    """The rest verifies, on from the checkpoint; what was done is recorded; the removed text is nowhere in the file."""
    assert prune(old, before=an_hour_ago()) == 10
    records = list(reading.records(old.path))
    assert [(row.seq, row.phase, row.target) for row in records[:3]] == [
        (10, "checkpoint", "stands for records 1 to 10"),
        (11, "intent", "new"),
        (12, "outcome", "new"),
    ]
    assert [(row.capability, row.op, row.target) for row in records[3:]] == [("audit", "prune", "records up to 10")] * 2
    verdict = verify(old.path, old.key, anchor(old.path))
    assert (verdict.whole, verdict.pruned) == (True, 10)
    old.close()
    assert b"old-3" not in Path(old.path).read_bytes()


def test_pruning_again(old: AuditLog, intent: Make) -> None:
    """A checkpoint gives way to the next; with nothing old enough nothing is done."""
    assert prune(old, before=an_hour_ago()) == 10
    assert prune(old, before=an_hour_ago()) == 0
    for _ in range(3):
        old.refused(intent(), code="outside")
    head = anchor(old.path)
    assert prune(old, before=time.time() + 5) == 6
    records = list(reading.records(old.path))
    assert [row.phase for row in records] == ["checkpoint", "intent", "intent", "outcome"]
    assert (records[0].seq, records[1].seq) == (16, 17)
    assert verify(old.path, old.key, head).whole


def test_the_chain_is_still_guarded(old: AuditLog, tamper: Tamper) -> None:
    """After pruning, a removed checkpoint, an edited one, and a gap after it are found."""
    prune(old, before=an_hour_ago())
    with sqlite3.connect(old.path) as connection:
        (row,) = connection.execute(f"{schema.SELECT} WHERE seq=10").fetchall()
    connection.close()

    def found() -> list[tuple[Kind, int, int]]:
        return [(damage.kind, damage.first, damage.last) for damage in verify(old.path, old.key).damages]

    tamper("DELETE FROM trail WHERE seq=10")
    assert found() == [(Kind.REMOVED, 1, 10)]
    tamper((schema.INSERT, row))
    assert found() == []
    tamper("UPDATE trail SET target='x' WHERE seq=10")
    assert found() == [(Kind.REMOVED, 1, 9), (Kind.EDITED, 10, 10)]
    tamper(("UPDATE trail SET target=? WHERE seq=10", (row[7],)), "DELETE FROM trail WHERE seq=11")
    assert found() == [(Kind.REMOVED, 11, 11)]
    # A genuine checkpoint of an earlier time, in the place of what came after it.
    tamper(
        "DELETE FROM trail WHERE seq IN (12, 13)",
        (schema.INSERT, (12, *row[1:])),
    )
    assert (Kind.REMOVED, 11, 11) in found()
    assert (Kind.REMOVED, 13, 13) in found()
    assert {kind for kind, first, _ in found() if first == 12} <= {Kind.EDITED, Kind.MOVED}
    assert any(first == 12 for _, first, _ in found())


def test_anchors_of_what_was_pruned(old: AuditLog) -> None:
    """That of the last record that went still proves something; one of an earlier record does not, and says so."""
    records = list(reading.records(old.path))
    prune(old, before=an_hour_ago())
    assert verify(old.path, old.key, Anchor(10, records[9].hash)).whole
    (damage,) = verify(old.path, old.key, Anchor(10, "0" * 64)).damages
    assert damage.kind is Kind.REPLACED
    (damage,) = verify(old.path, old.key, Anchor(4, records[3].hash)).damages
    assert damage.kind is Kind.PRUNED


def test_an_intent_that_waits_is_kept(log: AuditLog, intent: Make) -> None:
    """What has no outcome yet is not pruned, nor what came after it."""
    log.done(log.intend(intent()), intent())
    waits = log.intend(intent(target="waits"))
    log.refused(intent(), code="outside")
    assert prune(log, before=time.time() + 5) == 2
    log.done(waits, intent(target="waits"))
    assert verify(log.path, log.key).whole


def test_damage_is_not_pruned_away(old: AuditLog, tamper: Tamper) -> None:
    """Where what would go was edited, nothing goes, and it can still be found."""
    tamper("UPDATE trail SET target='x' WHERE seq=4")
    log = AuditLog(old.path, old.key)
    with pytest.raises(BackendError):
        prune(log, before=an_hour_ago())
    damages: Any = verify(old.path, old.key).damages
    assert [(damage.kind, damage.first) for damage in damages] == [(Kind.EDITED, 4)]
    assert [row.code for row in list(reading.records(old.path))[-1:]] == ["failed"]
    log.close()


def test_writers_go_on_after_pruning(old: AuditLog, intent: Make) -> None:
    """The number and hash of the head are what they were."""
    prune(old, before=an_hour_ago())
    assert old.intend(intent()) == 15
    assert verify(old.path, old.key).whole


def test_an_empty_trail(log: AuditLog, intent: Make) -> None:
    """Nothing to prune."""
    log.intend(intent())
    assert prune(log, before=0) == 0

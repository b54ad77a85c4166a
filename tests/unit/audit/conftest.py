"""Trails to write to, and ways to tamper with them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastness.audit.log import AuditLog
from fastness.broker.trail import Intent


def about(**fields: Any) -> Intent:
    """A call that somebody is about to make."""
    given = {
        "run": "run-1",
        "plugin": "weather",
        "owner": "ann",
        "capability": "fs",
        "operation": "read",
        "target": "a",
    }
    return Intent(**{**given, **fields})


@pytest.fixture
def intent() -> Callable[..., Intent]:
    return about


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AuditLog]:
    """An empty trail."""
    made = AuditLog(str(tmp_path / "audit.db"), str(tmp_path / "audit.key"), patience_s=0.2)
    yield made
    made.close()


@pytest.fixture
def tamper(log: AuditLog) -> Callable[..., None]:
    """Run statements on the database as somebody who can write to the file, past our own triggers."""

    def run(*statements: str | tuple[str, tuple[Any, ...]]) -> None:
        log.close()
        connection = sqlite3.connect(log.path, isolation_level=None)
        triggers = connection.execute("SELECT sql FROM sqlite_master WHERE type='trigger'").fetchall()
        connection.execute("DROP TRIGGER IF EXISTS no_change")
        connection.execute("DROP TRIGGER IF EXISTS no_removal")
        for statement in statements:
            connection.execute(*((statement,) if isinstance(statement, str) else statement))
        for (sql,) in triggers:
            connection.execute(sql)
        connection.close()

    return run

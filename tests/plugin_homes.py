"""What tests of plugin hosts share: a home of their own for data, packages as folders, and the rows of its trail."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastness import config
from fastness._wasi import home
from fastness.audit import reading
from fastness.audit.record import AuditRecord
from fastness.audit.verify import verify
from fastness.runner import trail

STORAGE = {"kind": "storage", "quota": 10_000, "reason": "to count"}
FILES = {"kind": "fs", "read": True, "write": True, "reason": "to keep"}


@contextlib.contextmanager
def own_home(base: Path) -> Iterator[Path]:
    """Data and configuration lie below ``base``; what is compiled and proven stays where it is."""
    found = home._base
    patch = pytest.MonkeyPatch()
    patch.setattr(home, "_base", lambda kind: str(base / kind) if kind in ("data", "config") else found(kind))
    # Which file is the configuration's is known by variables, and those are the same.
    config.forget()
    try:
        yield base
    finally:
        log = trail._logs.pop((str(base / "data" / "audit.db"), str(base / "config" / "audit.key")), None)
        if log is not None:
            log.close()
        patch.undo()
        config.forget()


def package(
    folder: Path, files: dict[str, str] | str = "", capabilities: list[dict[str, Any]] | None = None, **fields: Any
) -> Path:
    """A plugin's folder.  ``files`` are by path, or the one that is its entry."""
    runtime = fields.get("runtime", "python")
    entry = {"python": "main.py", "javascript": "main.mjs", "wasi": "main.wasm", "data": ""}[runtime]
    manifest: dict[str, Any] = {"id": "hello", "version": "1.0.0", "api": 1, "runtime": runtime, **fields}
    if entry:
        manifest.setdefault("entry", entry)
    folder.mkdir(parents=True)
    limits = manifest.pop("limits", None)
    lines = [f"{name} = {_toml(value)}" for name, value in manifest.items()]
    if limits:
        lines += ["[limits]", *(f"{name} = {_toml(value)}" for name, value in limits.items())]
    for one in capabilities or []:
        lines += ["[[capabilities]]", *(f"{name} = {_toml(value)}" for name, value in one.items())]
    (folder / "plugin.toml").write_text("\n".join(lines) + "\n")
    for path, text in ({entry: files} if isinstance(files, str) and entry else files or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # Of texts, numbers, true, false and lists of them the two languages have the same words.
    return json.dumps(value)


def rows(base: Path, **wanted: Any) -> list[AuditRecord]:
    """The records of a home's trail, those whose fields are as wanted.  The trail is whole."""
    path = str(base / "data" / "audit.db")
    assert verify(path, str(base / "config" / "audit.key")).whole
    found = reading.records(path)
    return [row for row in found if all(getattr(row, name) == value for name, value in wanted.items())]


def kept(base: Path) -> list[tuple[str, str, str]]:
    """What ``storage`` keeps in a home: plugin, key and value, as they lie in the database."""
    path = base / "data" / "storage.db"
    if not path.exists():
        return []
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'items'").fetchone():
            return []
        return connection.execute("SELECT plugin, hex(key), hex(value) FROM items ORDER BY plugin, key").fetchall()


def events(base: Path) -> list[tuple[str, str, str]]:
    """What its trail says of plugins themselves: op, owner and code."""
    return [(row.op, row.owner, row.code) for row in rows(base, phase="event")]

"""``fs`` and ``storage`` from inside a guest of each tier, on a real folder, database and trail."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import house
from fastness.audit import reading
from fastness.audit.log import AuditLog
from fastness.audit.verify import verify
from fastness.backends.base import Backend, Report, Staged
from fastness.backends.native import NativeBackend
from fastness.backends.wasm import WasmBackend
from fastness.backends.worker import WorkerBackend
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.capabilities.fs import Fs, FsScope
from fastness.capabilities.storage import Storage, StorageScope
from fastness.capability import Adapter, Scope
from fastness.runner import request as requests
from fastness.runs import OutcomeKind
from fastness.tier import Tier
from fastness.waiting import ThreadWaiting, drive

PLACES = [
    ("wasm", "python"),
    ("wasm", "javascript"),
    ("isolated", "python"),
    ("confined", "python"),
    ("worker", "python"),
]


@pytest.fixture(scope="module", params=PLACES, ids="-".join)
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Backend, str]]:
    """A backend and a runtime."""
    tier, runtime = request.param
    house.require(f"{runtime} guest" if tier == "wasm" else f"{tier} tier")
    made: Backend
    if tier == "wasm":
        made = WasmBackend(waiting=ThreadWaiting())
    elif tier == "worker":
        made = WorkerBackend(waiting=ThreadWaiting())
    else:
        made = NativeBackend(Tier(tier), waiting=ThreadWaiting())
    if "calls" not in inspect.signature(made.run).parameters:
        drive(made.aclose())
        pytest.skip(f"guests of the tier {tier} have no ctx yet")
    yield made, runtime
    drive(made.aclose())


class World:
    """What one plugin may reach, and runs of it."""

    def __init__(self, place: tuple[Backend, str], base: Path) -> None:
        self.backend, self.runtime = place
        self.root = base / "secret-place"
        (self.root / "sub").mkdir(parents=True)
        (self.root / "a.txt").write_bytes(b"inside")
        (base / "outside").write_bytes(b"from outside")
        (self.root / "link").symlink_to("../outside")
        self.log = AuditLog(str(base / "audit.db"), str(base / "audit.key"))
        self.adapters: dict[str, Adapter] = {"fs": Fs(self.root), "storage": Storage(str(base / "storage.db"))}

    def run(self, python: str, javascript: str, owner: str = "ann", **scopes: Scope) -> Report:
        given: dict[str, Scope] = scopes or {
            "fs": FsScope(read=True, write=True),
            "storage": StorageScope(quota=10_000),
        }
        gate = Gate(given, {kind: one.spec for kind, one in self.adapters.items()}, self.adapters)
        calls = RunCalls(
            gate, self.log, run="r", plugin="p", owner=owner, calls=1000, value_bytes=4 << 20,
            deadline=time.monotonic() + 60,
        )  # fmt: skip
        code = python if self.runtime == "python" else javascript
        preload = {"preload": ()} if self.runtime == "python" else {}
        request: Any = requests.make(code, {"runtime": self.runtime, "timeout": 30, **preload}, {})
        report: Report = drive(self.backend.run(request, Staged(), None, calls))
        return report

    def value(self, python: str, javascript: str, **options: Any) -> Any:
        report = self.run(python, javascript, **options)
        assert report.outcome.kind is OutcomeKind.OK, (report.outcome, report.stderr)
        return report.value


@pytest.fixture
def world(place: tuple[Backend, str], tmp_path: Path) -> Iterator[World]:
    made = World(place, tmp_path)
    yield made
    made.log.close()


def test_files(world: World) -> None:
    """Read, written, listed and deleted, each with its two records."""
    value = world.value(
        "ctx.fs.write('sub/b', b'new'); x = ctx.fs.read('a.txt'); "
        "[x, [e['name'] for e in ctx.fs.list('sub')['entries']], ctx.fs.stat('gone'), ctx.fs.delete('a.txt')]",
        "await ctx.fs.write('sub/b', new TextEncoder().encode('new')); const x = await ctx.fs.read('a.txt'); "
        "[x, (await ctx.fs.list('sub')).entries.map(e => e.name), await ctx.fs.stat('gone'), await ctx.fs.delete('a.txt')]",
    )
    assert value == [b"inside", ["b"], None, True]
    assert (world.root / "sub/b").read_bytes() == b"new"
    assert not (world.root / "a.txt").exists()
    rows = list(reading.records(world.log.path))
    assert [(row.op, row.target) for row in rows if row.phase == "intent"] == [
        ("write", "sub/b"), ("read", "a.txt"), ("list", "sub"), ("stat", "gone"), ("delete", "a.txt"),
    ]  # fmt: skip
    assert [row.phase for row in rows] == ["intent", "outcome"] * 5
    assert verify(world.log.path, world.log.key).whole


@pytest.mark.parametrize(
    "path", ["../outside", "/etc/passwd", "link", "sub/../../outside", "..\\outside", "%2e%2e/outside"]
)
def test_nothing_outside(path: str, world: World) -> None:
    """A guest gets a code and none of the host's words, and neither sees nor changes what is outside."""
    report = world.run(
        f"found = []\nfor f in (lambda: ctx.fs.read({path!r}), lambda: ctx.fs.write({path!r}, b'x')):\n"
        "  try: found.append(f())\n  except ctx.Refused as e: found.append([e.code, str(e)])\nfound",
        f"const found = []; for (const f of [() => ctx.fs.read({path!r}), () => ctx.fs.write({path!r}, 'x')]) "
        "{ try { found.push(await f()) } catch (e) { found.push([e.code, String(e)]) } } found",
    )
    assert report.outcome.kind is OutcomeKind.OK, report.stderr
    assert [code for code, _ in report.value] == ["escape", "escape"]
    assert "secret-place" not in str(report.value)
    assert (world.root.parent / "outside").read_bytes() == b"from outside"


def test_a_grant_to_read(world: World) -> None:
    """Reading works, writing is refused, and what was not granted at all is absent."""
    value = world.value(
        "try: ctx.fs.write('a.txt', b'x')\nexcept ctx.Refused as e: code = e.code\n"
        "[ctx.fs.read('a.txt'), code, getattr(ctx, 'storage', None) is None]",
        "let code; try { await ctx.fs.write('a.txt', 'x') } catch (e) { code = e.code } "
        "[await ctx.fs.read('a.txt'), code, ctx.storage === undefined]",
        fs=FsScope(read=True),
    )
    assert value == [b"inside", "read_only", True]
    assert (world.root / "a.txt").read_bytes() == b"inside"


def test_values_are_kept_between_runs(world: World) -> None:
    """The next run of the same owner finds them, another owner's does not, whatever it calls itself."""
    world.value(
        "ctx.storage.put('k', {'a': [1, b'x', 2**80]})",
        "await ctx.storage.put('k', {a: [1, new Uint8Array([120]), 2n ** 80n]})",
    )
    get = ("ctx.storage.get('k')", "await ctx.storage.get('k')")
    assert world.value(*get) == {"a": [1, b"x", 2**80]}
    assert world.value(*get, owner="bob") is None
    report = world.run(
        "ctx.storage.get(key='k', owner='ann')", "await ctx.storage.get({key: 'k', owner: 'ann'})", owner="bob"
    )
    assert report.outcome.kind is OutcomeKind.GUEST_ERROR
    assert world.value(*get) == {"a": [1, b"x", 2**80]}


def test_many_tiny_keys_meet_the_quota(world: World) -> None:
    """A guest that goes on until it is refused has stored no more than its quota."""
    stored = world.value(
        "n = 0\ntry:\n  while n < 500:\n    ctx.storage.put(str(n), b''); n += 1\nexcept ctx.Refused as e: code = e.code\n[n, code]",
        "let n = 0, code; try { while (n < 500) { await ctx.storage.put(String(n), new Uint8Array(0)); n++ } } "
        "catch (e) { code = e.code } [n, code]",
    )
    assert stored[1] == "quota"
    assert 60 < stored[0] < 10_000 / 128

"""
What a decision, a brokered call, a record and an invocation of a plugin take, measured from inside guests where that is
where it counts.

Everything is kept in a folder of its own, which is gone afterwards: databases are the real ones, on the device of the
temporary folder, and what is synced is synced there.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from fastness.audit.log import AuditLog
from fastness.audit.verify import verify
from fastness.backends import registry
from fastness.backends.base import Staged
from fastness.bench.native import missing, sampler, taken_in_turn
from fastness.bench.pace import pace
from fastness.bench.remembered import SEARCHED, remembered
from fastness.bench.rows import Row, median, percentile
from fastness.bench.scheduled import FIRED, WAITED, scheduled
from fastness.broker.calls import RunCalls
from fastness.broker.functions import Functions, HostFunction, HostScope
from fastness.broker.gate import Allowed, Gate
from fastness.broker.trail import Intent
from fastness.capabilities.storage import Storage, StorageScope
from fastness.plugins.blocking import PluginHost
from fastness.runner import request as requests
from fastness.sync import Sandbox
from fastness.tier import Tier
from fastness.waiting import ThreadWaiting, drive

#: What ``SPECIFICATION.md`` promises of the rows of this part, from above.
PROMISES = {
    "policy decision": 5,
    "storage read from inside isolated": 0.2,
    "call from inside isolated, its record synced first": 0.8,
    "10,000 audit rows verified": 1000,
    "plugin from a pool, isolated": 2,
    SEARCHED: 20,
    FIRED: 1000,
    WAITED: 10,
}
TIERS = ("isolated", "confined", "worker", "wasm")
_RECORDS = 10_000
_PLUGINS = 200
_POOL = 3
#: Seconds between two runs from a pool, which another guest is made ready in.
_GAP_S = 0.005
#: Calls that do not count: the first ones open files and warm caches.
_WARM = 50

_READ = """
import time
ctx.storage.put("key", "value")
found = []
for _ in range({count}):
    began = time.perf_counter()
    ctx.storage.get("key")
    found.append((time.perf_counter() - began) * 1e3)
found[{warm}:]
"""
_CALL = """
import time
found = []
for _ in range({count}):
    began = time.perf_counter()
    {name}(1)
    found.append((time.perf_counter() - began) * 1e3)
found[{warm}:]
"""
_PLUGIN = """
def hello(ctx, name):
    return f"hello {name}"
"""
_MANIFEST = """
id = "{id}"
version = "1.0.0"
api = 1
runtime = "python"
entry = "plugin.py"
methods = ["hello"]

[[capabilities]]
kind = "storage"
quota = 10000
reason = "Keeps what it is told."
"""


def _promised(name: str, judged: float, **fields: Any) -> Row:
    return Row(name=name, judged=judged, promise=PROMISES.get(name), **fields)


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    """A home of its own for as long as the block lasts: no plugin, grant or record of this user is touched."""
    before = os.environ.get("FASTNESS_HOME")
    with tempfile.TemporaryDirectory(prefix=f"fastness-bench-{os.getpid()}-") as folder:
        os.environ["FASTNESS_HOME"] = folder
        try:
            yield Path(folder)
        finally:
            if before is None:
                del os.environ["FASTNESS_HOME"]
            else:
                os.environ["FASTNESS_HOME"] = before


def _package(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    (made / "plugin.py").write_text(_PLUGIN)
    (made / "plugin.toml").write_text(_MANIFEST.format(id=name))
    return made


def broker(quick: bool) -> Iterator[Row]:
    """Decisions, calls from inside guests, and the trail."""
    yield _decision(quick)
    for tier in TIERS:
        if reason := missing(tier):
            yield Row(name=f"storage read from inside {tier}", note=reason)
            continue
        with tempfile.TemporaryDirectory(prefix=f"fastness-bench-{os.getpid()}-") as folder:
            yield from _calls(tier, Path(folder), quick)
    yield _verified()
    for row in (*remembered(quick), *scheduled()):
        yield msgspec.structs.replace(row, promise=PROMISES.get(row.name))


def _decision(quick: bool) -> Row:
    """One decision of the gate of a plugin whose grant is watched, as it is made for each call."""
    with _home() as home, PluginHost() as host:
        host.install(_package(home, "bench.decision"))
        host.grant("bench.decision", owner="me", all=True)
        core = host._host()._core
        _, policy = core.may("bench.decision", "me")
        gate = Gate(
            policy.scopes, core.specs, core.adapters, made_at=policy.revision,
            revision=core.store.watch("bench.decision", "me"),
        )  # fmt: skip
        decide = gate.decide
        each = 1000
        found = []
        for _ in range(20 if quick else 200):
            began = time.perf_counter()
            for _ in range(each):
                decide("storage", "get")
            found.append((time.perf_counter() - began) * 1e6 / each)
        if not isinstance(decide("storage", "get"), Allowed):
            raise RuntimeError("it was refused")
    return _promised("policy decision", median(found), value=median(found), p99=percentile(found, 0.99), unit="µs")


def _calls(tier: str, folder: Path, quick: bool) -> Iterator[Row]:
    """Calls that a guest of a tier makes one after the other; each has both its records in the end."""
    log = AuditLog(str(folder / "audit.db"), str(folder / "audit.key"))
    storage = Storage(str(folder / "storage.db"))
    functions = Functions({"near": HostFunction(_same, leaves=False), "far": HostFunction(_same, leaves=True)})
    backend = registry.make(Tier(tier), waiting=ThreadWaiting())
    adapters: dict[str, Any] = {"storage": storage, "host": functions}

    def run(code: str, count: int) -> list[float]:
        scopes = {"storage": StorageScope(quota=10_000), "host": HostScope(names=functions.names)}
        gate = Gate(scopes, {kind: one.spec for kind, one in adapters.items()}, adapters)
        calls = RunCalls(
            gate, log, run="bench", plugin="bench", owner="me", calls=count + 10, value_bytes=1 << 20,
            deadline=math.inf, here=True,
        )  # fmt: skip
        program = code.format(count=count, warm=_WARM)
        request = requests.make(program, {"timeout": 120, "preload": (), "limits": {"calls": count + 10}}, {})
        report = drive(backend.run(request, Staged(), None, calls))
        if not isinstance(report.value, list):
            raise RuntimeError(f"{report.outcome.kind.value} {report.outcome.detail}")
        return report.value

    try:
        run(_READ, 2 * _WARM)
        count = 500 if quick else 2000
        name = f"storage read from inside {tier}"
        found = [one for _ in range(2 if quick else 5) for one in run(_READ, count + _WARM)]
        yield _promised(name, median(found), value=median(found), p99=percentile(found, 0.99), pace=pace())
        for kind, words in (("near", "not synced"), ("far", "its record synced first")):
            name = f"call from inside {tier}, {words}"
            found = run(_CALL.replace("{name}", kind), count // 2 + _WARM)
            yield _promised(name, median(found), value=median(found), p99=percentile(found, 0.99), pace=pace())
    finally:
        drive(backend.aclose())
        storage._database.close()
        log.close()


async def _same(number: int) -> int:
    return number


def _verified() -> Row:
    """The whole check of a trail of ten thousand records, from its file."""
    with tempfile.TemporaryDirectory(prefix=f"fastness-bench-{os.getpid()}-") as folder:
        path, key = f"{folder}/audit.db", f"{folder}/audit.key"
        log = AuditLog(path, key)
        intent = Intent(run="bench", plugin="bench", owner="me", capability="storage", operation="get", target="key")
        for _ in range(_RECORDS // 2):
            log.done(log.intend(intent), intent, micros=10, bytes_in=5)
        log.close()
        found = []
        for _ in range(3):
            began = time.perf_counter()
            whole = verify(path, key).whole
            found.append((time.perf_counter() - began) * 1e3)
    name = "10,000 audit rows verified"
    if not whole:
        return Row(name=name, note="they did not verify")
    return _promised(name, median(found), value=median(found), p99=max(found))


def plugins(quick: bool) -> Iterator[Row]:
    """An invocation of a small plugin beside a bare run of its tier, and a host with many plugins."""
    for tier in ("isolated", "confined"):
        if reason := missing(tier):
            yield Row(name=f"plugin from a pool, {tier}", note=reason)
            continue
        with _home() as home, PluginHost(pool=_POOL) as host, Sandbox(tier=tier, pool=_POOL) as box:
            host.install(_package(home, "bench.small"))
            host.set_tier("bench.small", tier, trust="reviewed")
            host.grant("bench.small", owner="me", all=True)
            found = taken_in_turn(
                {
                    "bare": sampler(lambda: box.run("1"), _GAP_S),
                    "plugin": sampler(lambda: _hello(host), _GAP_S),
                },
                3 if quick else 10,
                10 if quick else 30,
            )
        value, bare = median(found["plugin"]), median(found["bare"])
        yield _promised(
            f"plugin from a pool, {tier}", value / bare, value=value, p99=percentile(found["plugin"], 0.99),
            against=f"a run of the tier from its pool ({bare:.2f} ms)", ratio=value / bare,
        )  # fmt: skip
    with _home() as home:
        with PluginHost() as host:
            for number in range(_PLUGINS):
                host.install(_package(home, f"bench.n{number}"))
        began = time.perf_counter()
        with PluginHost() as host:
            count = len(host.plugins())
            took = (time.perf_counter() - began) * 1e3
    if count != _PLUGINS:
        raise RuntimeError(f"{count} plugins are listed")
    yield Row(name=f"{_PLUGINS} plugins installed, host made and all listed", value=took)


def _hello(host: PluginHost) -> None:
    result = host.invoke("bench.small", "hello", {"name": "you"}, owner="me")
    if result.value != "hello you":
        raise RuntimeError(f"{result.outcome.kind.value} {result.outcome.detail}")

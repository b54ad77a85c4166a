"""``schedule`` from inside a guest of each tier: what it puts on, what is refused, and the call when it is due."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastness
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
from fastness.capabilities.schedule import Schedule, ScheduleScope
from fastness.plugins.scheduling import Fired
from fastness.runner import request as requests
from fastness.runs import OutcomeKind
from fastness.tier import Tier
from fastness.waiting import ThreadWaiting, drive
from plugin_homes import STORAGE, own_home, package, rows

PLACES = [
    ("wasm", "python"),
    ("wasm", "javascript"),
    ("isolated", "python"),
    ("confined", "python"),
    ("worker", "python"),
]
SCOPE = ScheduleScope(standing=3, interval_s=60)


def needs(tier: str, runtime: str) -> None:
    house.require(f"{runtime} guest" if tier == "wasm" else f"{tier} tier")


@pytest.fixture(scope="module", params=PLACES, ids="-".join)
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Backend, str]]:
    """A backend and a runtime."""
    tier, runtime = request.param
    needs(tier, runtime)
    made: Backend
    if tier == "wasm":
        made = WasmBackend(waiting=ThreadWaiting())
    elif tier == "worker":
        made = WorkerBackend(waiting=ThreadWaiting())
    else:
        made = NativeBackend(Tier(tier), waiting=ThreadWaiting())
    yield made, runtime
    drive(made.aclose())


class World:
    """What one plugin may schedule, and runs of it."""

    def __init__(self, place: tuple[Backend, str], base: Path) -> None:
        self.backend, self.runtime = place
        self.log = AuditLog(str(base / "audit.db"), str(base / "audit.key"))
        self.schedule = Schedule(str(base / "schedule.db"), lambda plugin: ("tell", "look"))

    def value(self, python: str, javascript: str, *, owner: str = "ann", granted: bool = True) -> Any:
        adapters: Any = {"schedule": self.schedule}
        gate = Gate({"schedule": SCOPE} if granted else {}, {"schedule": self.schedule.spec}, adapters)
        calls = RunCalls(
            gate, self.log, run="r", plugin="p", owner=owner, calls=1000, value_bytes=4 << 20,
            deadline=time.monotonic() + 60,
        )  # fmt: skip
        code = python if self.runtime == "python" else javascript
        preload = {"preload": ()} if self.runtime == "python" else {}
        request: Any = requests.make(code, {"runtime": self.runtime, "timeout": 30, **preload}, {})
        report: Report = drive(self.backend.run(request, Staged(), None, calls))
        calls.close()
        assert report.outcome.kind is OutcomeKind.OK, (report.outcome, report.stderr)
        return report.value

    def rows(self, **wanted: Any) -> list[Any]:
        assert verify(self.log.path, self.log.key).whole
        found = reading.records(self.log.path)
        return [row for row in found if all(getattr(row, name) == value for name, value in wanted.items())]


@pytest.fixture
def world(place: tuple[Backend, str], tmp_path: Path) -> Iterator[World]:
    made = World(place, tmp_path)
    yield made
    drive(made.schedule.aclose())
    made.log.close()


def test_what_is_put_on(world: World) -> None:
    """By number and by text, listed and taken off; what was forged is dropped, and counted on record."""
    value = world.value(
        "import time\nsoon = time.time() + 1000\n"
        "a = ctx.schedule.at(soon, 'tell', {'text': 'x', 'owner': 'bob', 'more': [{'approved': True, 'n': 1}]})\n"
        "b = ctx.schedule.every(seconds=90, method='look')\n"
        "found = ctx.schedule.list()['schedules']\n"
        "[a, b, [x['method'] for x in found], found[1]['every'], ctx.schedule.cancel(b), ctx.schedule.cancel(b)]",
        "const soon = Date.now() / 1000 + 1000;\n"
        "const a = await ctx.schedule.at(soon, 'tell', {text: 'x', owner: 'bob', more: [{approved: true, n: 1}]});\n"
        "const b = await ctx.schedule.every({seconds: 90, method: 'look'});\n"
        "const found = (await ctx.schedule.list()).schedules;\n"
        "[a, b, found.map(x => x.method), found[1].every, await ctx.schedule.cancel(b), await ctx.schedule.cancel(b)]",
    )
    assert value == [1, 2, ["tell", "look"], 90.0, True, False]
    (one,) = world.schedule.standing()
    assert (one.plugin, one.owner, one.method) == ("p", "ann", "tell")
    assert 900 < one.due - time.time() < 1100
    outcomes = world.rows(phase="outcome", decision="allowed")
    assert [(row.op, row.dropped) for row in outcomes] == [
        ("at", 2), ("every", 0), ("list", 0), ("cancel", 0), ("cancel", 0),
    ]  # fmt: skip
    assert [row.target for row in world.rows(op="every", phase="intent")] == ["look every 90 s"]
    assert not any("bob" in row.target for row in world.rows())


def test_what_is_refused(world: World) -> None:
    """Each with its code, and nothing stands."""
    asked: dict[str, tuple[dict[str, Any], str]] = {
        "past": ({"when": 0, "method": "tell"}, "outside"),
        "300 years": ({"when": "2326-01-01T00:00:00Z", "method": "tell"}, "outside"),
        "local": ({"when": "2026-10-25T02:30:00", "method": "tell"}, "unsupported"),
        "others": ({"when": "2026-10-25T02:30:00Z", "method": "shutdown"}, "absent"),
    }
    python = "import time\ncodes = []\n"
    javascript = "const codes = [];\n"
    for given, _ in asked.values():
        python += f"try: ctx.schedule.at(**{given!r})\nexcept ctx.Refused as e: codes.append(e.code)\n"
        javascript += f"try {{ await ctx.schedule.at({given!r}) }} catch (e) {{ codes.push(e.code) }}\n"
    python += "try: ctx.schedule.every(0, 'tell')\nexcept ctx.Refused as e: codes.append(e.code)\n"
    javascript += "try { await ctx.schedule.every(0, 'tell') } catch (e) { codes.push(e.code) }\n"
    many = "ctx.schedule.every(60, 'tell')"
    python += f"try:\n  while True: {many}\nexcept ctx.Refused as e: codes.append(e.code)\ncodes"
    javascript += f"try {{ while (true) await {many} }} catch (e) {{ codes.push(e.code) }}\ncodes"
    assert world.value(python, javascript) == [*(code for _, code in asked.values()), "rate", "quota"]
    assert [one.every for one in world.schedule.standing()] == [60.0] * 3


def test_what_others_have(world: World) -> None:
    """It is not listed, and not taken off."""
    put = "ctx.schedule.every(60, 'tell')"
    assert world.value(put, f"await {put}", owner="bob") == 1
    value = world.value(
        "[ctx.schedule.list()['schedules'], ctx.schedule.cancel(1)]",
        "[(await ctx.schedule.list()).schedules, await ctx.schedule.cancel(1)]",
    )
    assert value == [[], False]
    assert [one.owner for one in world.schedule.standing()] == ["bob"]


def test_what_was_not_granted(world: World) -> None:
    """It is absent."""
    value = world.value("getattr(ctx, 'schedule', None) is None", "ctx.schedule === undefined", granted=False)
    assert value is True


PYTHON = """
import time

def begin(ctx, word):
    ctx.schedule.at(time.time(), "tell", {"word": word, "action": "pay"})

def tell(ctx, word):
    ctx.storage.put("word", word)
    return word
"""
JAVASCRIPT = """
export async function begin(ctx, {word}) {
    await ctx.schedule.at(Date.now() / 1000, "tell", {word, action: "pay"});
}

export async function tell(ctx, {word}) {
    await ctx.storage.put("word", word);
    return word;
}
"""


@pytest.mark.parametrize(("tier", "runtime"), PLACES)
def test_called_when_it_is_due(tier: str, runtime: str, tmp_path: Path) -> None:
    """In the plugin's tier, with what it may do there."""
    needs(tier, runtime)
    (tmp_path / "home").mkdir(mode=0o700)
    fired: list[Fired] = []
    wants = [STORAGE, {"kind": "schedule", "standing": 2, "interval_s": 1.0, "reason": "calls itself"}]
    code = PYTHON if runtime == "python" else JAVASCRIPT
    with own_home(tmp_path / "home") as base, fastness.PluginHost(schedule=True, on_fired=fired.append) as host:
        host.install(package(tmp_path / "source", code, wants, runtime=runtime, methods=["begin", "tell"]))
        if runtime == "python":
            host.set_tier("hello", tier, trust="reviewed")
        host.grant("hello", owner="ann", all=True)
        host.invoke("hello", "begin", {"word": "due"}, owner="ann").raise_for_outcome()
        ends = time.monotonic() + 60
        while not fired:
            assert time.monotonic() < ends
            time.sleep(0.01)
        (row,) = [row for row in rows(base, op="at") if row.phase == "outcome"]
    assert fired[0].result is not None
    assert (fired[0].result.value, fired[0].result.tier, fired[0].code) == ("due", tier, "")
    assert row.dropped == 1


def test_what_the_page_says(world: World) -> None:
    """Its programs do what stands beside them."""
    if world.runtime != "python":
        pytest.skip("they are in Python")
    text = (Path(__file__).parents[2] / "docs" / "schedule.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(def .*?)```", text, re.DOTALL)
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    assert world.value(f"{block}\n[remind(ctx, 'tea', {when!r}), watch(ctx)]", "") == [1, 2]
    assert [(one.method, one.every) for one in world.schedule.standing()] == [("tell", None), ("look", 3600.0)]

"""``signals`` from inside a guest of each tier: sent, taken and refused there, and methods that are called by them."""

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
from fastness.capabilities.signals import Signals, SignalsScope
from fastness.metering.ledger import Ledger
from fastness.metering.meter import Meter
from fastness.runner import request as requests
from fastness.runs import OutcomeKind
from fastness.tier import Tier
from fastness.waiting import ThreadWaiting, drive
from plugin_homes import own_home, package, rows

PLACES = [
    ("wasm", "python"),
    ("wasm", "javascript"),
    ("isolated", "python"),
    ("confined", "python"),
    ("worker", "python"),
]
SCOPE = SignalsScope(publish=("news.*",), subscribe=("news.*", "more"), queue=6, signal_bytes=1000)
RECEIVERS = {"ann": [("p", SCOPE), ("q", SCOPE)], "bob": [("p", SCOPE)]}


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
    yield made, runtime
    drive(made.aclose())


class World:
    """What plugins may send and receive, and runs of them."""

    def __init__(self, place: tuple[Backend, str], base: Path) -> None:
        self.backend, self.runtime = place
        self.base = base
        self.log = AuditLog(str(base / "audit.db"), str(base / "audit.key"))
        self.ledger = Ledger(str(base / "usage.db"))
        self.signals = Signals(str(base / "signals.db"), lambda owner: RECEIVERS.get(owner, ()))
        self.count = 0

    def value(
        self, python: str, javascript: str, *, granted: bool = True, plugin: str = "p", owner: str = "ann"
    ) -> Any:
        self.count += 1
        scopes = {"signals": SCOPE} if granted else {}
        gate = Gate(scopes, {"signals": self.signals.spec}, {"signals": self.signals})
        meter = Meter(self.ledger, plugin, owner)
        calls = RunCalls(
            gate, self.log, run=f"run {self.count}", plugin=plugin, owner=owner, calls=1000, value_bytes=4 << 20,
            deadline=time.monotonic() + 60, meter=meter,
        )  # fmt: skip
        code = python if self.runtime == "python" else javascript
        preload = {"preload": ()} if self.runtime == "python" else {}
        request: Any = requests.make(code, {"runtime": self.runtime, "timeout": 30, **preload}, {})
        report: Report = drive(self.backend.run(request, Staged(), None, calls))
        calls.close()
        meter.end(report.usage.cpu_s)
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
    made.log.close()


def test_sent_and_taken(world: World) -> None:
    """By one plugin and another; without the fields that only the host may say, which are counted; all on record."""
    value = world.value(
        "[ctx.signals.publish('news.a', {'text': 'marrowbone', 'owner': 'bob', 'in': [{'approved': True, 'n': 1}]}), ctx.signals.publish('news.b'), ctx.signals.take()]",
        "[await ctx.signals.publish('news.a', {text: 'marrowbone', owner: 'bob', in: [{approved: true, n: 1}]}), await ctx.signals.publish({topic: 'news.b'}), await ctx.signals.take()]",
    )
    assert value == [{"queued": 2, "dropped": 0}] * 2 + [{"signals": [], "dropped": 0, "more": False}]
    value = world.value(
        "got = ctx.signals.take(most=1); [got['more'], got['signals'], [x['topic'] for x in ctx.signals.take()['signals']]]",
        "const got = await ctx.signals.take(1); [got.more, got.signals, (await ctx.signals.take()).signals.map(x => x.topic)]",
        plugin="q",
    )
    (signal,) = value[1]
    assert abs(signal.pop("at") - time.time()) < 60
    assert signal == {"topic": "news.a", "sender": "p", "data": {"text": "marrowbone", "in": [{"n": 1}]}}
    assert (value[0], value[2]) == (True, ["news.b"])
    assert [(row.op, row.target) for row in world.rows(phase="intent")] == [
        ("publish", "news.a"), ("publish", "news.b"), ("take", ""), ("take", ""), ("take", ""),
    ]  # fmt: skip
    assert [row.dropped for row in world.rows(op="publish", phase="outcome")] == [2, 0]
    assert not any(b"marrowbone" in path.read_bytes() for path in world.base.glob("audit*") if path.is_file())
    assert {row.plugin: row.calls for row in world.ledger.used(owner="ann") if row.kind == "signals"} == {
        "p": 3,
        "q": 2,
    }


def test_refusals(world: World) -> None:
    """Topics that were not granted, too much data, words that are no topic, and fields that name somebody else."""
    value = world.value(
        "codes = []\n"
        "for given in ({'topic': 'more'}, {'topic': 'news'}, {'topic': 'news.a', 'data': 'x' * 1000}, {'topic': 'news.*'}, {'topic': 'NEWS.a'}, {'topic': 'news.a\\n'}):\n"
        "  try: codes.append(ctx.signals.publish(**given))\n  except ctx.Refused as e: codes.append(e.code)\n"
        "for name in ('owner', 'sender', 'hop'):\n"
        "  try: codes.append(ctx.signals.publish(**{'topic': 'news.a', name: 'bob'}))\n  except (ctx.Refused, TypeError): codes.append('none')\ncodes",
        "const codes = [];\n"
        "for (const given of [{topic: 'more'}, {topic: 'news'}, {topic: 'news.a', data: 'x'.repeat(1000)}, {topic: 'news.*'}, {topic: 'NEWS.a'}, {topic: 'news.a\\n'}]) "
        "try { codes.push(await ctx.signals.publish(given)) } catch (e) { codes.push(e.code) }\n"
        "for (const name of ['owner', 'sender', 'hop']) try { codes.push(await ctx.signals.publish({topic: 'news.a', [name]: 'bob'})) } catch (e) { codes.push('none') }\ncodes",
    )
    assert value == ["not_granted", "not_granted", "too_large", "invalid", "invalid", "invalid", "none", "none", "none"]
    assert world.signals.queues() == []


def test_a_storm(world: World) -> None:
    """One sender has half of a queue; and one run sends no more than what leads to so many signals."""
    value = world.value(
        "n = full = 0\ntry:\n  while n < 1000: full += ctx.signals.publish('news.a')['dropped']; n += 1\nexcept ctx.Refused as e: code = e.code\n[n, full, code]",
        "let n = 0, full = 0, code; try { while (n < 1000) { full += (await ctx.signals.publish('news.a')).dropped; n++ } } catch (e) { code = e.code } [n, full, code]",
    )
    assert value == [128, 125, "quota"]
    value = world.value(
        "got = ctx.signals.take(); [len(got['signals']), got['dropped'], ctx.signals.take()['dropped']]",
        "const got = await ctx.signals.take(); [got.signals.length, got.dropped, (await ctx.signals.take()).dropped]",
        plugin="q",
    )
    assert value == [3, 125, 0]


def test_those_of_others(world: World) -> None:
    """Another owner's are not there, nor those of another plugin."""
    world.signals.publish("bob", "news.a", "secret")
    value = world.value("ctx.signals.take()['signals']", "(await ctx.signals.take()).signals", plugin="q")
    assert value == []
    value = world.value(
        "[x['data'] for x in ctx.signals.take()['signals']]",
        "(await ctx.signals.take()).signals.map(x => x.data)",
        owner="bob",
    )
    assert value == ["secret"]


def test_what_the_page_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plugin of the page, called by its program, prints what stands beside it; and the other one sends."""
    house.require("isolated tier")
    page = (Path(__file__).parents[2] / "docs" / "signals.md").read_text()
    blocks = dict.fromkeys(re.findall(r"```(\w*)\n(.*?)```", page, re.DOTALL))
    (manifest,) = [text for language, text in blocks if language == "toml"]
    send, count, program = [text for language, text in blocks if language == "python"]
    (printed, _) = [text for language, text in blocks if not language]
    (tmp_path / "counter").mkdir()
    (tmp_path / "counter" / "plugin.toml").write_text(manifest)
    (tmp_path / "counter" / "counter.py").write_text(count)
    wish = {"kind": "signals", "publish": ["notes.*"], "reason": "To tell."}
    with own_home(tmp_path / "home"):
        with fastness.PluginHost() as host:
            host.install(tmp_path / "counter")
            host.install(package(tmp_path / "notes", send, [wish], id="notes", methods=["save"]))
            host.grant("notes", owner="alice", all=True)
            host.grant("counter", owner="alice", all=True)
            assert host.invoke("notes", "save", {"text": "x"}, owner="alice").value == {"queued": 2, "dropped": 0}
            assert [made.result and made.result.value for made in host.deliver()] == ["1 words from notes"]
        capsys.readouterr()
        exec(compile(program, "signals.md", "exec"), {})
    assert capsys.readouterr().out == printed


def test_what_was_not_granted(world: World) -> None:
    """It is absent."""
    assert world.value("getattr(ctx, 'signals', None) is None", "ctx.signals === undefined", granted=False) is True


CODE = """
def tell(ctx, text):
    return ctx.signals.publish("news.text", {"text": text})

def hear(ctx, signal):
    return [signal["topic"], signal["sender"], signal["data"], sorted(signal)]
"""
JAVASCRIPT = """
export const tell = (ctx, { text }) => ctx.signals.publish("news.text", { text });
export const hear = (ctx, { signal }) => [signal.topic, signal.sender, signal.data, Object.keys(signal).sort()];
"""
WISH = {
    "kind": "signals",
    "publish": ["news.*"],
    "subscribe": ["news.*"],
    "handlers": [{"topic": "news.*", "method": "hear"}],
    "reason": "To tell.",
}


@pytest.mark.parametrize(("tier", "runtime"), PLACES)
def test_methods_are_called(tier: str, runtime: str, tmp_path: Path) -> None:
    """With what another plugin sent, in a guest of that tier."""
    house.require(f"{runtime} guest" if tier == "wasm" else f"{tier} tier")
    with own_home(tmp_path / "home") as base, fastness.PluginHost() as host:
        for id in ("one", "two"):
            code = CODE if runtime == "python" else JAVASCRIPT
            host.install(package(tmp_path / id, code, [WISH], id=id, runtime=runtime, methods=["tell", "hear"]))
            if runtime == "python":
                host.set_tier(id, tier, trust="reviewed")
            host.grant(id, owner="ann", all=True)
        result = host.invoke("one", "tell", {"text": "tea"}, owner="ann")
        assert (result.value, result.tier) == ({"queued": 2, "dropped": 0}, tier)
        (made,) = host.deliver()
        assert made.result is not None
        assert (made.plugin, made.result.tier) == ("two", tier)
        assert made.result.value == ["news.text", "one", {"text": "tea"}, ["at", "data", "sender", "topic"]]
        assert [row.target for row in rows(base, op="deliver")] == ["news.text from one, hop 1"]

"""``llm`` and ``memory`` from inside a guest of each tier, on a real service, ledger, folder and trail."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import house
import models
from fastness.audit import reading
from fastness.audit.log import AuditLog
from fastness.audit.verify import verify
from fastness.backends.base import Backend, Report, Staged
from fastness.backends.native import NativeBackend
from fastness.backends.wasm import WasmBackend
from fastness.backends.worker import WorkerBackend
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.capabilities.llm import Llm, LlmScope
from fastness.capabilities.memory import Memory, MemoryScope
from fastness.capability import Adapter, Scope
from fastness.metering.ledger import Ledger
from fastness.metering.meter import Meter
from fastness.metering.quotas import Quota
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
LLM = LlmScope(tiers=("cheap", "strong"), budget=50.0, max_tokens=500)
MEMORY = MemoryScope(notes=100, quota=100_000)


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
    """What one plugin may ask and remember, and runs of it."""

    def __init__(self, place: tuple[Backend, str], base: Path) -> None:
        self.backend, self.runtime = place
        self.base = base
        (base / "memory").mkdir(mode=0o700)
        self.said: dict[str, Any] = {}
        self.server = models.Models(lambda asked: self.said)
        self.log = AuditLog(str(base / "audit.db"), str(base / "audit.key"))
        self.ledger = Ledger(str(base / "usage.db"))
        self.memory = Memory(str(base / "memory"))
        key = models.key_file(base)
        self.adapters: dict[str, Adapter] = {
            "llm": Llm(self.server.settings(), self.ledger, key=key),
            "memory": self.memory,
        }
        self.calls: RunCalls | None = None

    def run(self, python: str, javascript: str, *scopes: Scope, owner: str = "ann", **how: Any) -> Report:
        given: dict[str, Scope] = {"llm": LLM, "memory": MEMORY} if not scopes else {}
        given |= {str(type(scope).__struct_config__.tag): scope for scope in scopes}
        gate = Gate(given, {kind: one.spec for kind, one in self.adapters.items()}, self.adapters)
        meter = Meter(how.pop("ledger", self.ledger), "p", owner)
        self.calls = calls = RunCalls(
            gate, self.log, run="r", plugin="p", owner=owner, calls=1000, value_bytes=4 << 20,
            deadline=time.monotonic() + 60, meter=meter,
        )  # fmt: skip
        code = python if self.runtime == "python" else javascript
        preload = {"preload": ()} if self.runtime == "python" else {}
        request: Any = requests.make(code, {"runtime": self.runtime, "timeout": 30, **preload}, {})
        report: Report = drive(self.backend.run(request, Staged(), None, calls))
        calls.close()
        meter.end(report.usage.cpu_s)
        return report

    def value(self, python: str, javascript: str, *scopes: Scope, **options: Any) -> Any:
        report = self.run(python, javascript, *scopes, **options)
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
    made.server.close()


def test_a_question(world: World) -> None:
    """It is answered, and its cost is told, counted and on record; no word of it is in any record."""
    value = world.value(
        "r = ctx.llm.ask('what is marrowbone?', tier='strong', max_tokens=100); [r['text'], r['tokens_out'], r['cost']]",
        "const r = await ctx.llm.ask({prompt: 'what is marrowbone?', tier: 'strong', max_tokens: 100}); [r.text, r.tokens_out, r.cost]",
    )
    assert value == ["echo: what is marrowbone?", 6, 0.022]
    assert world.calls is not None
    assert world.calls.cost == 22_000_000
    intent, outcome = world.rows(capability="llm")
    assert (intent.op, intent.target, intent.phase, intent.cost) == ("ask", "strong", "intent", 0)
    assert (outcome.target, outcome.code, outcome.cost) == ("strong", "", 22_000_000)
    assert not any(b"marrowbone" in path.read_bytes() for path in world.base.glob("audit*") if path.is_file())
    (row,) = [row for row in world.ledger.used(owner="ann") if row.kind == "llm" and row.calls]
    assert (row.calls, row.cost, row.bytes_out) == (1, 22_000_000, len("what is marrowbone?"))


@pytest.mark.parametrize("tier", ["gpt-4", "large-1", "standard", "../strong"])
def test_another_tier(tier: str, world: World) -> None:
    """A model's name is no tier, and a tier that was not granted is refused; nothing is asked."""
    value = world.value(
        f"try: ctx.llm.ask('x', tier={tier!r})\nexcept ctx.Refused as e: code = e.code\ncode",
        f"let code; try {{ await ctx.llm.ask({{prompt: 'x', tier: {tier!r}}}) }} catch (e) {{ code = e.code }} code",
    )
    assert value == ("not_granted" if tier == "standard" else "invalid")
    assert world.server.asked == []


def test_a_stream(world: World) -> None:
    """It is read to its end, piece by piece."""
    world.said = {"pieces": ["one ", "two ", "three"]}
    value = world.value(
        "n = ctx.llm.stream([{'role': 'user', 'content': 'x'}], 'strong'); out = []\n"
        "while True:\n  got = ctx.llm.read(n); out.append(got['text'])\n  if got['done']: break\n"
        "[''.join(out), got['finish'], got['tokens_out'], ctx.llm.close(n)]",
        "const n = await ctx.llm.stream([{role: 'user', content: 'x'}], 'strong'); const out = []; let got; "
        "do { got = await ctx.llm.read(n); out.push(got.text) } while (!got.done); "
        "[out.join(''), got.finish, got.tokens_out, await ctx.llm.close(n)]",
    )
    assert value == ["one two three", "stop", 1, False]
    assert sum(row.cost for row in world.rows(capability="llm")) == 12_000_000
    assert {row.op for row in world.rows(capability="llm")} == {"stream", "read", "close"}


def test_a_stream_that_is_left_open(world: World) -> None:
    """It ends with its run, which is on record with what it cost: all that was held."""
    world.said = {"pieces": ["one ", lambda: world.server.closing.wait(20), "two"]}
    value = world.value(
        "n = ctx.llm.stream([{'role': 'user', 'content': 'x'}], 'strong', 100); ctx.llm.read(n)['done']",
        "const n = await ctx.llm.stream([{role: 'user', content: 'x'}], 'strong', 100); (await ctx.llm.read(n)).done",
    )
    assert value is False
    held = 81_000_000 + 200_000_000
    assert world.calls is not None
    assert world.calls.cost == held
    outcome = world.rows(capability="llm", op="close", phase="outcome")
    assert [(row.target, row.cost) for row in outcome] == [("strong", held)]
    # The number means nothing to the next run.
    value = world.value(
        "try: ctx.llm.read(1)\nexcept ctx.Refused as e: code = e.code\ncode",
        "let code; try { await ctx.llm.read(1) } catch (e) { code = e.code } code",
    )
    assert value == "absent"


def test_many_questions_at_once(world: World) -> None:
    """As many as a guest can have under way hold no more than the budget together."""
    world.said = {"before": lambda: time.sleep(0.1)}
    value = world.value(
        "import asyncio\nasync def one():\n  try: await ctx.llm.ask('x', tier='strong', max_tokens=100); return 'ok'\n"
        "  except ctx.Refused as e: return e.code\nasync def every():\n  return await asyncio.gather(*(one() for _ in range(16)))\n"
        "found = asyncio.run(every())\n[found.count('ok'), found.count('quota')]",
        "const one = async () => { try { await ctx.llm.ask({prompt: 'x', tier: 'strong', max_tokens: 100}); return 'ok' } catch (e) { return e.code } }; "
        "const found = await Promise.all(Array.from({length: 16}, one)); "
        "[found.filter(x => x === 'ok').length, found.filter(x => x === 'quota').length]",
        LlmScope(tiers=("strong",), budget=1.0, max_tokens=100),
    )
    assert sum(value) == 16
    assert value[0] == len(world.server.asked)
    spent = sum(row.cost for row in world.ledger.used())
    assert 0 < spent <= 1_000_000_000
    assert value[1] > 0


def test_notes(world: World) -> None:
    """Kept, found and forgotten; no word of them is in any record."""
    value = world.value(
        "n = ctx.memory.add('the marrowbone is in the shed', ['house']); ctx.memory.add('other')\n"
        "found = ctx.memory.search('MARROWBONE shed')['notes']\n"
        "[found[0]['id'] == n, found[0]['tags'], ctx.memory.get(n)['text'], ctx.memory.update(n, tags=[]), ctx.memory.delete(n), "
        "ctx.memory.search('marrowbone')['notes'], [x['excerpt'] for x in ctx.memory.list()['notes']]]",
        "const n = await ctx.memory.add('the marrowbone is in the shed', ['house']); await ctx.memory.add('other');\n"
        "const found = (await ctx.memory.search('MARROWBONE shed')).notes;\n"
        "[found[0].id === n, found[0].tags, (await ctx.memory.get(n)).text, await ctx.memory.update({id: n, tags: []}), await ctx.memory.delete(n), "
        "(await ctx.memory.search('marrowbone')).notes, (await ctx.memory.list()).notes.map(x => x.excerpt)]",
    )
    assert value == [True, ["house"], "the marrowbone is in the shed", True, True, [], ["other"]]
    assert [(row.op, row.target) for row in world.rows(phase="intent")] == [
        ("add", ""), ("add", ""), ("search", ""), ("get", "1"), ("update", "1"), ("delete", "1"), ("search", ""), ("list", ""),
    ]  # fmt: skip
    assert not any(b"marrowbone" in path.read_bytes() for path in world.base.glob("audit*") if path.is_file())


def test_notes_of_others(world: World) -> None:
    """Another owner's are not found, by words, by numbers, or by naming the owner."""
    world.value("ctx.memory.add('secret of bob')", "await ctx.memory.add('secret of bob')", owner="bob")
    value = world.value(
        "found = [ctx.memory.search('secret'), ctx.memory.get(1), ctx.memory.list()['notes'], ctx.memory.delete(1)]\n"
        "for words in ({'words': 'secret', 'owner': 'bob'}, {'words': 'secret', 'of': 'owner'}, {'words': 'secret', 'plugin': 'p'}):\n"
        "  try: found.append(ctx.memory.search(**words))\n  except TypeError: found.append('none')\nfound",
        "const found = [await ctx.memory.search('secret'), await ctx.memory.get(1), (await ctx.memory.list()).notes, await ctx.memory.delete(1)];\n"
        "for (const words of [{words: 'secret', owner: 'bob'}, {words: 'secret', of: 'owner'}, {words: 'secret', plugin: 'p'}]) "
        "try { found.push(await ctx.memory.search(words)) } catch (e) { found.push('none') } found",
    )
    assert value == [{"notes": [], "more": False}, None, [], False, "none", "none", "none"]
    assert [note["text"] for note in world.memory.export("bob")] == ["secret of bob"]


def test_what_the_pages_say(world: World) -> None:
    """The programs of the pages on models and memory do what stands beside them."""
    if world.runtime != "python":
        pytest.skip("they are in Python")
    docs = Path(__file__).parents[2] / "docs"
    blocks = [
        re.findall(r"```python\n(def .*?)```", (docs / page).read_text(), re.DOTALL) for page in ("llm.md", "memory.md")
    ]
    (summary, tell), (remember,) = blocks
    every = LlmScope(tiers=("cheap", "standard"), budget=5.0)
    assert world.value(summary + "summary(ctx, 'much text')", "", every) == "echo: much text"
    assert world.server.asked[-1]["messages"][0] == {"role": "system", "content": "Say it in one sentence."}
    assert world.value(tell + "tell(ctx, 'a tale')", "", every) == "echo: a tale"
    assert (
        world.value(summary + "summary(ctx, 'x')", "", LlmScope(tiers=("strong",), budget=5.0))
        == "could not: not_granted"
    )
    world.value(remember + "remember(ctx, 'tea is in the tin')", "")
    assert world.value(remember + "remember(ctx, 'more tea')", "") == ["more tea", "tea is in the tin"]


def test_a_quota_of_calls(world: World) -> None:
    """Of an owner's calls so many are let through as the operator said; the next is refused, and each run after it."""
    ledger = Ledger(str(world.base / "bounded.db"), [Quota(owner="*", calls=20)])
    tell = (
        "n = 0\ntry:\n  while n < 100: ctx.memory.list(); n += 1\nexcept ctx.Refused as e: code = e.code\n[n, code]",
        "let n = 0, code; try { while (n < 100) { await ctx.memory.list(); n++ } } catch (e) { code = e.code } [n, code]",
    )
    assert world.value(*tell, ledger=ledger) == [20, "quota"]
    assert world.value(*tell, ledger=ledger) == [0, "quota"]
    assert world.value(*tell, ledger=ledger, owner="bob") == [20, "quota"]
    assert [(row.code, row.phase) for row in world.rows(decision="refused")] == [("quota", "intent")] * 3


def test_what_was_not_granted(world: World) -> None:
    """It is absent."""
    value = world.value(
        "[getattr(ctx, 'llm', None) is None, getattr(ctx, 'memory', None) is None]",
        "[ctx.llm === undefined, ctx.memory === undefined]",
        MEMORY,
    )
    assert value == [True, False]

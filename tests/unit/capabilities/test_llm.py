"""The capability ``llm``: what is asked, what it costs, and what a service may say about that."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import house
import listeners
import models
from fastness.capabilities.llm import SPEC, Llm, LlmScope
from fastness.capability import CallContext
from fastness.errors import AdapterError, Denied, QuotaExceeded
from fastness.metering.ledger import Ledger
from fastness.metering.money import UNIT
from fastness.metering.quotas import Quota, today
from fastness.testing import Case, check_capability

EVERY = LlmScope(tiers=("cheap", "standard", "strong"), budget=100.0, max_tokens=2048)


@pytest.fixture(autouse=True)
def _only_here() -> Iterator[None]:
    with listeners.nothing_leaves():
        yield


@pytest.fixture
def server() -> Iterator[models.Models]:
    made = models.Models()
    yield made
    made.close()


def serving(request: pytest.FixtureRequest, say: models.Say) -> models.Models:
    made = models.Models(say)
    request.addfinalizer(made.close)
    return made


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(str(tmp_path / "usage.db"))
    yield made
    made.close()


def context(scope: LlmScope = EVERY, **fields: Any) -> CallContext:
    given = {"plugin": "p", "owner": "o", "run": "r", "deadline": time.monotonic() + 20}
    return CallContext(scope=scope, **{**given, **fields})


def decoded(operation: str, arguments: dict[str, Any]) -> Any:
    found = SPEC.operation(operation)
    assert found is not None
    return msgspec.convert(arguments, found.arguments, strict=True, builtin_types=(bytes,))


def ask(llm: Llm, operation: str = "ask", of: CallContext | None = None, **arguments: Any) -> Any:
    return asyncio.run(llm.call(operation, decoded(operation, arguments), of or context()))


def spent(ledger: Ledger, plugin: str = "p", owner: str = "o") -> int:
    """Billionths that count as spent: used, and held."""
    rows = ledger.used(plugin=plugin, owner=owner)
    return sum(row.cost + (row.held.cost if row.held is not None else 0) for row in rows)


def disputed(ledger: Ledger) -> int:
    return sum(row.disputed for row in ledger.used())


# what is asked


def test_a_question(server: models.Models, ledger: Ledger, tmp_path: Path) -> None:
    """The tier's model is asked with the host's credential; the guest hears of neither."""
    llm = Llm(server.settings(), ledger, key=models.key_file(tmp_path))
    of = context()
    got = ask(
        llm, of=of, prompt="what is it?", system="be brief", tier="strong", max_tokens=50, temperature=0.5, stop=["."]
    )
    assert got == {"text": "echo: what is it?", "finish": "stop", "tokens_in": 10, "tokens_out": 4, "cost": 0.018}
    (asked,) = server.asked
    assert asked == {
        "model": "large-1",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "what is it?"}],
        "max_tokens": 50,
        "n": 1,
        "stream": False,
        "temperature": 0.5,
        "stop": ["."],
    }
    assert server.lines == ["POST /v1/chat/completions HTTP/1.1"]
    assert server.fields()["authorization"] == f"Bearer {models.KEY}"
    assert server.fields()["host"] == f"models.test:{server.port}"
    assert (of.cost, spent(ledger)) == (18_000_000, 18_000_000)
    assert (of.bytes_out, of.bytes_in) == (len("what is it?be brief"), len(got["text"]))


def test_a_conversation(server: models.Models, ledger: Ledger) -> None:
    """Messages go as they are; without a key no credential is sent, and what is not said is not sent."""
    llm = Llm(server.settings(limit="max_completion_tokens"), ledger)
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    assert ask(llm, "chat", messages=messages)["text"] == "echo: c"
    assert server.asked[0]["messages"] == messages
    assert server.asked[0]["max_completion_tokens"] == 1024
    assert not {"temperature", "stop", "max_tokens"} & set(server.asked[0])
    assert "authorization" not in server.fields()


@pytest.mark.parametrize(
    "arguments",
    [
        {"prompt": "x", "tier": "large-1"},
        {"prompt": "x", "tier": "gpt-4"},
        {"prompt": "x", "tier": "strong/../large-1"},
        {"prompt": "x", "tier": ["cheap"]},
        {"prompt": "x", "tier": "Cheap"},
        {"prompt": "x", "tier": "cheap\0"},
        {"prompt": "x", "model": "large-1"},
        {"prompt": "x", "n": 100},
        {"prompt": "x", "stream": True},
        {"prompt": "x", "max_tokens": 0},
        {"prompt": "x", "max_tokens": -1},
        {"prompt": "x", "max_tokens": 10**7},
        {"prompt": "x", "max_tokens": 1.5},
        {"prompt": "x", "temperature": float("nan")},
        {"prompt": "x", "temperature": float("inf")},
        {"prompt": {"role": "user"}},
        {"prompt": b"x"},
        {},
    ],
    ids=repr,
)
def test_what_is_no_question(arguments: dict[str, Any]) -> None:
    """A model's name is no tier, and there is no argument beside those that there are."""
    with pytest.raises(msgspec.ValidationError):
        decoded("ask", arguments)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "tool", "content": "x"}],
        [{"role": "user", "content": "x", "name": "y"}],
        [{"role": "user", "content": [{"type": "image_url"}]}],
        [{"role": "user"}],
        "x",
        [{"role": "user", "content": "x"}] * 257,
    ],
    ids=lambda one: repr(one)[:40],
)
def test_what_is_no_conversation(messages: Any) -> None:
    """Messages have a role of three and a text, and nothing else."""
    with pytest.raises(msgspec.ValidationError):
        decoded("chat", {"messages": messages})


def test_what_the_grant_does_not_allow(server: models.Models, ledger: Ledger) -> None:
    """A tier, or more tokens, beyond the scope is refused, and nothing is asked or held."""
    llm = Llm(server.settings(), ledger)
    cheap = LlmScope(tiers=("cheap",), budget=1.0, max_tokens=100)
    for code, arguments in (
        ("not_granted", {"tier": "strong"}),
        ("too_large", {"max_tokens": 101}),
        ("unsupported", {"prompt": "\ud800"}),
    ):
        with pytest.raises(Denied) as caught:
            ask(llm, of=context(cheap), **{"prompt": "x", **arguments})
        assert caught.value.code.value == code
    with pytest.raises(Denied) as caught:
        ask(llm, of=context(LlmScope(tiers=("cheap",))), prompt="x")
    assert caught.value.code.value == "not_granted"
    assert (server.asked, ledger.used()) == ([], [])


def test_a_tier_without_a_model(server: models.Models, ledger: Ledger) -> None:
    """It is not replaced by another."""
    settings = server.settings(tiers={"cheap": models.PRICES["cheap"]})
    with pytest.raises(Denied) as caught:
        ask(Llm(settings, ledger), prompt="x", tier="strong")
    assert (caught.value.code.value, server.asked) == ("no_adapter", [])


# money


def test_what_is_held_meanwhile(request: pytest.FixtureRequest, ledger: Ledger) -> None:
    """While the service answers, the most that it may cost counts as spent; it is on record before it is asked."""
    seen: list[int] = []
    server = serving(request, lambda asked: {"before": lambda: seen.append(spent(Ledger(ledger.path)))})
    ask(Llm(server.settings(), ledger), prompt="x" * 1000, tier="strong", max_tokens=100)
    # 1000 bytes and what is around them, and 100 tokens.
    assert seen == [(1000 + 64 + 16) * 1_000_000 + 100 * 2_000_000]
    assert 0 < spent(ledger) < seen[0]


def test_a_budget_is_never_passed(server: models.Models, ledger: Ledger) -> None:
    """Questions go as long as the most that they can cost is left, and not one further."""
    llm = Llm(server.settings(), ledger)
    scope = LlmScope(tiers=("strong",), budget=0.5, max_tokens=100)
    asked = 0
    with pytest.raises(QuotaExceeded):
        while asked < 100:
            ask(llm, of=context(scope), prompt="x", tier="strong", max_tokens=100)
            asked += 1
    assert 0 < asked == len(server.asked)
    assert spent(ledger) <= UNIT // 2
    # Another owner's is another one, and so is the next day's.
    ask(llm, of=context(scope, owner="other"), prompt="x", tier="strong", max_tokens=100)
    tomorrow = Ledger(ledger.path, clock=lambda: time.time() + 86_400)
    ask(Llm(server.settings(), tomorrow), of=context(scope), prompt="x", tier="strong", max_tokens=100)


def test_fifty_at_once(request: pytest.FixtureRequest, ledger: Ledger) -> None:
    """Fifty questions that are under way together hold no more than the budget, and those beyond are not sent."""
    server = serving(request, lambda asked: {"before": lambda: time.sleep(0.2)})
    llm = Llm(server.settings(), ledger)
    scope = LlmScope(tiers=("strong",), budget=2.0, max_tokens=100)

    async def one() -> str:
        try:
            await llm.call("ask", decoded("ask", {"prompt": "x", "tier": "strong", "max_tokens": 100}), context(scope))
        except QuotaExceeded:
            return "refused"
        return "ok"

    async def every() -> list[str]:
        return await asyncio.gather(*(one() for _ in range(50)))

    ended = asyncio.run(every())
    # Each holds 281 thousandths: seven fit.
    assert (ended.count("ok"), ended.count("refused")) == (7, 43)
    assert len(server.asked) == 7
    assert spent(ledger) <= 2 * UNIT


_OTHER = """
import asyncio, sys, time, msgspec
from fastness.capabilities.llm import Llm, LlmScope, Ask
from fastness.capabilities._llm_settings import settings_of
from fastness.capability import CallContext
from fastness.errors import QuotaExceeded
from fastness.metering.ledger import Ledger
url, path, count = sys.argv[1:]
settings = settings_of({"url": url, "address": "127.0.0.1", "tiers": {"strong": {"model": "m", "input": 1000, "output": 2000}}})
llm = Llm(settings, Ledger(path))
scope = LlmScope(tiers=("strong",), budget=2.0, max_tokens=100)
async def one():
    of = CallContext(plugin="p", owner="o", run="r", scope=scope, deadline=time.monotonic() + 20)
    try:
        await llm.call("ask", Ask("x", "strong", max_tokens=100), of)
    except QuotaExceeded:
        return 0
    return 1
async def main():
    return sum(await asyncio.gather(*(one() for _ in range(int(count)))))
print("ready", flush=True)
sys.stdin.readline()
print(asyncio.run(main()), flush=True)
"""


def other(server: models.Models, ledger: Ledger, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _OTHER, f"http://models.test:{server.port}/v1", ledger.path, str(count)]
    environment = {**os.environ, "PYTHONPATH": str(house.SOURCE)}
    made = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert made.stdout is not None
    assert made.stdout.readline() == "ready\n"
    return made


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_fifty_of_several_processes(request: pytest.FixtureRequest, ledger: Ledger) -> None:
    """The budget is one for all processes."""
    server = serving(request, lambda asked: {"before": lambda: time.sleep(0.5)})
    processes = [other(server, ledger, 17) for _ in range(3)]
    for process in processes:
        go(process)
    found = []
    for process in processes:
        out, _ = process.communicate(timeout=60)
        found.append(int(out))
    assert sum(found) == len(server.asked)
    assert 7 <= sum(found) <= 51
    assert spent(ledger) <= 2 * UNIT


def test_a_crash_between_holding_and_settling(request: pytest.FixtureRequest, ledger: Ledger) -> None:
    """What a process held that is killed while the service answers stays spent."""
    process: list[subprocess.Popen[str]] = []
    server = serving(request, lambda asked: {"before": lambda: os.kill(process[0].pid, signal.SIGKILL)})
    process.append(other(server, ledger, 1))
    go(process[0])
    assert process[0].wait(60) == -signal.SIGKILL
    process[0].communicate()
    held = (1 + 64 + 16) * 1_000_000 + 100 * 2_000_000
    assert spent(ledger) == held
    (row,) = [row for row in ledger.used() if row.held is not None]
    assert (row.plugin, row.owner, row.kind, row.held.cost) == ("p", "o", "llm", held)
    # The rest of the budget is what is left, in this process too.
    scope = LlmScope(tiers=("strong",), budget=held / UNIT + 0.1, max_tokens=100)
    with pytest.raises(QuotaExceeded):
        ask(Llm(server.settings(), ledger), of=context(scope), prompt="x", tier="strong", max_tokens=100)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": 10},
        {"prompt_tokens": -10, "completion_tokens": -10},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": 10, "completion_tokens": 0},
        {"prompt_tokens": 10, "completion_tokens": 10**6},
        {"prompt_tokens": 10**30, "completion_tokens": 1},
        {"prompt_tokens": 10**13, "completion_tokens": 10**13},
        {"prompt_tokens": "10", "completion_tokens": "4"},
        {"prompt_tokens": 1e30, "completion_tokens": 4.5},
        {"prompt_tokens": True, "completion_tokens": True},
        [1, 2],
        "much",
    ],
    ids=repr,
)
@pytest.mark.parametrize("operation", ["ask", "stream"])
def test_a_service_that_lies(operation: str, usage: Any, request: pytest.FixtureRequest, ledger: Ledger) -> None:
    """Whatever it says that it counted: what was held is spent, no more and no less, and it is noted."""
    server = serving(request, lambda asked: {"usage": usage})
    noted: list[tuple[str, str]] = []
    of = context()
    llm = Llm(server.settings(), ledger)

    async def main() -> str:
        of.note = lambda target, code: noted.append((target, code))
        if operation == "ask":
            return str(
                (await llm.call("ask", decoded("ask", {"prompt": "x", "tier": "strong", "max_tokens": 100}), of))[
                    "text"
                ]
            )
        arguments = {"messages": [{"role": "user", "content": "x"}], "tier": "strong", "max_tokens": 100}
        number = await llm.call("stream", decoded("stream", arguments), of)
        return str((await everything(llm, of, number))["text"])

    assert asyncio.run(main()) == "echo: x"
    held = (1 + 64 + 16) * 1_000_000 + 100 * 2_000_000
    assert (of.cost, spent(ledger), disputed(ledger)) == (held, held, 1)
    ((target, code),) = noted
    assert target.startswith("strong: ")
    assert code == "quota"


@pytest.mark.parametrize(
    ("status", "cost", "kind"),
    [
        ("400 Bad Request", 0, AdapterError),
        ("401 Unauthorized", 0, AdapterError),
        ("429 Too Many Requests", 0, Denied),
        ("500 Oops", 1, AdapterError),
        ("302 Found", 1, AdapterError),
        ("204 No Content", 1, AdapterError),
    ],
)
@pytest.mark.parametrize("operation", ["ask", "stream"])
def test_a_service_that_does_not_answer(
    operation: str, status: str, cost: int, kind: type[Exception], request: pytest.FixtureRequest, ledger: Ledger
) -> None:
    """What it refuses costs nothing; where it is not known what came of it, all that was held is spent."""
    server = serving(request, lambda asked: {"status": status})
    arguments = {"prompt": "x"} if operation == "ask" else {"messages": [{"role": "user", "content": "x"}]}
    with pytest.raises(kind) as caught:
        ask(Llm(server.settings(), ledger), operation, tier="strong", max_tokens=1, **arguments)
    assert "127.0.0.1" not in str(caught.value)
    assert spent(ledger) == cost * (83_000_000)


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"null", b'{"choices": []}', b'{"choices": [{}]}', b'{"choices": "x"}', b"\xff", b"[" * 100_000],
    ids=lambda raw: repr(raw[:20]),
)
def test_an_answer_that_is_none(raw: bytes, request: pytest.FixtureRequest, ledger: Ledger) -> None:
    """It is a failure, and costs what was held."""
    server = serving(request, lambda asked: {"raw": raw})
    with pytest.raises(AdapterError):
        ask(Llm(server.settings(), ledger), prompt="x", tier="strong", max_tokens=1)
    assert spent(ledger) == 83_000_000


def test_nobody_there(server: models.Models, ledger: Ledger) -> None:
    """Where no connection comes about nothing was asked, and nothing is spent."""
    settings = server.settings()
    server.close()
    with pytest.raises(AdapterError):
        ask(Llm(settings, ledger), prompt="x")
    assert spent(ledger) == 0


def test_a_call_that_is_cancelled(request: pytest.FixtureRequest, ledger: Ledger) -> None:
    """What was under way by then is spent as it was held."""
    server = serving(request, lambda asked: {"before": lambda: time.sleep(1)})
    llm = Llm(server.settings(), ledger)

    async def main() -> None:
        task = asyncio.create_task(
            llm.call("ask", decoded("ask", {"prompt": "x", "tier": "strong", "max_tokens": 1}), context())
        )
        while not server.asked:  # noqa: ASYNC110  # what is waited for is in a thread
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert spent(ledger) == 83_000_000


def test_a_quota_of_the_operators(server: models.Models, tmp_path: Path) -> None:
    """It bounds the money of all plugins of an owner together, whatever each one's budget is."""
    ledger = Ledger(str(tmp_path / "usage.db"), [Quota(owner="*", per="month", cost=UNIT)])
    llm = Llm(server.settings(), ledger)
    went = 0
    with pytest.raises(QuotaExceeded):
        for number in range(1000):
            ask(llm, of=context(plugin=f"p{number}"), prompt="x", tier="strong", max_tokens=100)
            went += 1
    assert went > 3
    assert sum(row.cost for row in ledger.used(owner="o")) <= UNIT
    ask(llm, of=context(owner="other"), prompt="x", tier="strong", max_tokens=100)


def test_what_cannot_be_counted_is_not_asked(server: models.Models, tmp_path: Path) -> None:
    """A ledger that cannot be written lets nothing through."""
    path = tmp_path / "usage.db"
    path.write_bytes(b"no database" * 1000)
    path.chmod(0o600)
    with pytest.raises(AdapterError):
        ask(Llm(server.settings(), Ledger(str(path))), prompt="x")
    assert server.asked == []


# the credential


@pytest.mark.parametrize("form", [models.KEY, json.dumps(models.KEY), models.KEY.encode().hex()])
def test_a_credential_that_is_echoed(form: str, request: pytest.FixtureRequest, ledger: Ledger, tmp_path: Path) -> None:
    """It is removed from what the guest gets."""
    server = serving(request, lambda asked: {"text": f"it is {form}!"})
    got = ask(Llm(server.settings(), ledger, key=models.key_file(tmp_path)), prompt="x")
    assert "[redacted]" in got["text"]
    assert form.strip('"') not in got["text"]


@pytest.mark.parametrize("size", [1, 2, 7, 29, 31])
def test_a_credential_that_is_echoed_in_pieces(
    size: int, request: pytest.FixtureRequest, ledger: Ledger, tmp_path: Path
) -> None:
    """Of a stream too, however it is cut; what only begins like it comes all the same."""
    text = f"it is {models.KEY}, or sk-held-by-nobody, or sk-"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    server = serving(request, lambda asked: {"text": text, "pieces": pieces})
    llm = Llm(server.settings(), ledger, key=models.key_file(tmp_path))
    got = streamed(llm)
    assert got["text"] == "it is [redacted], or sk-held-by-nobody, or sk-"
    assert not any(models.KEY[:12] in part and models.KEY in part for part in got["parts"])


@pytest.mark.parametrize("text", ["", "short", "two\nlines-of-it", "x" * 5000, "\xe4" * 20])
def test_a_file_that_holds_no_credential(text: str, server: models.Models, ledger: Ledger, tmp_path: Path) -> None:
    """Nothing is asked without it, and what is in it is told to nobody."""
    path = tmp_path / "llm.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(AdapterError) as caught:
        ask(Llm(server.settings(), ledger, key=str(path)), prompt="x")
    assert (server.asked, spent(ledger)) == ([], 0)
    assert str(tmp_path) not in str(caught.value)
    path.write_text(models.KEY)
    path.chmod(0o644)
    with pytest.raises(AdapterError):
        ask(Llm(server.settings(), ledger, key=str(path)), prompt="x")
    assert server.asked == []


# where it goes


def test_addresses_that_are_not_public(server: models.Models, ledger: Ledger) -> None:
    """Without an address of the operator's, a name that leads inside is not asked; nor one that has two answers."""
    settings = msgspec.structs.replace(server.settings(), address=None)
    for addresses in (["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["169.254.169.254"], []):
        llm = Llm(settings, ledger, resolve=listeners.Names(models_test=addresses))
        with pytest.raises(AdapterError):
            ask(llm, prompt="x")
    assert (server.asked, spent(ledger)) == ([], 0)


def test_no_redirect_is_followed(request: pytest.FixtureRequest, server: models.Models, ledger: Ledger) -> None:
    """A service that sends questions elsewhere sends them nowhere."""
    away = listeners.Listener(lambda head: [listeners.moved(f"http://models.test:{server.port}/v1/chat/completions")])
    request.addfinalizer(away.close)
    settings = msgspec.structs.replace(server.settings(), url=f"http://models.test:{away.port}/v1")
    with pytest.raises(AdapterError):
        ask(Llm(settings, ledger), prompt="x")
    assert server.asked == []


# streams


async def everything(llm: Llm, of: CallContext, number: int) -> dict[str, Any]:
    parts: list[str] = []
    while True:
        got = await llm.call("read", decoded("read", {"stream": number}), of)
        parts.append(got["text"])
        if got["done"]:
            return {**got, "text": "".join(parts), "parts": parts}


def streamed(llm: Llm, of: CallContext | None = None, **arguments: Any) -> dict[str, Any]:
    of = of or context()
    given = {"messages": [{"role": "user", "content": "x"}], **arguments}

    async def main() -> dict[str, Any]:
        return await everything(llm, of, await llm.call("stream", decoded("stream", given), of))

    return asyncio.run(main())


def test_a_stream(request: pytest.FixtureRequest, ledger: Ledger) -> None:
    """It is read as it comes: the first text is there before the last one is sent; it costs what was counted."""
    heard = threading.Event()
    server = serving(request, lambda asked: {"pieces": ["first ", lambda: heard.wait(10), "second"]})
    llm = Llm(server.settings(), ledger)
    of = context()

    async def main() -> list[Any]:
        arguments = {"messages": [{"role": "user", "content": "x"}], "tier": "strong"}
        number = await llm.call("stream", decoded("stream", arguments), of)
        first = await llm.call("read", decoded("read", {"stream": number}), of)
        heard.set()
        return [number, first, await everything(llm, of, number)]

    number, first, rest = asyncio.run(main())
    assert (number, first) == (1, {"text": "first ", "done": False})
    assert (rest["text"], rest["finish"], rest["done"]) == ("second", "stop", True)
    assert (rest["tokens_in"], rest["tokens_out"]) == (10, 1)
    assert spent(ledger) == of.cost == 12_000_000
    assert of.opened == {}
    assert server.asked[0]["stream_options"] == {"include_usage": True}


def test_streams_that_are_not_read(request: pytest.FixtureRequest, ledger: Ledger) -> None:
    """One that is closed costs what was held, as nobody counted; four may be open, and a number is good for one run."""
    closing = threading.Event()
    server = serving(request, lambda asked: {"pieces": ["a", lambda: closing.wait(20), "b"]})
    request.addfinalizer(closing.set)
    llm = Llm(server.settings(), ledger)
    of, others = context(), context(run="another")

    async def main() -> None:
        arguments = decoded(
            "stream", {"messages": [{"role": "user", "content": "x"}], "tier": "strong", "max_tokens": 1000}
        )
        numbers = [await llm.call("stream", arguments, of) for _ in range(4)]
        with pytest.raises(QuotaExceeded):
            await llm.call("stream", arguments, of)
        for number in numbers:
            with pytest.raises(Denied) as caught:
                await llm.call("read", decoded("read", {"stream": number}), others)
            assert caught.value.code.value == "absent"
        await llm.call("read", decoded("read", {"stream": 1}), of)
        assert await llm.call("close", decoded("close", {"stream": 1}), of) is True
        assert await llm.call("close", decoded("close", {"stream": 1}), of) is False
        with pytest.raises(Denied):
            await llm.call("read", decoded("read", {"stream": 1}), of)
        # Whoever ends the run ends the rest.
        assert [await one.end() for one in of.opened.values()] == [2_081_000_000] * 3

    asyncio.run(main())
    assert spent(ledger) == 4 * 2_081_000_000


def test_streams_that_are_opened_at_once(request: pytest.FixtureRequest, ledger: Ledger) -> None:
    """Four are open, however many were asked for before the first had an answer; what does not begin makes room."""
    closing = threading.Event()
    server = serving(
        request,
        lambda asked: (
            {"status": "500 Oops"} if asked["messages"][0]["content"] == "no" else {"before": lambda: closing.wait(20)}
        ),
    )
    request.addfinalizer(closing.set)
    llm = Llm(server.settings(), ledger)
    of = context()

    async def open_(text: str = "x") -> Any:
        return await llm.call("stream", decoded("stream", {"messages": [{"role": "user", "content": text}]}), of)

    async def main() -> list[Any]:
        failed = await asyncio.gather(*(open_("no") for _ in range(4)), return_exceptions=True)
        assert [type(one) for one in failed] == [AdapterError] * 4
        asyncio.get_running_loop().call_later(0.5, closing.set)
        found = await asyncio.gather(*(open_() for _ in range(12)), return_exceptions=True)
        await asyncio.gather(*(one.end() for one in of.opened.values()))
        return found

    found = asyncio.run(main())
    assert sorted(one for one in found if isinstance(one, int)) == [1, 2, 3, 4]
    assert sum(isinstance(one, QuotaExceeded) for one in found) == 8


def test_two_who_read_one_stream(request: pytest.FixtureRequest, ledger: Ledger) -> None:
    """The second is refused, and the first goes on."""
    server = serving(request, lambda asked: {"pieces": [lambda: time.sleep(0.3), "text"]})
    llm = Llm(server.settings(), ledger)
    of = context()

    async def main() -> list[Any]:
        number = await llm.call("stream", decoded("stream", {"messages": [{"role": "user", "content": "x"}]}), of)
        read = decoded("read", {"stream": number})
        return await asyncio.gather(llm.call("read", read, of), llm.call("read", read, of), return_exceptions=True)

    first, second = asyncio.run(main())
    assert first["text"] == "text"
    assert isinstance(second, AdapterError)


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"data: {\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"data: " + b"x" * (3 << 20)],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"data: {}\n\n"],
        [
            b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
            b'data: {"choices": [{"delta": {"content": "' + b"y" * 300_000 + b'"}}]}\n\n',
        ],
    ],
    ids=["no JSON", "a giant event", "cut off", "more than was asked for"],
)
def test_a_stream_that_is_none(pieces: list[bytes], request: pytest.FixtureRequest, ledger: Ledger) -> None:
    """It fails, and costs what was held."""
    server = listeners.Listener(lambda head: pieces)
    request.addfinalizer(server.close)
    settings = models.Models.settings(server)  # type: ignore[arg-type]  # what has a port
    of = context()
    with pytest.raises(AdapterError):
        streamed(Llm(settings, ledger), of, tier="strong", max_tokens=1000)
    assert spent(ledger) == 2_081_000_000
    assert of.opened == {}


@pytest.mark.parametrize("where", ["before anything", "in the middle"])
def test_a_service_that_stalls(where: str, request: pytest.FixtureRequest, ledger: Ledger) -> None:
    """A call ends at its time, and costs what was held; a stream that was begun is over."""
    closing = threading.Event()

    def stall() -> None:
        closing.wait(20)

    server = serving(
        request, lambda asked: {"before": stall} if where == "before anything" else {"pieces": ["a", stall]}
    )
    request.addfinalizer(closing.set)
    llm = Llm(server.settings(), ledger, call_s=0.5)
    of = context()
    with pytest.raises(AdapterError, match="in time"):
        streamed(llm, of, tier="strong", max_tokens=1000)
    assert spent(ledger) == 2_081_000_000
    assert of.opened == {}
    if where == "before anything":
        with pytest.raises(AdapterError, match="in time"):
            ask(llm, prompt="x", tier="strong", max_tokens=1)


# what every capability keeps to


def test_the_kit(server: models.Models, tmp_path: Path) -> None:
    """``check_capability`` finds nothing, with an adapter over a fresh ledger each time."""
    count = iter(range(10_000))

    def make() -> Llm:
        return Llm(server.settings(), Ledger(str(tmp_path / f"usage-{next(count)}.db")), key=models.key_file(tmp_path))

    words = "what nobody is to read"
    cases = [
        Case(operation="ask", arguments={"prompt": words}, scope=EVERY, payloads=(words,)),
        Case(
            operation="chat",
            arguments={"messages": [{"role": "user", "content": words}]},
            scope=EVERY,
            payloads=(words,),
        ),
        Case(operation="close", arguments={"stream": 7}, scope=EVERY),
        Case(operation="read", arguments={"stream": 7}, scope=EVERY, code="absent"),
        Case(
            operation="ask",
            arguments={"prompt": words, "tier": "strong"},
            scope=LlmScope(tiers=("cheap",), budget=1.0),
            code="not_granted",
        ),
        Case(operation="ask", arguments={"prompt": words}, scope=LlmScope(tiers=("cheap",), budget=1e-6), code="quota"),
    ]
    hidden = [str(server.port), "models.test", models.KEY, "small-1"]
    assert asyncio.run(check_capability(make, cases, hidden=hidden)) == []


def test_a_day_ends(server: models.Models, tmp_path: Path) -> None:
    """A question that is settled on the next day counts for the day on which it was held."""
    now = [10 * 86_400.0 - 1]
    ledger = Ledger(str(tmp_path / "usage.db"), clock=lambda: now[0])
    llm = Llm(server.settings(), ledger)
    charge = llm._question(decoded("ask", {"prompt": "x"}), context(), stream=False)[1]
    now[0] += 2
    charge.whole()
    assert [(row.day, row.cost > 0) for row in ledger.used()] == [(today(now[0]) - 1, True)]

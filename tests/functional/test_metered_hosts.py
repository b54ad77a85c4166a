"""What a host of plugins counts, what it holds against the operator's quotas, and what owners do with what is remembered."""

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

import pytest

import fastness
import house
import models
from fastness import config
from fastness.capabilities.process import Ended, Process
from fastness.cli import exits
from fastness.cli.main import main
from fastness.errors import ConfigurationError, QuotaExceeded
from plugin_homes import STORAGE, events, own_home, package, rows

LLM = {"kind": "llm", "tiers": ["cheap", "strong"], "budget": 1.0, "max_tokens": 500, "reason": "asks"}
MEMORY = {"kind": "memory", "notes": 100, "quota": 100_000, "reason": "notes"}
CODE = """
def ask(ctx, count=1, tier="strong"):
    went = 0
    for _ in range(count):
        try:
            ctx.llm.ask("x", tier=tier, max_tokens=100)
            went += 1
        except ctx.Refused as error:
            return [went, error.code]
    return [went, ""]

def note(ctx, text):
    return ctx.memory.add(text)

def put(ctx, count):
    went = 0
    for number in range(count):
        try:
            ctx.storage.put("k", "x" * 100)
            went += 1
        except ctx.Refused as error:
            return [went, error.code]
    return [went, ""]

def spin(ctx, seconds):
    import time
    ends = time.process_time() + seconds
    while time.process_time() < ends:
        pass
    return True

def has(ctx):
    return [name for name in ("llm", "memory", "storage") if getattr(ctx, name, None) is not None]
"""
METHODS = ["ask", "note", "put", "spin", "has"]


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    house.require("isolated tier")
    (tmp_path / "home").mkdir(mode=0o700)
    with own_home(tmp_path / "home") as made:
        (made / "config").mkdir(mode=0o700)
        yield made


@pytest.fixture
def server() -> Iterator[models.Models]:
    made = models.Models()
    yield made
    made.close()


def write(base: Path, text: str) -> None:
    path = base / "config" / "config.toml"
    path.write_text(text)
    path.chmod(0o600)
    config.forget()


def llm_table(server: models.Models) -> str:
    tiers = "".join(
        f"[llm.tiers.{tier}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in priced.items())
        for tier, priced in models.PRICES.items()
    )
    return f'[llm]\nurl = "http://models.test:{server.port}/v1"\naddress = "127.0.0.1"\ncurrency = "EUR"\n{tiers}'


def installed(host: fastness.PluginHost, base: Path, id: str = "hello", owners: tuple[str, ...] = ("ann",)) -> None:
    wants = [STORAGE, MEMORY, LLM]
    host.install(package(base / id, CODE, wants, id=id, methods=METHODS))
    for owner in owners:
        host.grant(id, owner=owner, all=True)


def sums(host: fastness.PluginHost, **of: Any) -> dict[str, int]:
    found = host.usage(**of)
    names = ("runs", "calls", "refused", "bytes_in", "bytes_out", "cpu_micros", "cost")
    return {name: sum(getattr(row, name) for row in found) for name in names}


def test_what_is_counted(base: Path, server: models.Models) -> None:
    """Runs, calls, bytes, processor time and money, of plugin and owner; the result says what a run cost."""
    write(base, llm_table(server))
    with fastness.PluginHost() as host:
        installed(host, base, owners=("ann", "bob"))
        result = host.invoke("hello", "ask", {"count": 2}, owner="ann")
        assert result.value == [2, ""]
        assert result.usage.cost == 2 * 12_000_000
        assert host.invoke("hello", "put", {"count": 3}, owner="bob").usage.cost == 0
        assert host.invoke("hello", "spin", {"seconds": 0.2}, owner="bob").ok
        kinds = {row.kind: row for row in host.usage(owner="ann")}
        assert (kinds["llm"].calls, kinds["llm"].cost, kinds["llm"].bytes_out) == (2, 24_000_000, 2)
        assert kinds[""].runs == 1
        bob = sums(host, owner="bob", plugin="hello")
        assert (bob["runs"], bob["calls"], bob["cost"]) == (2, 3, 0)
        assert bob["bytes_out"] > 300
        assert bob["cpu_micros"] > 150_000
        assert host.usage(since=time.time() + 2 * 86_400) == []
        for odd in (float("nan"), float("inf"), 1e300, "7d"):
            with pytest.raises(ConfigurationError, match="since"):
                host.usage(since=odd)  # type: ignore[arg-type]  # what is refused
        assert host.currency == "EUR"
        host.remove("hello")
        # What was spent stays spent.
        assert sums(host, owner="ann")["cost"] == 24_000_000
    assert sum(row.cost for row in rows(base, capability="llm", owner="ann")) == 24_000_000


def test_a_host_without_models(base: Path) -> None:
    """Without a table of the operator's nobody has ``ctx.llm``, whatever was granted, and it is said."""
    with fastness.PluginHost() as host:
        installed(host, base)
        assert host.invoke("hello", "has", owner="ann").value == ["memory", "storage"]
        assert {want.kind: want.offered for want in host.show("hello").wants} == {
            "storage": True, "memory": True, "llm": False,
        }  # fmt: skip


def test_a_budget_of_the_grant(base: Path, server: models.Models) -> None:
    """An owner who grants less has a plugin that spends less."""
    from fastness.capabilities.llm import LlmScope

    write(base, llm_table(server))
    with fastness.PluginHost() as host:
        host.install(package(base / "p", CODE, [LLM], methods=METHODS))
        host.grant("hello", owner="ann", allowed=[LlmScope(tiers=("strong",), budget=0.3, max_tokens=100)])
        went, code = host.invoke("hello", "ask", {"count": 50}, owner="ann").value
        assert (0 < went < 5, code) == (True, "quota")
        assert sums(host)["cost"] <= 300_000_000
        # Also in the next run, and in another host.
        assert host.invoke("hello", "ask", owner="ann").value == [0, "quota"]
    with fastness.PluginHost() as other:
        assert other.invoke("hello", "ask", owner="ann").value == [0, "quota"]


def test_quotas_of_an_owner(base: Path, server: models.Models) -> None:
    """All of an owner's plugins together have what the operator leaves that owner; another's are not touched."""
    write(
        base,
        llm_table(server) + '[[quota]]\nowner = "*"\nper = "month"\ncost = 0.5\n[[quota]]\nowner = "*"\ncalls = 60\n',
    )
    with fastness.PluginHost() as host:
        for id in ("one", "two"):
            installed(host, base, id, owners=("ann", "bob"))
        spent = [host.invoke(id, "ask", {"count": 40}, owner="ann").value for id in ("one", "two")]
        assert [code for _, code in spent] == ["quota", "quota"]
        assert sums(host, owner="ann")["cost"] <= 500_000_000
        assert host.invoke("two", "ask", owner="bob").value == [1, ""]
        calls = sums(host, owner="ann")["calls"]
        went, code = host.invoke("one", "put", {"count": 100}, owner="ann").value
        assert (went, code) == (60 - calls, "quota")
        assert sums(host, owner="ann")["calls"] == 60
        left = {quota.quota.per: quota for quota in host.quotas("one", "ann")}
        assert left["day"].used.calls == 60
        assert left["month"].used.cost == sums(host, owner="ann")["cost"]
    refused = rows(base, owner="ann", decision="refused", code="quota")
    assert {row.capability for row in refused} == {"llm", "storage"}


def test_processor_time(base: Path) -> None:
    """A run gets what is left, and where nothing is left none begins, on record."""
    write(base, '[[quota]]\nowner = "*"\nplugin = "*"\ncpu_s = 0.5\n')
    with fastness.PluginHost() as host:
        installed(host, base, owners=("ann", "bob"))
        assert host.invoke("hello", "spin", {"seconds": 0.1}, owner="ann").ok
        result = host.invoke("hello", "spin", {"seconds": 5}, owner="ann")
        assert result.outcome.kind.value in ("cpu", "timeout")
        assert result.usage.cpu_s < 2
        with pytest.raises(QuotaExceeded, match="processor time"):
            host.invoke("hello", "has", owner="ann")
        assert host.invoke("hello", "has", owner="bob").ok
    assert ("invoke", "ann", "quota") in events(base)


def test_processor_time_of_programs(base: Path) -> None:
    """What a program took that a plugin had run counts for that plugin."""

    async def run(_wanted: Any) -> Ended:
        return Ended(outcome="ok", exit_code=0, stdout=b"", stderr=b"", files={}, cpu_s=1.5)

    process = {"kind": "process", "runs": 5, "reason": "runs"}
    code = "def go(ctx): return ctx.process.run(['true'])['outcome']"
    with fastness.PluginHost(adapters={"process": Process(run)}) as host:
        host.install(package(base / "p", code, [process], methods=["go"]))
        host.grant("hello", owner="ann", all=True)
        assert host.invoke("hello", "go", owner="ann").value == "ok"
        (row,) = [row for row in host.usage() if row.kind == "process"]
        assert (row.calls, row.cpu_micros) == (1, 1_500_000)


def test_runs_at_once(base: Path) -> None:
    """Runs in several threads together make no more calls than there are left."""
    write(base, '[[quota]]\nowner = "*"\ncalls = 100\n')
    went: list[int] = []
    with fastness.PluginHost() as host:
        installed(host, base)

        def work() -> None:
            went.append(host.invoke("hello", "put", {"count": 60}, owner="ann").value[0])

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(went) == 100
        assert sums(host)["calls"] == 100


_KILLED = """
import sys
import fastness
with fastness.PluginHost() as host:
    host.invoke("hello", "ask", {"count": 1}, owner="ann")
"""


def test_a_host_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it held while a model was asked stays spent, and is told as held; the trail says how it ended."""
    house.require("isolated tier")
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(home))
    config.forget()
    process: list[subprocess.Popen[bytes]] = []

    def kill() -> None:
        if process[0].poll() is None:
            process[0].kill()

    server = models.Models(lambda asked: {"before": kill})
    write(home, llm_table(server))
    try:
        with fastness.PluginHost() as host:
            host.install(package(tmp_path / "p", CODE, [LLM], methods=METHODS))
            host.grant("hello", owner="ann", all=True)
            environment = {**os.environ, "PYTHONPATH": str(house.SOURCE)}
            process.append(subprocess.Popen([sys.executable, "-c", _KILLED], env=environment))
            assert process[0].wait(60) == -signal.SIGKILL
            (held,) = [row.held for row in host.usage() if row.held is not None and row.kind == "llm"]
            assert held.cost == 81_000_000 + 200_000_000
            went, code = host.invoke("hello", "ask", {"count": 100}, owner="ann").value
            assert code == "quota"
            assert went * 12_000_000 <= 1_000_000_000 - held.cost
    finally:
        server.close()
        config.forget()


# what is remembered


def test_export_and_erasure(base: Path) -> None:
    """An owner gets all that was noted for them, and erases it; both are on record, and no word of it."""
    with fastness.PluginHost() as host:
        for id in ("one", "two"):
            installed(host, base, id, owners=("ann", "bob"))
            for owner in ("ann", "bob"):
                host.invoke(id, "note", {"text": f"marrowbone of {id} for {owner}"}, owner=owner)
        assert sorted(note["text"] for note in host.export_memory("ann")) == [
            "marrowbone of one for ann", "marrowbone of two for ann",
        ]  # fmt: skip
        assert [note["text"] for note in host.export_memory("ann", plugin="two")] == ["marrowbone of two for ann"]
        assert host.erase_memory("ann") == 2
        assert host.export_memory("ann") == []
        assert len(host.export_memory("bob")) == 2
        # A plugin that is removed takes its notes along.
        host.remove("one")
        assert [note["plugin"] for note in host.export_memory("bob")] == ["two"]
        # One whose grant stands may note again.
        assert host.invoke("two", "note", {"text": "again"}, owner="ann").ok
    found = events(base)
    assert found.count(("export", "ann", "")) >= 2
    assert ("erase", "ann", "") in found
    assert not any(b"marrowbone" in path.read_bytes() for path in (base / "data").glob("audit*") if path.is_file())


def test_an_async_host(base: Path) -> None:
    """It has the same."""

    async def run() -> list[Any]:
        async with fastness.AsyncPluginHost() as host:
            await host.install(package(base / "p", CODE, [MEMORY], methods=METHODS))
            await host.grant("hello", owner="ann", all=True)
            await host.invoke("hello", "note", {"text": "x"}, owner="ann")
            return [
                len(await host.export_memory("ann")),
                await host.erase_memory("ann"),
                len(host.usage()),
                host.quotas("hello", "ann"),
            ]

    assert asyncio.run(run()) == [1, 1, 2, []]


def test_an_adapter_that_cannot_erase(base: Path) -> None:
    """Another one in the place of ours has to know how; else it is said, and nothing is taken for done."""
    from fastness.capabilities.memory import SPEC

    class Nothing:
        spec = SPEC

        async def call(self, *_: object) -> None:
            return None

        async def aclose(self) -> None:
            return None

    with fastness.PluginHost(adapters={"memory": Nothing()}) as host, pytest.raises(ConfigurationError, match="export"):
        host.export_memory("ann")


# on the command line


def test_on_the_command_line(base: Path, server: models.Models, capsys: pytest.CaptureFixture[str]) -> None:
    """``usage``, ``memory export`` and ``memory erase``, in words and as JSON."""
    write(
        base, llm_table(server) + '[[quota]]\nowner = "*"\ncost = 2\n[[quota]]\nplugin = "*"\nowner = "*"\ncalls = 3\n'
    )
    assert main(["plugin", "usage"]) == exits.OK
    assert "nothing was used yet" in capsys.readouterr().err
    with fastness.PluginHost() as host:
        installed(host, base, owners=("me",))
        host.invoke("hello", "ask", {"count": 2}, owner="me")
        host.invoke("hello", "note", {"text": "marrowbone\x7f"}, owner="me")
    assert main(["plugin", "usage"]) == exits.OK
    out = capsys.readouterr().out
    assert "0.024 EUR" in out
    assert "100% of 3 calls a day" in out
    assert "1% of 2.00 of money a day" in out
    assert main(["plugin", "usage", "--owner", "me", "--since", "1d", "--json"]) == exits.OK
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["currency"]) == (1, "EUR")
    assert sum(row["cost"] for row in told["used"]) == 24_000_000
    assert {row["day"][:2] for row in told["used"]} == {"20"}
    assert main(["plugin", "usage", "--plugin", "nope"]) == exits.OK
    assert "nothing was used" in capsys.readouterr().err
    assert main(["plugin", "memory", "export", "--owner", "me"]) == exits.OK
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["text"] == "marrowbone\x7f"
    assert line.isascii()
    assert "\x7f" not in line
    assert main(["plugin", "memory", "erase", "--owner", "me"]) == exits.USAGE
    assert "--yes" in capsys.readouterr().err
    assert main(["plugin", "memory", "erase", "--owner", "me", "--yes", "--json"]) == exits.OK
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "erased": 1}
    assert main(["plugin", "memory", "export", "--owner", "me"]) == exits.OK
    assert capsys.readouterr().out == ""


def test_a_quota_is_a_limit(base: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A call that does not begin because of one exits as one that met a limit."""
    write(base, "[[quota]]\ncpu_s = 0\n")
    with fastness.PluginHost() as host:
        installed(host, base, owners=("me",))
    assert main(["plugin", "call", "hello", "has"]) == exits.LIMIT
    assert "processor time" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[[quota]]\nowner = 'x'\n", "quota[0]"),
        ("[[quota]]\ncalls = -1\n", "quota[0].calls"),
        ("[[quota]]\ncall = 1\n", "quota[0].call"),
        ("[[quota]]\ncost = 'much'\n", "quota[0].cost"),
        ("[[quota]]\ncost = nan\n", "quota[0].cost"),
        ("[[quota]]\nper = 'week'\ncalls = 1\n", "quota[0].per"),
        ("[quota]\ncalls = 1\n", "quota"),
        ("[llm]\n", "llm.url"),
        ("[llm]\nurl = 'x'\n", "llm.tiers"),
        ("[llm]\nurl = 'https://a.example/v1'\n[llm.tiers]\n", "llm.tiers"),
        ("[llm]\nurl = 'https://a.example/v1'\n[llm.tiers.best]\nmodel = 'x'\n", "llm.tiers.best"),
        ("[llm]\nurl = 'https://a.example/v1'\n[llm.tiers.cheap]\nmodel = 'x'\ninput = 1\n", "llm.tiers.cheap.output"),
        ("[llm]\nurl = 'https://a.example/v1'\n[llm.tiers.cheap]\nmodel = 'x'\ninput = -1\noutput = 1\n", "llm.tiers.cheap.input"),
        ("[llm]\nurl = 'http://a.example/v1'\n[llm.tiers.cheap]\nmodel = 'x'\ninput = 1\noutput = 1\n", "llm.url"),
        ("[llm]\nurl = 'https://a.example/v1?k=1'\n[llm.tiers.cheap]\nmodel = 'x'\ninput = 1\noutput = 1\n", "llm.url"),
        ("[llm]\nurl = 'https://a.example/v1'\naddress = '169.254.169.254'\n[llm.tiers.cheap]\nmodel = 'x'\ninput = 1\noutput = 1\n", "llm.address"),
        ("[llm]\nurl = 'https://a.example/v1'\nkey = 'relative'\n[llm.tiers.cheap]\nmodel = 'x'\ninput = 1\noutput = 1\n", "llm.key"),
        ("[llm]\nurl = 'https://a.example/v1'\nlimit = 'n'\n[llm.tiers.cheap]\nmodel = 'x'\ninput = 1\noutput = 1\n", "llm.limit"),
        ("[llm]\nurl = 'https://a.example/v1'\n[llm.tiers.cheap]\nmodel = 'x'\ninput = 1\noutput = 1\nmax_tokens = 0\n", "llm.tiers.cheap.max_tokens"),
        ("llm = 'https://a.example/v1'\n", "llm"),
    ],
    ids=lambda value: value if "\n" not in value else "",
)  # fmt: skip
def test_words_of_the_operator_that_mean_nothing(text: str, field: str, base: Path) -> None:
    """Each is refused by its name when the file is read, and nothing runs under it."""
    write(base, text)
    with pytest.raises(ConfigurationError) as caught:
        fastness.PluginHost()
    assert caught.value.field.startswith(f"{field} in ")

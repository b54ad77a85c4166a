"""
Which tier is used is said by the caller, then by variables; what cannot be had is refused, and nothing weaker runs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

import fastness
import house
from fastness.audit import reading
from fastness.audit.verify import verify
from fastness.backends import registry
from fastness.testing import FakeBackend, fake_sandbox
from fastness.tier import Guarantee, Tier

_VARIABLES = ("FASTNESS_TIER", "FASTNESS_RUNTIME", "FASTNESS_ALLOW_UNSANDBOXED")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("argument", "variables", "expected"),
    [
        (None, {}, "wasm"),
        ("isolated", {}, "isolated"),
        ("auto", {}, "auto"),
        ("local", {}, "local"),
        (None, {"FASTNESS_RUNTIME": "wasm"}, "wasm"),
        (None, {"FASTNESS_RUNTIME": "native"}, "isolated"),
        (None, {"FASTNESS_RUNTIME": "docker"}, "container"),
        (None, {"FASTNESS_RUNTIME": "auto"}, "auto"),
        (None, {"FASTNESS_RUNTIME": ""}, "wasm"),
        (None, {"FASTNESS_TIER": "confined"}, "confined"),
        (None, {"FASTNESS_TIER": "auto"}, "auto"),
        (None, {"FASTNESS_TIER": "isolated", "FASTNESS_RUNTIME": "wasm"}, "isolated"),
        ("wasm", {"FASTNESS_TIER": "isolated", "FASTNESS_RUNTIME": "docker"}, "wasm"),
        ("wasm", {"FASTNESS_TIER": "nonsense"}, "wasm"),
    ],
)
def test_order_of_choice(argument: str | None, variables: dict[str, str], expected: str) -> None:
    """The argument, then ``FASTNESS_TIER``, then ``FASTNESS_RUNTIME``, then ``wasm``."""
    assert registry.resolve(argument, variables) == expected


@pytest.mark.parametrize(
    ("argument", "variables", "field"),
    [
        ("strong", {}, "tier"),
        ("", {}, "tier"),
        (None, {"FASTNESS_RUNTIME": "python"}, "FASTNESS_RUNTIME"),
        (None, {"FASTNESS_RUNTIME": "WASM"}, "FASTNESS_RUNTIME"),
        (None, {"FASTNESS_RUNTIME": "local"}, "FASTNESS_RUNTIME"),
        (None, {"FASTNESS_TIER": "strong"}, "FASTNESS_TIER"),
        (None, {"FASTNESS_TIER": "local"}, "FASTNESS_TIER"),
    ],
)
def test_words_that_mean_nothing(argument: str | None, variables: dict[str, str], field: str) -> None:
    """An unknown word is refused, wherever it comes from; ``local`` is never to be had by a variable."""
    with pytest.raises(fastness.ConfigurationError) as caught:
        registry.resolve(argument, variables)
    assert caught.value.field == field


@pytest.mark.parametrize("tier", ["mediated", "container", "vm"])
@pytest.mark.parametrize("how", ["argument", "sandbox", "FASTNESS_TIER"])
def test_tiers_without_a_backend(tier: str, how: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A tier that this version does not serve raises with a reason and a remedy; the code does not run anywhere."""
    mark = tmp_path / "ran"
    code = f"open({str(mark)!r}, 'w').write('x')"
    with pytest.raises(fastness.TierUnavailable) as caught:
        if how == "argument":
            fastness.run(code, tier=tier)
        elif how == "sandbox":
            with fastness.Sandbox(tier=tier) as box:
                box.run(code)
        else:
            monkeypatch.setenv("FASTNESS_TIER", tier)
            fastness.run(code)
    assert caught.value.tier == tier
    assert caught.value.failures and caught.value.failures[0].remedy
    assert "nothing was run" in str(caught.value)
    assert not mark.exists()


@pytest.mark.parametrize(("word", "tier"), [("docker", "container")])
def test_runtime_words_without_a_backend(word: str, tier: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The words of the environment are understood; those whose tier does not exist yet are refused."""
    monkeypatch.setenv("FASTNESS_RUNTIME", word)
    with pytest.raises(fastness.TierUnavailable) as caught:
        fastness.run(f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert caught.value.tier == tier
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("word", ["wasm", "auto"])
def test_runtime_words_that_serve(word: str, monkeypatch: pytest.MonkeyPatch, python_guest: None) -> None:
    """``auto`` takes the first tier that holds, and the result says which it was."""
    monkeypatch.setenv("FASTNESS_RUNTIME", word)
    result = fastness.run("print(1)")
    assert (result.tier, result.sandboxed, result.stdout) == ("wasm", True, "1\n")


@pytest.mark.tiers("isolated", "confined", "worker")
@pytest.mark.parametrize("how", ["argument", "FASTNESS_TIER"])
def test_native_tiers_by_name(how: str, box: fastness.Sandbox, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A native tier is had by its name, and nothing else is."""
    if how == "argument":
        result = fastness.run("print(1)", tier=tier)
    else:
        monkeypatch.setenv("FASTNESS_TIER", tier)
        result = fastness.run("print(1)")
    assert (result.tier, result.sandboxed, result.stdout) == (tier, True, "1\n")


@pytest.mark.tiers("isolated")
def test_native_by_the_runtime_variable(box: fastness.Sandbox, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The word ``native`` means ``isolated``, for programs as for Python."""
    monkeypatch.setenv("FASTNESS_RUNTIME", "native")
    assert fastness.run("print(1)").tier == tier
    house.require("control groups")
    result = fastness.run(command=["echo", "1"])
    assert (result.tier, result.runtime, result.stdout) == (tier, "command", "1\n")


@pytest.mark.tiers("isolated")
def test_auto_takes_the_first_that_has_the_runtime(box: fastness.Sandbox, tier: str) -> None:
    """A program cannot run in ``wasm``, so ``auto`` goes on to ``isolated``; by its name ``wasm`` is refused."""
    house.require("control groups")
    result = fastness.run(command=["echo", "1"], tier="auto")
    assert (result.tier, result.stdout) == (tier, "1\n")
    with pytest.raises(fastness.ConfigurationError) as caught:
        fastness.run(command=["echo", "1"], tier="wasm")
    assert caught.value.field == "tier"


@pytest.mark.tiers("confined", "worker")
def test_programs_need_more_than_this(box: fastness.Sandbox) -> None:
    """Only ``isolated`` runs any program; the others say so and run nothing."""
    with pytest.raises(fastness.ConfigurationError) as caught:
        box.run(command=["true"])
    assert caught.value.field == "tier"


@pytest.mark.tiers("wasm", "isolated", "confined", "worker")
def test_results_say_what_was_proven(box: fastness.Sandbox, tier: str) -> None:
    """Every guarantee of the tier is in the result, each with the mechanism that keeps it."""
    result = box.run("1")
    promised = {guarantee.value for guarantee in Tier(tier).guarantees}
    assert promised <= set(result.guarantees)
    assert promised <= set(result.layers)
    backend = {"wasm": "wasmtime", "worker": "worker"}.get(tier, "zygote")
    assert (result.tier, result.backend, result.runtime) == (tier, backend, "python")
    assert len(result.policy_digest) == 64 and result.run_id
    probe = box.probe()
    assert probe.holds and not probe.failures and probe.versions


@pytest.mark.parametrize("lacking", sorted(Tier.WASM.guarantees, key=lambda g: g.value))
def test_one_guarantee_short_is_no_tier(lacking: Guarantee) -> None:
    """A backend that cannot prove one single promise runs nothing, and the error names it."""
    fake = FakeBackend(lacking=[lacking])

    async def main() -> None:
        async with fake_sandbox(fake) as box:
            for call in (box.run("1"), box.probe(), box.session().open()):
                with pytest.raises(fastness.TierUnavailable) as caught:
                    await call
                assert lacking.value in str(caught.value)

    anyio.run(main)
    assert fake.requests == []


def test_proof_is_asked_for_once() -> None:
    """What was proven holds for the sandbox's life; what failed is tried again."""
    calls: list[int] = []

    class Counting(FakeBackend):
        async def probe(self) -> Any:
            calls.append(1)
            return await super().probe()

    async def main() -> None:
        async with fake_sandbox(Counting()) as box:
            for _ in range(5):
                await box.run("1")
        assert len(calls) == 1
        calls.clear()
        async with fake_sandbox(Counting(lacking=[Guarantee.MEM_CAP])) as box:
            for _ in range(3):
                with pytest.raises(fastness.TierUnavailable):
                    await box.run("1")
        assert len(calls) == 3

    anyio.run(main)


# the unsandboxed fallback


def marked(tmp_path: Path) -> tuple[str, Path]:
    """Code that leaves a mark on the host, and the mark."""
    mark = tmp_path / "ran"
    return f"open({str(mark)!r}, 'w').write('x')", mark


@pytest.mark.parametrize("value", [None, "", "0", "true", "yes", " 1", "11"])
def test_local_needs_the_variable(value: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``tier="local"`` alone is refused, and says how it would be allowed; only the exact value counts."""
    if value is not None:
        monkeypatch.setenv("FASTNESS_ALLOW_UNSANDBOXED", value)
    code, mark = marked(tmp_path)
    with pytest.raises(fastness.TierUnavailable, match="FASTNESS_ALLOW_UNSANDBOXED=1"):
        fastness.run(code, tier="local")
    with pytest.raises(fastness.TierUnavailable), fastness.Sandbox(tier="local") as box:
        box.run(code)
    assert not mark.exists()


def test_local_needs_the_argument(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, python_guest: None) -> None:
    """The variable alone changes nothing: the code runs in the sandbox, where the host's folder does not exist."""
    monkeypatch.setenv("FASTNESS_ALLOW_UNSANDBOXED", "1")
    code, mark = marked(tmp_path)
    result = fastness.run(code)
    assert (result.tier, result.sandboxed) == ("wasm", True)
    assert result.outcome.kind is fastness.OutcomeKind.GUEST_ERROR
    for name, word in (("FASTNESS_TIER", "local"), ("FASTNESS_RUNTIME", "local")):
        with monkeypatch.context() as patch:
            patch.setenv(name, word)
            with pytest.raises(fastness.ConfigurationError):
                fastness.run(code)
    assert not mark.exists()


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Both locks open, and a home folder of the test's own, which is returned."""
    monkeypatch.setenv("FASTNESS_ALLOW_UNSANDBOXED", "1")
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(home))
    return home


def test_local_runs_and_is_audited(local: Path, tmp_path: Path) -> None:
    """With both, the code runs as what it is, the result says so, and a record was on disk before it started."""
    path = str(local / "data" / "audit.db")
    code = (
        f"import sqlite3\nrows = sqlite3.connect({path!r}).execute('SELECT op, phase, run, owner FROM trail')\n"
        "for row in rows: print(*row)"
    )
    with fastness.Sandbox(tier="local") as box:
        result = box.run(code, tenant="somebody")
    assert result.ok, result.stderr
    assert (result.tier, result.sandboxed, result.guarantees, result.backend) == ("local", False, (), "local")
    assert result.stdout == f"run.unsandboxed intent {result.run_id} somebody\n"
    intent, outcome = reading.records(path)
    assert (outcome.phase, outcome.intent, outcome.code, outcome.run) == ("outcome", intent.seq, "", result.run_id)
    assert outcome.micros > 0
    assert verify(path, str(local / "config" / "audit.key")).whole


def test_local_does_not_start_where_it_cannot_be_audited(local: Path, tmp_path: Path) -> None:
    """No record, no run."""
    code, mark = marked(tmp_path)
    (local / "data").mkdir(mode=0o700)
    (local / "data" / "audit.db").mkdir()
    with pytest.raises((fastness.FastnessError, OSError)), fastness.Sandbox(tier="local") as box:
        box.run(code)
    assert not mark.exists()


def test_local_keeps_the_contract(local: Path) -> None:
    """Outcomes, output, files and inputs mean the same as in a tier, as far as a plain process can do it."""
    kinds = fastness.OutcomeKind
    with fastness.Sandbox(tier="local", timeout=20) as box:
        result = box.run(
            "import sys, os\nprint(sys.stdin.read(), sys.argv[1:], os.environ['A'], open('in').read())\n"
            "open('out', 'w').write('new'); open('in', 'a').write('+')",
            stdin="input", args=["x"], env={"A": "1"}, files={"in": "staged", "same": "s"},
        )  # fmt: skip
        assert result.stdout == "input ['x'] 1 staged\n", result.stderr
        assert {path: file.read() for path, file in result.files.items()} == {"out": b"new", "in": b"staged+"}
        assert box.run("import sys; sys.exit(3)").exit_code == 3
        assert box.run("1 / 0").outcome.kind is kinds.GUEST_ERROR
        assert box.run("while True: pass", timeout=0.5).outcome.kind is kinds.TIMEOUT
        limits = {"output_total_bytes": 1000}
        assert box.run("while True: print('x' * 99)", limits=limits).outcome.kind is kinds.OUTPUT_LIMIT
        assert box.run("import os; os.kill(os.getpid(), 9)").outcome.kind is kinds.CRASHED
        assert "PATH" not in box.run("import os; print(dict(os.environ))").stdout
        with pytest.raises(fastness.ConfigurationError):
            box.run("1", runtime="javascript")
    assert not [name for name in os.listdir("/tmp") if name.startswith(f"fastness-local-{os.getpid()}-")]

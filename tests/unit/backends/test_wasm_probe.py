"""The proof of the wasm tier: what it tries, what it takes for a proof, and what becomes of its verdict."""

from __future__ import annotations

import importlib.resources
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

import fastness
from fastness._linux import proof
from fastness.attack.assemble import assemble
from fastness.backends import probe_record, wasm_probe, wasm_proofs
from fastness.backends.base import Report
from fastness.runs import Denial, DenialCode, Outcome, OutcomeKind, RunRequest, Usage
from fastness.testing import FakeBackend, fake_sandbox
from fastness.tier import Guarantee, Probe, Tier
from fastness.waiting import ThreadWaiting, drive


def test_the_module_is_its_source() -> None:
    """The bytes that are run are those of the text that can be read."""
    text = importlib.resources.files("fastness.data").joinpath("probe.wat").read_text()
    assert assemble(text) == wasm_proofs.PROBE_MODULE
    foreign = '(module (import "env" "system" (func)) (memory (export "memory") 1) (func (export "_start")))'
    assert assemble(foreign) == wasm_proofs.FOREIGN_MODULE


# What is taken for a proof.

_GOOD = {
    "l": Report(outcome=Outcome(OutcomeKind.TIMEOUT), usage=Usage(wall_s=0.05)),
    "m": Report(outcome=Outcome(OutcomeKind.OK), exit_code=0),
    "o": Report(outcome=Outcome(OutcomeKind.OUTPUT_LIMIT), stdout=b"x" * 4096),
    "t": Report(outcome=Outcome(OutcomeKind.CRASHED, "unreachable")),
    "x": Report(outcome=Outcome(OutcomeKind.GUEST_ERROR), exit_code=99),
    "e": Report(outcome=Outcome(OutcomeKind.OK), exit_code=0),
    "f": Report(outcome=Outcome(OutcomeKind.GUEST_ERROR), exit_code=44),
    "n": Report(
        outcome=Outcome(OutcomeKind.OK),
        exit_code=0,
        denials=(
            Denial(capability="net", operation="sock_send", target="", code=DenialCode.WASI_REFUSED, layer="wasi"),
        ),
    ),
}


def observations(*broken: str) -> list[proof.Observation]:
    """An attempt for each guarantee of an engine process; those of ``broken`` succeeded."""
    names = sorted({guarantee for _, guarantee in proof.ATTEMPTS.values()})
    return [
        proof.Observation(
            guarantee=name,
            attempt=f"break {name}",
            layer="all",
            expected="EPERM",
            observed="ok" if name in broken else "EPERM",
            control="ok",
            held=name not in broken,
        )
        for name in names
    ]


def judged(monkeypatch: pytest.MonkeyPatch, *broken: str, pids: Any = (1,), **answers: Any) -> Probe:
    """The verdict over an engine that answers so."""
    monkeypatch.setattr(proof, "prove_engine", lambda python: observations(*broken))

    async def run(request: RunRequest) -> Report:
        if request.module == wasm_proofs.FOREIGN_MODULE:
            answer = answers.get("foreign", fastness.ConfigurationError("module", "env.system", "preview 1"))
        else:
            answer = answers.get(request.args[0], _GOOD[request.args[0]])
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Report)
        return answer

    return drive(wasm_proofs.probe(run, lambda: list(pids), dict, ThreadWaiting()))


def test_all_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every attempt is refused the tier holds, with a proof for each guarantee."""
    verdict = judged(monkeypatch)
    assert verdict.holds, verdict.failures
    assert {g.value for g in Tier.WASM.guarantees} <= set(verdict.guarantees)
    assert {p.guarantee for p in verdict.proofs} >= {g.value for g in Tier.WASM.guarantees}
    assert all(p.observed for p in verdict.proofs)


_OK = Report(outcome=Outcome(OutcomeKind.OK), exit_code=0)
_BAD: dict[str, tuple[Guarantee, Any]] = {
    "l": (Guarantee.WALL_KILL, _OK),
    "m": (Guarantee.MEM_CAP, Report(outcome=Outcome(OutcomeKind.GUEST_ERROR), exit_code=1)),
    "o": (Guarantee.OUTPUT_CAP, Report(outcome=Outcome(OutcomeKind.OK), stdout=b"x" * 9000)),
    "t": (Guarantee.CRASH_CONTAINED, _OK),
    "x": (Guarantee.CRASH_CONTAINED, Report(outcome=Outcome(OutcomeKind.CRASHED))),
    "e": (Guarantee.ENV_SCRUBBED, Report(outcome=Outcome(OutcomeKind.GUEST_ERROR), exit_code=12)),
    "f": (Guarantee.FS_CONFINED, _OK),
    "n": (Guarantee.NET_CONFINED, _OK),
    "foreign": (Guarantee.NO_SYSCALLS, _OK),
}


@pytest.mark.parametrize("what", list(_BAD))
def test_one_bad_answer(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest that gets away with one thing costs its guarantee, and with it the tier."""
    guarantee, answer = _BAD[what]
    verdict = judged(monkeypatch, **{what: answer})
    assert not verdict.holds
    assert guarantee.value in {failure.guarantee for failure in verdict.failures}
    assert guarantee.value not in verdict.guarantees
    assert all(failure.cause and failure.remedy for failure in verdict.failures)


def test_a_late_end_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that was ended long after its deadline proves nothing about deadlines."""
    late = Report(outcome=Outcome(OutcomeKind.TIMEOUT), usage=Usage(wall_s=3.0))
    assert Guarantee.WALL_KILL.value not in judged(monkeypatch, l=late).guarantees


@pytest.mark.parametrize("name", sorted({guarantee for _, guarantee in proof.ATTEMPTS.values()}))
def test_one_attempt_from_outside_that_succeeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one process could do in an engine's confinement costs that guarantee, whatever guests were refused."""
    verdict = judged(monkeypatch, name)
    assert name.upper() not in verdict.guarantees
    if name.upper() in {g.value for g in Tier.WASM.guarantees}:
        assert not verdict.holds or name.upper() not in {p.guarantee for p in verdict.proofs}


@pytest.mark.parametrize("pids", [(), (os.getpid(),)], ids=["no process", "this process"])
def test_an_engine_in_this_process(pids: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guests that run in the caller's own process are not apart from it."""
    assert Guarantee.ADDRESS_SPACE.value not in judged(monkeypatch, pids=pids).guarantees


def test_a_host_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an engine cannot start, the verdict carries the cause and proves nothing of guests."""
    verdict = judged(monkeypatch, l=fastness.BackendError("starting an engine", "no memory", "free some"))
    assert not verdict.holds
    assert any("no memory" in failure.cause for failure in verdict.failures)
    assert Guarantee.WALL_KILL.value not in verdict.guarantees


@pytest.mark.parametrize("error", [OSError("no seccomp"), FileNotFoundError("no wasmtime")])
def test_where_nothing_can_be_tried(error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    """No attempt, no proof: nothing is taken on trust."""

    def fail(python: str) -> Any:
        raise error

    verdict = judged(monkeypatch)
    monkeypatch.setattr(proof, "prove_engine", fail)

    async def run(request: RunRequest) -> Report:
        raise AssertionError("a guest was run without confinement having been tried")

    verdict = drive(wasm_proofs.probe(run, lambda: [1], dict, ThreadWaiting()))
    assert not verdict.holds
    assert verdict.guarantees == ()
    assert str(error) in verdict.failures[0].cause


@pytest.mark.parametrize("lacking", sorted(Tier.WASM.guarantees, key=lambda g: g.value))
def test_nothing_runs_without_proof(lacking: Guarantee) -> None:
    """One guarantee that is not proven and the sandbox refuses, naming it; the backend is not asked to run anything."""
    import anyio

    backend = FakeBackend(lacking=[lacking])

    async def main() -> None:
        async with fake_sandbox(backend) as box:
            with pytest.raises(fastness.TierUnavailable) as caught:
                await box.run("print(1)")
            assert lacking.value in str(caught.value)
            with pytest.raises(fastness.TierUnavailable):
                async with box.session():
                    pass

    anyio.run(main)
    assert backend.requests == []


# The record.


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the verdict of this test is kept."""
    path = tmp_path / "proof.json"
    monkeypatch.setattr(probe_record, "_path", lambda name: str(path))
    return path


def verdict(**changes: Any) -> Probe:
    """A verdict that holds, unless changed."""
    fields: dict[str, Any] = {
        "backend": "wasmtime",
        "tier": "wasm",
        "guarantees": tuple(sorted(g.value for g in Tier.WASM.guarantees)),
        **changes,
    }
    return Probe(**fields)


def test_a_record_is_found_again(kept: Path) -> None:
    """A verdict that holds is kept, privately, and nothing is left beside it."""
    wasm_probe.record(verdict())
    assert wasm_probe.recorded() == verdict()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert os.listdir(kept.parent) == [kept.name]


def test_a_failure_is_not_kept(kept: Path) -> None:
    """What failed is tried again, so there is nothing to keep."""
    failed = fastness.tier.ProbeFailure(guarantee="WALL_KILL", cause="x", remedy="y")
    wasm_probe.record(verdict(failures=(failed,)))
    assert not kept.exists()
    assert wasm_probe.recorded() is None


@pytest.mark.parametrize("what", ["code", "wasmtime", "interpreter", "user"])
def test_another_key(what: str, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict is for this boot, code, runtime, interpreter and user, and for nothing else."""
    wasm_probe.record(verdict())
    if what == "code":
        monkeypatch.setattr(probe_record, "key", lambda packages, more: "another")
    elif what == "wasmtime":
        monkeypatch.setattr(wasm_probe.keys, "wasmtime", lambda: ("0.0.1", "/nowhere"))
    elif what == "interpreter":
        monkeypatch.setattr(probe_record.sys, "executable", "/usr/bin/other")
    else:
        real = os.geteuid()
        monkeypatch.setattr(probe_record.os, "geteuid", lambda: real + 1)
    assert wasm_probe.recorded() is None


def test_another_boot(kept: Path) -> None:
    """The kernel may be another after a boot."""
    wasm_probe.record(verdict())
    found = msgspec.json.decode(kept.read_bytes())
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert boot in found["key"]
    found["key"] = found["key"].replace(boot, boot[::-1])
    kept.write_bytes(msgspec.json.encode(found))
    assert wasm_probe.recorded() is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff" * 100,
        b'{"key": "x"}',
        b'{"key": 1, "probe": {}}',
        b'{"key": "x", "probe": {}, "more": 1}',
    ],
)
def test_a_damaged_record(data: bytes, kept: Path) -> None:
    """Anything that is not exactly a record is none."""
    kept.write_bytes(data)
    assert wasm_probe.recorded() is None


def test_a_record_of_failures_is_not_believed(kept: Path) -> None:
    """A record, whoever wrote it, that says that something failed does not open the tier."""
    wasm_probe.record(verdict())
    found = msgspec.json.decode(kept.read_bytes())
    found["probe"]["failures"] = [{"guarantee": "WALL_KILL", "cause": "x", "remedy": "y"}]
    kept.write_bytes(msgspec.json.encode(found))
    assert wasm_probe.recorded() is None


def test_a_disk_that_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict that cannot be kept is had anew each time; nobody is bothered."""
    monkeypatch.setattr(probe_record, "_path", lambda name: str(tmp_path / "missing" / "proof.json"))
    wasm_probe.record(verdict())
    assert wasm_probe.recorded() is None
    (tmp_path / "link").symlink_to(tmp_path / "target")
    monkeypatch.setattr(probe_record, "_path", lambda name: str(tmp_path))
    wasm_probe.record(verdict())
    assert not (tmp_path / "target").exists()

"""`fastness attack`: its exit code and its output follow from the verdicts."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from fastness import sync
from fastness.api import AsyncSandbox
from fastness.attack import registry
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Skip, allowed
from fastness.cli.main import main
from fastness.runs import Outcome as RunOutcome
from fastness.runs import OutcomeKind, RunResult
from fastness.testing import FakeBackend
from fastness.tier import Guarantee, Tier

CLAIM = Claim(Guarantee.FS_CONFINED, "Nothing happens.")


def _yes(arena: Any) -> Effect:
    return Effect(True, "it happened")


def _no(arena: Any) -> Effect:
    return Effect(False, "nothing happened", RunResult(outcome=RunOutcome(OutcomeKind.OK)))


HELD = Attack("a.held", CLAIM, {"wasm": Expect(Layer.ABSENT)}, _no, _yes)
SLOW = Attack("a.slow", CLAIM, {"wasm": Expect(Layer.ABSENT)}, _no, _yes, slow=True)
ESCAPED = Attack("a.escaped", CLAIM, {"wasm": Expect(Layer.ABSENT)}, _yes, _yes)
VOID = Attack("a.void", CLAIM, {"wasm": Expect(Layer.ABSENT)}, _no, _no)
ALLOWED = Attack("a.allowed", CLAIM, {"wasm": allowed("It happens here.")}, _yes, _yes)
UNEXPECTED = Attack("a.unexpected", CLAIM, {"wasm": Expect(Layer.WASI, "absent")}, _no, _yes)


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeBackend()
    real = sync.AsyncSandbox
    monkeypatch.setattr(sync, "AsyncSandbox", lambda **options: real(**options, _make=lambda tier: fake))


def _attack(monkeypatch: pytest.MonkeyPatch, *attacks: Attack, options: tuple[str, ...] = ()) -> int:
    monkeypatch.setattr(registry, "load", lambda: list(attacks))
    return main(["attack", "--tier", "wasm", *options])


@pytest.mark.parametrize("bad", [ESCAPED, VOID, UNEXPECTED])
def test_one_bad_verdict_is_exit_code_1(
    bad: Attack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An escape, a control that proves nothing, and a wrong statement each fail the command and are named."""
    assert _attack(monkeypatch, HELD, bad, HELD) == 1
    out, err = capsys.readouterr()
    verdict = bad.id.partition(".")[2]
    assert f"1 {verdict}" in out
    assert f"{bad.id}: {verdict}" in err


def test_all_held_is_exit_code_0(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing escaped, and the count says so."""
    assert _attack(monkeypatch, HELD) == 0
    assert "1 attacks ran, each with its control: 0 escaped, 1 held" in capsys.readouterr().out


def test_nothing_to_run_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty corpus has proven nothing."""
    assert _attack(monkeypatch) == 1


def test_what_is_said_to_be_allowed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It is good where it happens, counted apart, and shown in the words of the tier; where it does not it is bad."""
    assert _attack(monkeypatch, HELD, ALLOWED, options=("-v",)) == 0
    out = capsys.readouterr().out
    assert "2 attacks ran, each with its control: 0 escaped, 1 held, 1 allowed" in out
    assert "It happens here." in out
    never = Attack("a.never", CLAIM, {"wasm": allowed("It happens here.")}, _no, _yes)
    assert _attack(monkeypatch, never) == 1
    err = capsys.readouterr().err
    assert "a.never: unexpected: " in err
    assert "it is said not to be stopped" in err


def test_quick_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """--quick does not count slow attacks as run."""
    assert _attack(monkeypatch, HELD, SLOW, options=("--quick",)) == 0
    out = capsys.readouterr().out
    assert "1 attacks ran" in out
    assert "1 skipped" in out


def test_json_is_one_object(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json standard output is one object, with what was claimed, seen and shown of each attack."""
    assert _attack(monkeypatch, HELD, ESCAPED, options=("--json",)) == 1
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    found = json.loads(out)
    assert (found["schema"], found["ran"], found["good"]) == (1, 2, False)
    assert [(row["id"], row["verdict"]) for row in found["attacks"]] == [("a.held", "held"), ("a.escaped", "escaped")]
    assert found["attacks"][0]["claim"] == "Nothing happens."


def test_verbose_shows_both_sides(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """-v shows what was seen inside and in the control."""
    assert _attack(monkeypatch, HELD, options=("-v",)) == 0
    out = capsys.readouterr().out
    assert "inside: nothing happened" in out
    assert "control: it happened" in out


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_narrow_screen_nothing_is_squeezed_out(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names as long as the longest of the corpus leave room for what is claimed, on 80 columns too."""
    monkeypatch.setenv("COLUMNS", str(columns))
    long = dataclasses.replace(
        HELD, id="plugins.reason_of_control_characters", claim=Claim(Guarantee.FS_CONFINED, f"{'Word ' * 30}ends.")
    )
    assert _attack(monkeypatch, long, options=("-v",)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= columns for line in lines)
    assert sum(line.count("Word") for line in lines) == 30
    assert len([line for line in lines if "Word" in line]) <= 6


def test_the_page_of_results_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """--write-doc writes one row for each attack."""
    page = tmp_path / "attacks.md"
    assert _attack(monkeypatch, HELD, options=("--write-doc", str(page))) == 0
    assert "| `a.held` |" in page.read_text()
    assert _attack(monkeypatch, HELD, options=("--write-doc", str(tmp_path / "no" / "such"))) == 70


def test_the_matrix_says_how_many_were_stopped_by_what(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Family by tier: what was stopped and by which layer, and what escaped; the last line is the summary."""
    assert _attack(monkeypatch, HELD, ESCAPED) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["family", "wasm"]
    assert [line.strip() for line in lines[2:5]] == ["a       1 ESCAPED", "1 stopped", "by absent"]
    assert lines[-1].startswith("2 attacks ran, each with its control: 1 escaped")


def test_json_has_the_matrix_the_tiers_and_the_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a reader of the matrix sees is in the object too, beside all that was there before."""
    assert _attack(monkeypatch, HELD, SLOW, options=("--json", "--quick")) == 0
    found = json.loads(capsys.readouterr().out)
    cell = found["matrix"]["a"]["wasm"]
    assert (cell["held"], cell["left_out"], cell["by"]) == (1, 1, {"absent": 1})
    assert found["tiers"]["wasm"]["holds"] is True
    assert "FS_CONFINED" in found["tiers"]["wasm"]["guarantees"]
    assert found["counts"]["held"] == 1
    assert found["machine"]["python"]
    assert (found["quick"], found["lanes"]) == (True, 1)


def test_the_report_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """--html writes one page, also where something escaped; a file that cannot be written is not passed over."""
    page = tmp_path / "report.html"
    assert _attack(monkeypatch, ESCAPED, options=("--html", str(page))) == 1
    assert page.read_text().startswith("<!doctype html>")
    assert "a.escaped" in page.read_text()
    assert _attack(monkeypatch, HELD, options=("--html", str(tmp_path / "no" / "such"))) == 70


def _lacking(monkeypatch: pytest.MonkeyPatch, *tiers: str) -> None:
    """These tiers do not hold on this machine, and all others do."""
    real = AsyncSandbox

    def make(**options: Any) -> AsyncSandbox:
        tier = Tier(options["tier"])
        lacking = tier.guarantees if tier.value in tiers else ()
        return real(**options, _make=lambda tier: FakeBackend(tier=tier, lacking=lacking))

    monkeypatch.setattr(sync, "AsyncSandbox", make)


def test_a_tier_that_does_not_hold_is_named_and_not_passed_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --tier the others are attacked, and what is missing is told with its fix; nothing was tried there."""
    _lacking(monkeypatch, "container", "isolated")
    monkeypatch.setattr(registry, "load", lambda: [HELD])
    assert main(["attack"]) == 0
    out = capsys.readouterr().out
    for tier in ("container", "isolated"):
        assert f"tier {tier} does not hold here" in out
    assert "Fix: use another fake" in out
    assert "not here" in out
    assert main(["attack", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tiers"]["container"]["holds"] is False
    assert found["tiers"]["container"]["failures"][0]["remedy"] == "use another fake"


def test_a_tier_that_was_asked_for_and_does_not_hold_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, and nothing is tried in the others either: what was asked for was not done."""
    _lacking(monkeypatch, "container")
    tried: list[str] = []

    def attempt(arena: Any) -> Effect:
        tried.append(arena.tier)
        return _no(arena)

    monkeypatch.setattr(registry, "load", lambda: [dataclasses.replace(HELD, attack=attempt)])
    assert main(["attack", "--tier", "wasm", "--tier", "container"]) == 3
    assert not tried
    assert "use another fake" in capsys.readouterr().err


def test_where_no_tier_holds_nothing_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 3, as doctor's."""
    _lacking(monkeypatch, *(tier.value for tier in Tier))
    monkeypatch.setattr(registry, "load", lambda: [HELD])
    assert main(["attack"]) == 3


@pytest.mark.parametrize("jobs", ["0", "9", "many"])
def test_a_number_of_jobs_that_makes_no_sense_is_refused(jobs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong usage, and nothing is tried."""
    assert _attack(monkeypatch, ESCAPED, options=("--jobs", jobs)) == 2


def test_what_was_tried_twice_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A second try that held is no failure, and is not kept quiet."""
    tries = iter([Effect(False, "the machine was busy"), Effect(True, "it happened")])
    assert _attack(monkeypatch, dataclasses.replace(HELD, control=lambda arena: next(tries))) == 0
    assert "a.held: tried twice in wasm: at first void" in capsys.readouterr().out


def test_a_long_reason_that_many_have_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each attack has its line, which names the one whose reason it shares."""
    reason = f"this machine has no {'such ' * 30}thing"

    def lacking(arena: Any) -> Effect:
        raise Skip(reason)

    attacks = [dataclasses.replace(HELD, id=f"a.skipped{number}", attack=lacking) for number in range(3)]
    assert _attack(monkeypatch, HELD, *attacks) == 0
    out = capsys.readouterr().out
    assert out.count(reason) == 1
    assert f"a.skipped0: skipped: {reason} (wasm)" in out
    assert out.count(": skipped: as a.skipped0 (wasm)") == 2

"""`fastness attack`: its exit code and its output follow from the verdicts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fastness import sync
from fastness.attack import registry
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, allowed
from fastness.cli.main import main
from fastness.runs import Outcome as RunOutcome
from fastness.runs import OutcomeKind, RunResult
from fastness.testing import FakeBackend
from fastness.tier import Guarantee

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


def test_the_page_of_results_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """--write-doc writes one row for each attack."""
    page = tmp_path / "attacks.md"
    assert _attack(monkeypatch, HELD, options=("--write-doc", str(page))) == 0
    assert "| `a.held` |" in page.read_text()
    assert _attack(monkeypatch, HELD, options=("--write-doc", str(tmp_path / "no" / "such"))) == 70

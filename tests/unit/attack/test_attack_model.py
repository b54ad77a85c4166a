"""What an attack may be, how it is judged, and how attacks are found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastness.attack import arena as arenas
from fastness.attack import registry, report, runner
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Outcome, Skip, Verdict, refused
from fastness.errors import BackendError, ConfigurationError
from fastness.runs import Denial, DenialCode, OutcomeKind, RunResult
from fastness.runs import Outcome as RunOutcome
from fastness.tier import Guarantee

Attempt = Callable[[Arena], Effect]


def happened(arena: Arena) -> Effect:
    return Effect(True, "it happened")


def nothing(arena: Arena) -> Effect:
    return Effect(False, "nothing happened", RunResult(outcome=RunOutcome(OutcomeKind.OK)))


def impossible(arena: Arena) -> Effect:
    raise Skip("not on this machine")


def broken(arena: Arena) -> Effect:
    raise BackendError("starting", "no room", "make some")


def make(attack: Attempt = nothing, control: Attempt = happened, **more: Any) -> Attack:
    fields: dict[str, Any] = {
        "id": "family.name",
        "claim": Claim(Guarantee.FS_CONFINED, "Nothing happens."),
        "tiers": {"wasm": Expect(Layer.ABSENT)},
        "attack": attack,
        "control": control,
    }
    return Attack(**{**fields, **more})


def judge(attack: Attack) -> Outcome:
    return next(runner.run([attack], "wasm", None))  # type: ignore[arg-type]  # these attempts use no sandbox


@pytest.mark.parametrize("name", ["", "family", ".name", "family."])
def test_an_id_names_family_and_file(name: str) -> None:
    """An id is family.name."""
    with pytest.raises(ValueError, match=r"family\.name"):
        make(id=name)


def test_a_claim_is_a_sentence() -> None:
    """What is claimed is said in a sentence, for the page of boundaries."""
    with pytest.raises(ValueError, match="sentence"):
        make(claim=Claim(Guarantee.FS_CONFINED, "nothing"))


@pytest.mark.parametrize(
    ("layer", "code"), [(Layer.WASI, None), (Layer.GUEST, None), (Layer.LIMIT, "absent"), (Layer.ABSENT, "absent")]
)
def test_codes_go_with_layers_that_record(layer: Layer, code: str | None) -> None:
    """A layer that records denials has a code; no other has one."""
    with pytest.raises(ValueError, match="denial code"):
        Expect(layer, code)


def test_held() -> None:
    """No effect inside, the effect outside, for the stated reason: held."""
    assert judge(make()).verdict is Verdict.HELD


def test_an_escape_is_an_escape_whatever_the_control_does() -> None:
    """An effect inside is an escape, also where the control had none."""
    assert judge(make(attack=happened)).verdict is Verdict.ESCAPED
    assert judge(make(attack=happened, control=nothing)).verdict is Verdict.ESCAPED


def test_a_control_that_fails_proves_nothing() -> None:
    """Without the effect outside, or with a control that breaks, the attack is void."""
    assert judge(make(control=nothing)).verdict is Verdict.VOID
    assert judge(make(control=broken)).verdict is Verdict.VOID


def test_a_control_that_this_machine_cannot_have() -> None:
    """What even a program outside cannot do here is skipped for that reason; what was done inside is an escape."""
    skipped = judge(make(control=impossible))
    assert (skipped.verdict, skipped.detail) == (Verdict.SKIPPED, "no control: not on this machine")
    assert judge(make(attack=happened, control=impossible)).verdict is Verdict.ESCAPED


def test_an_attack_that_cannot_be_tried() -> None:
    """It skips for a stated reason; an error is unexpected, never held."""
    skipped = judge(make(attack=impossible))
    assert (skipped.verdict, skipped.detail) == (Verdict.SKIPPED, "not on this machine")
    failed = judge(make(attack=broken))
    assert failed.verdict is Verdict.UNEXPECTED
    assert "make some" in failed.detail


@pytest.mark.parametrize("verdict", list(Verdict))
def test_only_three_verdicts_are_good(verdict: Verdict) -> None:
    """Void and unexpected are as bad as an escape for the exit code."""
    assert verdict.good is (verdict.value in ("held", "allowed", "skipped"))


def _refused(code: DenialCode, claimed: bool, kind: OutcomeKind = OutcomeKind.OK) -> Attempt:
    row = Denial(capability="fs", operation="o", target="t", code=code, layer="wasi", claimed=claimed)
    result = RunResult(outcome=RunOutcome(kind), denials=(row,))
    return lambda arena: Effect(False, "refused", result)


def test_the_stated_layer_must_be_the_one() -> None:
    """A row with another code, or one that only the guest claims, is not what was stated: unexpected."""
    tiers = {"wasm": Expect(Layer.WASI, "absent")}
    assert judge(make(_refused(DenialCode.ABSENT, claimed=False), tiers=tiers)).verdict is Verdict.HELD
    assert judge(make(_refused(DenialCode.ABSENT, claimed=True), tiers=tiers)).verdict is Verdict.UNEXPECTED
    assert judge(make(_refused(DenialCode.WASI_REFUSED, claimed=False), tiers=tiers)).verdict is Verdict.UNEXPECTED
    assert judge(make(nothing, tiers=tiers)).verdict is Verdict.UNEXPECTED


def test_the_stated_outcome_must_be_the_one() -> None:
    """A run that ended otherwise than stated is unexpected though nothing happened."""
    tiers = {"wasm": Expect(Layer.LIMIT, outcomes=("timeout",))}
    assert judge(make(nothing, tiers=tiers)).verdict is Verdict.UNEXPECTED
    ended = _refused(DenialCode.ABSENT, claimed=False, kind=OutcomeKind.TIMEOUT)
    found = judge(make(ended, tiers=tiers))
    assert (found.verdict, found.stopped_by) == (Verdict.HELD, "limit: timeout")


def test_other_tiers_are_left_out() -> None:
    """An attack without an entry for a tier has no outcome there."""
    assert list(runner.run([make()], "isolated", None)) == []  # type: ignore[arg-type]  # as in judge


def test_the_summary_counts_escapes_even_at_none() -> None:
    """A reader sees `0 escaped` rather than nothing."""
    text = report.summary([judge(make()), judge(make(control=nothing))])
    assert text == "2 attacks ran, each with its control: 0 escaped, 1 void, 1 held"


def test_nothing_run_is_not_good() -> None:
    """No attack at all proves nothing, and neither do attacks that were all skipped."""
    assert not report.good([])
    skipped = judge(make(impossible))
    assert not report.good([skipped])
    assert report.good([skipped, judge(make())])


def test_an_arena_cleans_up() -> None:
    """Its secrets, its processes and its folder are gone after the attempt, also where that failed."""
    with pytest.raises(ZeroDivisionError), Arena("wasm", None) as arena:  # type: ignore[arg-type]  # as in judge
        victim = arena.victim()
        folder = arena.folder
        assert arena.secret_file.read_text() == arena.token
        1 / 0  # noqa: B018  # the failure
    assert not folder.exists()
    assert victim.poll() is not None


def test_what_killed_attacks_left_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of processes that have ended go; those of one that lives, and what is called otherwise, stay."""
    monkeypatch.setattr(arenas, "_PLACE", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    secret = tmp_path / f"fastness-attack-{ended.pid}-abc" / "deep" / "secret.txt"
    secret.parent.mkdir(parents=True)
    secret.write_text("x")
    kept = [tmp_path / f"fastness-attack-{os.getpid()}-abc", tmp_path / "fastness-attack-many-abc", tmp_path / "other"]
    for folder in kept:
        folder.mkdir()
    assert arenas.sweep() == 1
    assert sorted(tmp_path.iterdir()) == sorted(kept)


# the registry


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty corpus of another distribution."""
    root = tmp_path / "others_corpus"
    (root / "family").mkdir(parents=True)
    for folder in (root, root / "family"):
        (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))

    class Entry:
        value = "others_corpus"

    monkeypatch.setattr(registry.importlib.metadata, "entry_points", lambda group: [Entry()])
    for name in [name for name in sys.modules if name.startswith("others_corpus")]:
        del sys.modules[name]
    return root


_FILE = """
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee
def attempt(arena): return Effect(False, "")
ATTACK = Attack("{id}", Claim(Guarantee.FS_CONFINED, "It holds."), {{"wasm": Expect(Layer.ABSENT)}}, attempt, attempt)
"""


def test_attacks_of_other_distributions_are_found(package: Path) -> None:
    """A package that an entry point names adds its attacks to the shipped ones."""
    before = {attack.id for attack in registry.load()}
    (package / "family" / "name.py").write_text(_FILE.format(id="family.name"))
    assert {attack.id for attack in registry.load()} == before | {"family.name"}
    assert [attack.id for attack in registry.select(("family",))] == ["family.name"]


@pytest.mark.parametrize("text", ["", _FILE.format(id="family.other"), "ATTACK = 1"])
def test_a_file_without_its_attack_is_refused(package: Path, text: str) -> None:
    """A file that has no attack, or one under another name, is an error: it would silently not be run."""
    (package / "family" / "name.py").write_text(text)
    with pytest.raises(ConfigurationError, match=r"family\.name"):
        registry.load()


def test_an_id_exists_once(package: Path) -> None:
    """Another distribution cannot replace a shipped attack by a harmless one."""
    shipped = registry.load()[0]
    folder = package / shipped.family
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / f"{shipped.id.partition('.')[2]}.py").write_text(_FILE.format(id=shipped.id))
    with pytest.raises(ConfigurationError, match="each id once"):
        registry.load()


def test_selecting_what_does_not_exist_is_an_error() -> None:
    """A misspelt name must not pass as `all held`."""
    with pytest.raises(ConfigurationError, match="--only"):
        registry.select(("no-such-family",))


def _native(kind: OutcomeKind = OutcomeKind.OK, *rows: Denial, number: int | None = None) -> RunResult:
    outcome = RunOutcome(kind, signal=number)
    return RunResult(outcome=outcome, denials=rows, layers={"FS_CONFINED": "mountns+seccomp"})


def _row(operation: str, layer: str = "seccomp") -> Denial:
    return Denial(capability="kernel", operation=operation, target="", code=DenialCode.SYSCALL, layer=layer)


def test_refused_calls_are_told_by_name() -> None:
    """A row of another call, or of another layer, is not the one that was stated."""
    wanted = refused("bpf", "keyctl")
    assert runner.explain(Effect(False, "", _native(OutcomeKind.OK, _row("bpf"))), wanted) == ("", "seccomp: bpf")
    for rows in ((), (_row("mount"),), (_row("bpf", "wasi"),)):
        wrong, _ = runner.explain(Effect(False, "", _native(OutcomeKind.OK, *rows)), wanted)
        assert "for bpf or keyctl" in wrong


def test_an_attempt_made_in_two_ways_is_stopped_in_both() -> None:
    """The second result is held to what was stated as the first is."""
    good, bad = _native(OutcomeKind.OK, _row("bpf")), _native()
    assert not runner.explain(Effect(False, "", good, (good,)), refused("bpf"))[0]
    assert runner.explain(Effect(False, "", good, (bad,)), refused("bpf"))[0]


def test_a_process_that_the_filter_ended() -> None:
    """Only the signal of the filter shows that; a crash of another kind shows nothing."""
    wanted = Expect(Layer.KILLED, outcomes=("crashed",))
    assert not runner.explain(Effect(False, "", _native(OutcomeKind.CRASHED, number=signal.SIGSYS)), wanted)[0]
    assert runner.explain(Effect(False, "", _native(OutcomeKind.CRASHED, number=signal.SIGSEGV)), wanted)[0]


def test_walls_without_a_record_must_have_been_there() -> None:
    """A run whose layers do not name the wall was not stopped by it."""
    assert not runner.explain(Effect(False, "", _native()), Expect(Layer.NAMESPACE))[0]
    assert "landlock" in runner.explain(Effect(False, "", _native()), Expect(Layer.LANDLOCK))[0]


def test_calls_go_with_a_code() -> None:
    """Calls are looked for in rows, so a layer without rows cannot name any."""
    with pytest.raises(ValueError, match="calls"):
        Expect(Layer.LANDLOCK, calls=("open",))

"""The fuzz targets, with few inputs; and that each of them notices when what it looks at is broken."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import house

FUZZ = Path(__file__).resolve().parents[1] / "fuzz"
sys.path.append(str(FUZZ))

import fuzz_audit  # noqa: E402  # found by the line above
import fuzz_manifest  # noqa: E402
import fuzz_paths  # noqa: E402
import fuzz_seccomp  # noqa: E402
import fuzz_tree  # noqa: E402
import fuzz_urls  # noqa: E402
import fuzz_wire  # noqa: E402
import fuzzing  # noqa: E402
import run as runner  # noqa: E402

MODULES: dict[str, Any] = {
    module.TARGET.name: module
    for module in (fuzz_audit, fuzz_manifest, fuzz_paths, fuzz_seccomp, fuzz_tree, fuzz_urls, fuzz_wire)
}


@pytest.fixture(scope="module", autouse=True)
def cleared() -> Iterator[None]:
    """Nothing of theirs is left behind."""
    yield
    fuzzing.clear()


def test_every_target_is_here() -> None:
    """The runner finds the same ones, and no two have a name."""
    assert sorted(MODULES) == sorted(runner.NAMES)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_seeds_hold(name: str) -> None:
    """What each begins with is sound, and short enough to be changed."""
    target = MODULES[name].TARGET
    seeds = target.seeds()
    assert len(set(seeds)) >= 5
    for seed in seeds:
        assert len(seed) <= target.most
        target.judge(seed)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_changed_seeds_hold(name: str) -> None:
    """The properties of long runs, with few examples."""
    target: fuzzing.Target = MODULES[name].TARGET

    @settings(max_examples=house.examples(40))
    @given(fuzzing.mutated(target))
    def holds(data: bytes) -> None:
        target.judge(data)

    holds()


# controls


def _blind_guard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fuzz_urls, "why_not_public", lambda address: "")
    patch.setattr(fuzz_urls.AddressGuard, "why_not", lambda *arguments: "")


def _blind_verifier(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fuzz_audit.Sealer, "fits", lambda sealer, row: True)


def _loose_paths(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fuzz_paths, "parts_of", lambda path: tuple(path.split("/")))


def _followed_links(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fuzz_paths.beneath, "_STRICT", 0)


def _wrong_jump(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fuzz_seccomp.bpf, "_JUMP_GE", 0x45)


def _greedy_parser(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fuzz_wire.frames, "_unpack", lambda buf, pos: (1, 0x42, 0, 2, 0))


def _executed_manifest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fuzz_manifest.manifest_text, "read_python", lambda data: {"id": "another"})


def _odd_names(patch: pytest.MonkeyPatch) -> None:
    import fastness.runner.tree

    patch.setattr(fastness.runner.tree, "plain_name", lambda text: True)


def _half_applied(patch: pytest.MonkeyPatch) -> None:
    from fastness.errors import ApplyRefused

    def apply(project: object, found: object, folder: Path) -> None:
        (folder / "half").write_bytes(b"")
        raise ApplyRefused(["never"])

    patch.setattr(fuzz_tree, "apply", apply)


@pytest.mark.parametrize(
    ("name", "breaks"),
    [
        ("urls", _blind_guard), ("audit", _blind_verifier), ("paths", _loose_paths), ("paths", _followed_links), ("seccomp", _wrong_jump),
        ("wire", _greedy_parser), ("manifest", _executed_manifest), ("tree", _odd_names), ("tree", _half_applied),
    ],
)  # fmt: skip
def test_control_what_is_broken_is_noticed(
    name: str, breaks: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control: with one protection taken out, some seed of the target fails."""
    target = MODULES[name].TARGET
    breaks(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017  # which one depends on what was broken
        for seed in target.seeds():
            target.judge(seed)


def test_control_bounds_are_bounds() -> None:
    """Control: more memory than a block may have, and more time than an input may take, are failures."""
    with pytest.raises(AssertionError, match="memory"), fuzzing.memory(1 << 16):
        bytearray(1 << 20)
    slow = fuzzing.Target(name="slow", says="", one=lambda data: sum(range(10**6)), seeds=list)  # type: ignore[arg-type, return-value]  # what it returns is nobody's
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuzzing, "CPU_S", 0.0)
        with pytest.raises(AssertionError, match="processor time"):
            slow.judge(b"")


# the runner

#: A target that fails for some inputs, which only a search finds in reasonable time.
BROKEN = """
import fuzzing

def one(data):
    assert b"\\x07" not in data, "there is a seven"

TARGET = fuzzing.Target("broken", "no input has a seven", one, lambda: [b"abc", b"abd"])
"""


def test_the_runner_fails_and_shows_the_input(tmp_path: Path) -> None:
    """A target that does not hold is named with an input that shows it, and that input shows it once more."""
    for path in FUZZ.glob("*.py"):
        if path.stem in ("run", "fuzzing"):
            (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / "fuzz_broken.py").write_text(BROKEN)
    command = [sys.executable, "-B", str(tmp_path / "run.py"), "broken"]
    done = subprocess.run(
        [*command, "--engine", "hypothesis", "--seconds", "30"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("inputs by hypothesis ")
    assert "there is a seven" in done.stdout
    assert "input: b'\\x07'" in done.stdout
    assert done.stdout.rstrip().endswith("FAILED: broken")
    again = subprocess.run([*command, "--input", "07"], check=False, capture_output=True, text=True, timeout=60)
    assert again.returncode == 1
    assert "there is a seven" in again.stderr
    good = subprocess.run([*command, "--input", "08"], check=False, capture_output=True, text=True, timeout=60)
    assert (good.returncode, good.stdout) == (0, "it holds\n")


def test_progress_of_the_fuzzer_is_read() -> None:
    """Its lines as it writes them; others are nothing."""
    went = runner.Went("x", "atheris")
    for line in (
        "#2048\tpulse  cov: 12 ft: 34 corp: 5/67b lim: 8 exec/s: 1024 rss: 90Mb\n",
        "INFO: Seed: 1\n",
        "stat::number_of_executed_units: 4096\n",
    ):
        runner.read(line, went)
    assert (went.count, went.edges, went.features, went.corpus) == (4096, 12, 34, 5)
    assert "4096 inputs" in went.row()

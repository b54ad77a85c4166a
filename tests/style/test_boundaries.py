"""The page of boundaries is made of the code and of what came of attacks, and says nothing that neither backs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fastness.attack.boundaries import behind
from fastness.attack.boundaries.failures import FAILURES
from fastness.attack.boundaries.guarantees import BOUNDARIES
from fastness.attack.boundaries.questions import QUESTIONS
from fastness.attack.boundaries.rules import RULES
from fastness.attack.boundaries.tiers import LIMITS
from fastness.attack.model import Rule
from fastness.tier import LIMITS_OF, Guarantee, Tier

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "security"


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = str(tree / "tools" / "boundaries.py")
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The tool and both pages, in a place of their own."""
    for name in (
        "tools/boundaries.py",
        "docs/security/attacks.md",
        "docs/security/boundaries.md",
        "docs/security/failures.md",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_nothing_is_wrong() -> None:
    """The page is what the code says, each sentence has an attack that held, and each attack a sentence and a row."""
    done = run(ROOT, "--check")
    assert done.returncode == 0, done.stderr


def test_a_stale_page_is_found_and_written(tree: Path) -> None:
    """One other word is seen, the command that mends it is told, and does."""
    page = tree / "docs" / "security" / "boundaries.md"
    right = page.read_text("utf-8")
    page.write_text(right.replace("by starting a program", "by running a program"), "utf-8")
    done = run(tree, "--check")
    assert done.returncode == 1
    assert "boundaries.md is stale" in done.stderr
    assert "python tools/boundaries.py" in done.stderr
    assert run(tree).returncode == 0
    assert page.read_text("utf-8") == right


def test_a_sentence_without_an_attack_that_held_is_found(tree: Path) -> None:
    """So is one of which the only attack was left out, and a row that was taken out."""
    page = tree / "docs" / "security" / "attacks.md"
    right = page.read_text("utf-8")
    (row,) = [line for line in right.splitlines() if "`files.from_a_program`" in line and "namespace" in line][-1:]
    page.write_text(right.replace(row, row.replace("| namespace |", "| **skipped** |")), "utf-8")
    said = run(tree, "--check").stderr
    assert "OWN_ROOT: no attack that held is behind: A guest reaches the machine's root" in said
    page.write_text(right.replace(row + "\n", "", 1), "utf-8")
    assert "no row for files.from_a_program" in run(tree, "--check").stderr


def test_what_came_of_a_run_is_checked_by_itself(tree: Path) -> None:
    """Rows of some tiers are enough for these tiers; later files count more; nothing is not enough."""
    text = (FOLDER / "attacks.md").read_text("utf-8")
    head, *parts = text.split("\n## ")
    worker = next(part for part in parts if part.startswith("worker\n"))
    one = tree / "one.md"
    one.write_text(head + "\n## " + worker, "utf-8")
    assert run(tree, "--ran", str(one)).returncode == 0
    (row,) = [line for line in worker.splitlines() if "`output.terminal_escapes`" in line]
    failed = row.rsplit("|", 2)[0] + "| **void** |"
    two = tree / "two.md"
    two.write_text(f"# Later\n\n## worker\n\n{failed}\n", "utf-8")
    done = run(tree, "--ran", str(one), str(two))
    assert (done.returncode, "acts on control characters of a guest" in done.stderr) == (1, True)
    assert run(tree, "--ran", str(two), str(one)).returncode == 0
    two.write_text("# Nothing\n", "utf-8")
    assert run(tree, "--ran", str(two)).returncode == 1


def test_every_guarantee_and_rule_has_its_sentences_once() -> None:
    """Those that no tier of this version promises have none."""
    promised = {one.of for one in BOUNDARIES}
    assert len(promised) == len(BOUNDARIES)
    assert {guarantee for tier in behind.TIERS for guarantee in Tier(tier).guarantees} == promised
    assert set(Guarantee) - promised == {Guarantee.OWN_UID, Guarantee.PRIVATE_KERNEL}
    assert [one.of for one in RULES] == list(Rule)


def test_what_a_tier_does_not_stop_is_said_once() -> None:
    """The short form is put together from the sentences."""
    assert {tier: "; ".join(one.brief for one in said if one.brief) for tier, said in LIMITS.items()} == LIMITS_OF


def test_what_has_failed_elsewhere_is_tried() -> None:
    """Each of the classes that were gathered is there once, with something that tries it."""
    every = [one for group in FAILURES.values() for one in group]
    assert len({one.what for one in every}) == len(every) == 34
    assert all(one.tried and one.where and one.what.endswith(".") for one in every)


def test_tests_that_are_named_exist() -> None:
    """Where something is tried by a test, there is that file."""
    named = {name for one in BOUNDARIES for breach in one.breaches for name in breach.elsewhere.values()}
    named |= {name for question in QUESTIONS for name in question.attacks if behind.is_test(name)}
    named |= {name for group in FAILURES.values() for one in group for name in one.tried if behind.is_test(name)}
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []

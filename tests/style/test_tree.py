"""What holds for every file of the tree: size, names, addresses, and lists that must be whole."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import fastness
import house
from fastness.attack import registry
from fastness.attack.model import Layer, Rule
from fastness.runs import DenialCode, OutcomeKind
from fastness.tier import Tier

ROOT = house.SOURCE.parent
PACKAGE = house.SOURCE / "fastness"

#: No file of the package is longer.
LONGEST = 450
#: A file longer than this has its reason here.
LONG = 400
REASONS = {
    "guest/boot.py": "one program that starts inside the guest and can import nothing of ours",
    "guest/native.py": "one program too, which three kinds of guests find as one text",
}


def tracked() -> list[Path]:
    """Files that are, or are about to be, in the repository."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=True
    )
    return [path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def texts() -> list[tuple[str, str]]:
    """Name and text of every tracked text file."""
    found = []
    for path in tracked():
        data = path.read_bytes()
        if b"\0" not in data:
            found.append((str(path.relative_to(ROOT)), data.decode("utf-8")))
    return found


# files


def test_files_are_short() -> None:
    """A file of the package that is long has a reason, and none is longer than the limit."""
    long = {}
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", ".js"):
            lines = path.read_text().count("\n")
            name = str(path.relative_to(PACKAGE))
            assert lines <= LONGEST, f"{name} has {lines} lines: split it"
            if lines > LONG:
                long[name] = lines
    assert set(long) <= set(REASONS), f"without a reason: {sorted(set(long) - set(REASONS))}"
    assert set(REASONS) <= set(long), f"reasons for files that are short by now: {sorted(set(REASONS) - set(long))}"


def test_no_place_of_a_developers_machine() -> None:
    """No file names a folder of the machine that it was written on, or a package index."""
    # Put together here, so that this file does not find itself.
    machine = re.compile(
        "|".join(
            ("/" + "work/(?:main|shared|lab)", "/tmp/" + "(?:lab|dl|brief)", "/" + "root/", "/home/" + "[a-z]+/(?!x)")
        )
    )
    index = re.compile(
        "|".join(("pypi" + r"\.org", "python" + "hosted", "--index" + "-url https?:", "--find" + '-links [^,"]'))
    )
    for name, text in texts():
        if name == "LICENSE" or name.startswith("tests/"):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for pattern in (machine, index):
                found = pattern.search(line)
                assert found is None, f"{name}:{number}: {found and found[0]!r}"


def test_locks_have_hashes_and_no_addresses() -> None:
    """Every locked requirement is pinned with its hashes; where it comes from is the machine's own business."""
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text()
        assert "://" not in text, lock.name
        for entry in re.split(r"\n(?=\S)", text):
            if entry.strip() and not entry.startswith("#"):
                assert re.match(r"[A-Za-z0-9_.\[\],-]+==\S+", entry), f"{lock.name}: {entry[:60]}"
                assert "--hash=sha256:" in entry, f"{lock.name}: {entry[:60]}"


def test_no_line_ends_in_spaces_and_files_end_in_a_line() -> None:
    """Diffs show what changed and nothing else."""
    for name, text in texts():
        if name.endswith((".py", ".js", ".toml", ".md", ".json", ".wat")):
            assert not re.search(r"[ \t]\n", text), name
            assert not text or (text.endswith("\n") and not text.endswith("\n\n")), name


def test_modules_say_what_they_are() -> None:
    """Every module of the package that has code begins with a docstring."""
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if text.strip() and "guest" not in path.relative_to(PACKAGE).parts:
            assert ast.get_docstring(ast.parse(text)), path


def test_ignores_have_reasons() -> None:
    """A silenced check says what it silences, and why stands beside it."""
    bare = re.compile(r"#\s*(?:noqa(?!: ?[A-Z])|type: ignore(?!\[))")
    unexplained = re.compile(r"#\s*(?:noqa: ?[A-Z0-9, ]+|type: ignore\[[a-z-]+(?:, ?[a-z-]+)*\])\s*$")
    for name, text in texts():
        if not name.endswith(".py") or name.startswith(("tests/", "src/fastness/guest/")):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if re.match(r"\s*#\s*ruff: noqa", line):
                continue
            assert not bare.search(line), f"{name}:{number}"
            assert not unexplained.search(line), f"{name}:{number}"


def _calls(path: Path) -> set[int]:
    return {
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "syscall"
    }


def test_raw_system_calls_say_why_they_are_safe() -> None:
    """Wherever libc's syscall() is called, a SAFETY line stands close above."""
    for path in (PACKAGE / "_linux").glob("*.py"):
        lines = path.read_text().splitlines()
        for number in _calls(path):
            near = "\n".join(lines[max(0, number - 12) : number])
            assert "SAFETY:" in near, f"{path.name}:{number}"


# lists that must be whole


def test_public_names_are_exported_once() -> None:
    """`__all__`, the map of where names live, and the imports for type checkers list the same names, each once."""
    names = Counter(fastness.__all__)
    assert [name for name, count in names.items() if count > 1] == []
    homes = Counter(name for group in fastness._HOME.values() for name in group)
    assert [name for name, count in homes.items() if count > 1] == []
    assert set(names) == set(homes)
    typed: Counter[str] = Counter()
    for node in ast.walk(ast.parse((PACKAGE / "__init__.py").read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fastness."):
            typed.update(alias.name for alias in node.names)
    assert typed == homes
    for module, group in fastness._HOME.items():
        for name in group:
            assert getattr(fastness, name) is getattr(importlib.import_module(module), name)


def test_attacks_are_whole() -> None:
    """Every attack says what it claims, has a control of its own, and says what stops it where, in terms that exist."""
    attacks = registry.load()
    assert len(attacks) >= 60
    for attack in attacks:
        assert attack.claim.says[0].isupper(), attack.id
        assert attack.attack is not attack.control, attack.id
        assert attack.attack.__doc__ or attack.control.__doc__, attack.id
        assert attack.tiers, attack.id
        module = importlib.import_module(attack.attack.__module__)
        assert module.__doc__, attack.id
        for tier, expect in attack.tiers.items():
            # Rules of the broker are kept by the host, whichever tier the guest is in.
            promised = {*Tier(tier).guarantees, *Rule}
            # What a tier is said not to stop is also shown beside what only others promise.
            allowed = expect.layer is Layer.NOTHING
            assert allowed or attack.claim.guarantee in promised, f"{attack.id}: {tier} does not promise this"
            assert not expect.says or expect.says[0].isupper(), attack.id
            assert set(expect.outcomes) <= {kind.value for kind in OutcomeKind}, attack.id
            if expect.layer in (Layer.WASI, Layer.GUEST, Layer.BROKER):
                assert expect.code in {code.value for code in DenialCode}, attack.id


def test_claims_are_not_repeated() -> None:
    """Two attacks that claim the same words would be two rows of one thing."""
    said = Counter(attack.claim.says for attack in registry.load())
    assert [text for text, count in said.items() if count > 1] == []


def test_every_decision_record_is_listed() -> None:
    """The index names every record with its title, numbers do not repeat, and each has its parts."""
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    numbers = []
    for path in sorted(folder.glob("[0-9]*.md")):
        text = path.read_text()
        number = path.name[:4]
        numbers.append(int(number))
        title = re.match(rf"# {number}: (.+)\n", text)
        assert title, path.name
        assert f"[{number}]({path.name}): {title[1]}" in index, f"{path.name} is not in the index with its title"
        for part in ("Context:", "Decision:"):
            assert part in text, f"{path.name}: no {part}"
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(re.findall(r"^- \[", index, re.MULTILINE)) == len(numbers)


@pytest.mark.parametrize("path", sorted((PACKAGE / "data" / "seccomp").glob("*.json")), ids=lambda path: path.name)
def test_every_rule_of_a_filter_says_why(path: Path) -> None:
    """An allowed system call without a reason is one that nobody has thought about."""
    profile = json.loads(path.read_text())
    assert profile["about"]
    rules = [rule for group in profile["groups"].values() for rule in group if isinstance(rule, dict)]
    assert rules
    for rule in rules:
        assert rule.get("why"), rule
        assert len(rule["why"]) >= 7, rule


def test_contracts_of_imports() -> None:
    """The contracts are there, and the layers name every module of the package's first level."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = {contract["name"]: contract for contract in project["tool"]["importlinter"]["contracts"]}
    layers = contracts["who may import whom"]["layers"]
    named = {name.split(".")[1] for layer in layers for name in re.split(r"[|:]", layer.replace(" ", ""))}
    modules = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    # Data, and what runs inside the guest and is imported by nobody, have contracts of their own.
    assert modules - named <= {"__init__", "data", "guest"}
    assert {contract["type"] for contract in contracts.values()} >= {"layers", "independence", "forbidden"}
    assert "nothing unpickles" in contracts


def test_only_hosts_call_into_c() -> None:
    """Ctypes is imported below _linux and _wasi, and nowhere else."""
    for path in PACKAGE.rglob("*.py"):
        within = path.relative_to(PACKAGE).parts[0]
        if within not in ("_linux", "_wasi", "guest", "attack"):
            assert not re.search(r"^\s*(?:import|from) ctypes", path.read_text(), re.MULTILINE), path


def test_the_changelog() -> None:
    """Keep a Changelog: versions newest first, known headings, the version of the package on top."""
    text = (ROOT / "CHANGELOG.md").read_text()
    assert text.startswith("# Changelog\n")
    versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    dated = [version for version in versions if version != "[Unreleased]"]
    for version in dated:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - (\d{4}-\d\d-\d\d|unreleased)", version), version
    assert dated[0].startswith(f"[{fastness.__version__}]")
    numbers = [tuple(map(int, re.findall(r"\d+", version)[:3])) for version in dated]
    assert numbers == sorted(numbers, reverse=True)
    for heading in re.findall(r"^### (.+)$", text, re.MULTILINE):
        assert heading in ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"), heading

"""Files that tools run by themselves are applied only where each is named, whatever folder git may take for its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tree_support import Copy, write

import house
from fastness.errors import ApplyRefused
from fastness.runner import triggers
from fastness.runner.triggers import acted_on_by, git_folders, is_allowed

_API = Path(__file__).parents[3] / "docs/api.md"

NAMED = [
    ".pytest.ini", "pytest.ini", "setup.cfg", "pyproject.toml", "sub/pyproject.toml", ".hg/hgrc", "sub/.hg/store/x",
    ".Rprofile", ".iex.exs", ".ghci", ".pylintrc", "pylintrc", "bunfig.toml", ".pnp.cjs", ".pnp.loader.mjs",
    ".mise.toml", "mise.toml", "mise.local.toml", ".mise.local.toml", ".mise/config.toml", ".mise/tasks/x",
    ".config/mise/config.toml", ".env", ".env.local", "sub/.env", ".zlogout", ".lvimrc", ".exrc",
    ".forgejo/workflows/x.yml", ".gitea/workflows/x.yml", ".woodpecker.yml", ".woodpecker.yaml", ".woodpecker/x.yml",
    ".cirrus.yml", ".gemini/settings.json", ".codex/config.toml", ".claude/settings.json", ".cursor/mcp.json",
    "a/__pycache__/x.cpython-311.pyc", "x.pyc", ".venv/bin/python", "venv/bin/activate", "sub/venv/lib/x.py",
    "node_modules/.bin/tsc", "sub/node_modules/.bin/tsc", ".coveragerc", ".flake8", "mypy.ini", "eslint.config.mjs",
    ".pdbrc", "jupyter_server_config.py", "sub/jupyter_notebook_config.json", "Cargo.toml", ".lintstagedrc.json",
    "lint-staged.config.mjs", ".prettierrc", ".prettierrc.cjs", "prettier.config.js", ".aider.conf.yml", ".rspec",
    "gradle/wrapper/gradle-wrapper.jar", "appveyor.yml", ".appveyor.yml", ".drone.yaml", "azure-pipelines.ci.yaml",
    "env/bin/activate", "env/bin/Activate.ps1", "CLAUDE.md", "sub/AGENTS.md", ".cursorrules", ".continue/config.yaml",
    ".windsurf/rules/x.md", ".github/copilot-instructions.md", ".dir-locals-2.el", ".helix/languages.toml",
    ".bsp/a.json", "hie.yaml", ".luarc.json", ".tool-versions", ".octaverc", ".ocamlinit", ".perldb", ".bazelrc",
    "tools/bazel", ".terraform/x", "_darcs/prefs/defaults", ".sl/config", ".rvmrc", ".pdm-python", ".pnpmfile.mjs",
    ".kiro/hooks/x", ".opencode/x", "opencode.json", ".roo/mcp.json",
]  # fmt: skip


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(home))
    return Copy(tmp_path)


def refused(copy: Copy, *allow: str) -> list[str]:
    """The paths that must be named; none where the changes are applied."""
    try:
        copy.apply(allow)
    except ApplyRefused as caught:
        assert all("name it to allow it" in line for line in caught.problems)
        return sorted(line.partition(":")[0] for line in caught.problems)
    return []


@pytest.mark.parametrize("path", NAMED)
def test_they_must_be_named(copy: Copy, path: str) -> None:
    """Each by its path, in any letter case."""
    assert acted_on_by(path) and acted_on_by(path.upper())
    write(copy.real / "ordinary")
    copy.fill()
    write(copy.work / path, b"guest")
    assert refused(copy) == [path]
    assert refused(copy, path) == []


@pytest.mark.parametrize(
    "path",
    ["a.py", "HEAD", "config", "hooks/x", "refs/x", "objects/x", "environment", "src/venv.py", "node_modules/a/x.js",
     "a/__pycache__", "docs/mise.md", "gradle/x", "bin/activated", "agents.py", "Cargo.lock", "tests/test_env.py", "env/x.py"],
)  # fmt: skip
def test_others_need_no_name(path: str) -> None:
    """Names that only begin alike, and parts of a repository outside one."""
    assert not acted_on_by(path)


def test_a_repository_under_any_name_must_be_named(copy: Copy) -> None:
    """All that makes it one, so that what it would run is seen."""
    write(copy.real / "docs/readme")
    copy.fill()
    parts = [f"docs/{part}" for part in ("HEAD", "config", "hooks/post-index-change", "objects/keep", "refs/keep.lock")]
    for path in (*parts, "docs/more"):
        write(copy.work / path)
    assert refused(copy) == parts
    assert refused(copy, "docs") == []


def test_git_takes_such_a_folder_for_a_repository(copy: Copy) -> None:
    """The folder that must be named is one whose settings git obeys."""
    if shutil.which("git") is None:
        house.lacks("there is no git here")
    write(copy.real / "docs/HEAD", b"ref: refs/heads/main\n")
    write(copy.real / "docs/config", b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n[x]\n\ty = obeyed\n")
    write(copy.real / "docs/objects/keep")
    write(copy.real / "docs/refs/heads/keep.lock")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    found = subprocess.run(
        ["git", "config", "x.y"], cwd=copy.real / "docs", env=plain, capture_output=True, text=True, check=False
    )
    assert found.stdout == "obeyed\n"
    assert git_folders(str(path.relative_to(copy.real)) for path in copy.real.rglob("*")) == {"docs"}


@pytest.mark.parametrize("missing", ["HEAD", "objects", "refs"])
def test_the_part_that_was_missing_must_be_named(copy: Copy, missing: str) -> None:
    """What makes a folder a repository may come in parts, and settings that are there by then count."""
    contents = {"HEAD": "HEAD", "objects": "objects/keep", "refs": "refs/keep"}
    for name, path in contents.items():
        if name != missing:
            write(copy.real / "a/b" / path)
    copy.fill()
    write(copy.work / "a/b/config")
    write(copy.work / "a/b" / contents[missing])
    assert refused(copy) == sorted(["a/b/config", f"a/b/{contents[missing]}"])


def test_changes_of_a_repository_that_is_there_must_be_named(copy: Copy) -> None:
    """Deleting too, in the project's own folder too, and where its folders are empty."""
    write(copy.real / "HEAD")
    write(copy.real / "config")
    write(copy.real / "hooks/update")
    (copy.real / "objects").mkdir()
    (copy.real / "refs").mkdir()
    copy.fill()
    write(copy.work / "config", b"guest")
    write(copy.work / "hooks/update", b"guest")
    write(copy.work / "src/config", b"guest")
    (copy.work / "HEAD").unlink()
    assert refused(copy) == ["HEAD", "config", "hooks/update"]


def test_links_and_left_out_parts_count(copy: Copy) -> None:
    """Git follows a link to the objects, and finds what the guest was not given."""
    write(copy.real / "plain/x")
    write(copy.real / "a/HEAD")
    (copy.real / "a/objects").symlink_to("/nowhere")
    copy.fill()
    (copy.work / "a/refs").symlink_to("../plain")
    write(copy.work / "a/config")
    assert refused(copy) == ["a/config", "a/refs"]


def test_a_folder_that_names_another_as_its_repository_must_be_named(copy: Copy) -> None:
    """As work trees have it."""
    copy.fill()
    write(copy.work / "a/HEAD")
    write(copy.work / "a/commondir", b"../b")
    write(copy.work / "b/config")
    assert refused(copy) == ["a/HEAD", "a/commondir"]


def test_the_reference_lists_them_all() -> None:
    """What must be named is said to the reader."""
    text = _API.read_text(encoding="utf-8")
    folders = [f"`{name}/**`" for name in triggers.TRIGGER_FOLDERS]
    names = [f"`{name}`" for name in (*triggers.TRIGGER_NAMES, *triggers.TRIGGER_PLACES)]
    low = text.lower()
    assert [name for name in (*folders, *names) if name not in low] == []


@pytest.mark.parametrize("spelled", ["./conftest.py", "conftest.py/", ".//conftest.py", "sub/../conftest.py", "./."])
def test_a_path_may_be_spelled_in_any_way(spelled: str) -> None:
    """It means what the shell's completion, or a person, meant by it; and no spelling means all."""
    assert is_allowed("conftest.py", [spelled]) is (spelled != "./.")
    assert not is_allowed("other/conftest.py", [spelled])
    assert is_allowed("a/b/c", ["./a//b/"])
    assert not any(is_allowed("a", [item]) for item in ("", "/", ".", "..", "./"))


def with_settings(folder: Path, text: str) -> None:
    """Make a folder a repository with these settings."""
    write(folder / ".git/HEAD", b"ref: refs/heads/main\n")
    write(folder / ".git/config", text.encode())


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ("[core]\n\thooksPath = myhooks\n", "myhooks/pre-commit"),
        ('[core]\n\thookspath = "my hooks/"\n', "my hooks/pre-commit"),
        ("[core]\n\tfsmonitor = ./tools/watch\n", "tools/watch"),
        ("[include]\n\tpath = ../shared.settings\n", "shared.settings"),
        ('[filter "a"]\n\tclean = python3 clean.py %f\n', "clean.py"),
        ('[diff "a"] textconv = tools/show \\\n\t--plain\n', "tools/show"),
        ("[alias]\n\tx = !sh scripts/x.sh\n", "scripts/x.sh"),
        ('[credential "https://a"]\n\thelper = "!scripts/ask"\n', "scripts/ask"),
    ],
)
def test_what_the_settings_of_git_name_must_be_named(copy: Copy, settings: str, path: str) -> None:
    """It runs from there at the next commit, checkout or status."""
    with_settings(copy.real, settings)
    write(copy.real / path)
    copy.fill()
    write(copy.work / path, b"guest")
    write(copy.work / "src/a.py", b"guest")
    assert refused(copy) == [path]
    assert refused(copy, path) == []


def test_settings_above_below_and_beside_count(copy: Copy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the repository that the project is a part of, of one in it, of a work tree, and of the user."""
    with_settings(tmp_path, f"[core]\n\thooksPath = {copy.real.name}/above\n")
    with_settings(copy.real / "part", "[core]\n\thooksPath = below\n")
    write(tmp_path / "elsewhere/config", b"[core]\n\thooksPath = beside\n")
    write(tmp_path / "elsewhere/worktrees/w/commondir", b"../..\n")
    write(copy.real / "tree/.git", b"gitdir: ../../elsewhere/worktrees/w\n")
    write(tmp_path / "user/.gitconfig", b"[include]\n\tpath = more\n")
    write(tmp_path / "user/more", f"[core]\n\teditor = {copy.real}/mine\n".encode())
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    copy.fill()
    paths = ["above/x", "mine", "part/below/x", "tree/beside/x"]
    for path in (*paths, "below/x", "beside/x"):
        write(copy.work / path, b"guest")
    assert refused(copy) == paths


def test_settings_that_only_sound_like_a_path_name_nothing(copy: Copy) -> None:
    """Names of helpers, branches and subcommands are no files of the project."""
    with_settings(
        copy.real,
        '[credential]\n\thelper = store\n[filter "lfs"]\n\tclean = git-lfs clean -- %f\n[alias]\n\tco = checkout\n'
        '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n[core]\n\tpager = less\n\tfsmonitor = true\n',
    )
    copy.fill()
    for path in ("store/x", "clean", "checkout", "origin/x", "less", "true", "main", "git-lfs"):
        write(copy.work / path, b"guest")
    assert refused(copy) == []


def test_a_link_to_what_the_settings_name_must_be_named(copy: Copy) -> None:
    """What changes is in another folder, and git goes by the link."""
    with_settings(copy.real, "[core]\n\thooksPath = hooked\n")
    write(copy.real / "scripts/pre-commit")
    (copy.real / "hooked").symlink_to("scripts")
    copy.fill()
    write(copy.work / "scripts/pre-commit", b"guest")
    assert refused(copy) == ["scripts/pre-commit"]

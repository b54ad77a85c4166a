"""
Files that tools run, or obey, without being asked: applying a guest's version of one would give it the host.

A person who looks at a diff expects code that they will run on purpose; these run at the next commit, install, test
run, shell start, or when an editor opens the folder.  They are applied only where each is named.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Container, Iterable
from fnmatch import translate

#: Folders (anywhere in the path) below which everything counts, and what acts on it.
TRIGGER_FOLDERS: dict[str, str] = {
    ".git": "git",
    ".hg": "Mercurial",
    ".jj": "Jujutsu",
    ".sl": "Sapling",
    "_darcs": "darcs",
    ".github/workflows": "continuous integration",
    ".github/actions": "continuous integration",
    ".forgejo": "continuous integration",
    ".gitea": "continuous integration",
    ".circleci": "continuous integration",
    ".buildkite": "continuous integration",
    ".woodpecker": "continuous integration",
    ".husky": "git hooks",
    ".githooks": "git hooks",
    ".lefthook": "git hooks",
    ".vscode": "the editor",
    ".idea": "the editor",
    ".zed": "the editor",
    ".helix": "the editor",
    ".bsp": "the editor",
    ".devcontainer": "the editor",
    ".cursor": "the coding agent",
    ".continue": "the coding agent",
    ".windsurf": "the coding agent",
    ".claude": "the coding agent",
    ".codex": "the coding agent",
    ".gemini": "the coding agent",
    ".kiro": "the coding agent",
    ".opencode": "the coding agent",
    ".roo": "the coding agent",
    ".mise": "mise",
    ".config/mise": "mise",
    ".venv": "Python",
    "venv": "Python",
    "node_modules/.bin": "npm",
    ".yarn": "yarn",
    ".mvn": "maven",
    "gradle/wrapper": "gradle",
    ".bundle": "bundler",
    ".terraform": "terraform",
    ".ssh": "ssh",
    ".config/fish": "the shell",
    ".config/autostart": "the desktop",
    ".config/systemd": "systemd",
}

#: Names, as patterns of a shell, and what acts on them.
TRIGGER_NAMES: dict[str, str] = {
    ".gitattributes": "git",
    ".gitmodules": "git",
    ".gitconfig": "git",
    ".gitlab-ci.yml": "continuous integration",
    ".travis.yml": "continuous integration",
    ".drone.y*ml": "continuous integration",
    ".cirrus.y*ml": "continuous integration",
    ".woodpecker*": "continuous integration",
    "azure-pipelines*.y*ml": "continuous integration",
    "appveyor.yml": "continuous integration",
    ".appveyor.yml": "continuous integration",
    "bitbucket-pipelines.yml": "continuous integration",
    "jenkinsfile": "continuous integration",
    ".pre-commit-config.y*ml": "git hooks",
    "lefthook*.y*ml": "git hooks",
    ".lintstagedrc*": "git hooks",
    "lint-staged.config.*": "git hooks",
    ".envrc": "direnv",
    ".env": "whatever loads variables",
    ".env.*": "whatever loads variables",
    ".tool-versions": "mise and asdf",
    "mise.toml": "mise",
    "mise.*.toml": "mise",
    ".mise.toml": "mise",
    ".mise.*.toml": "mise",
    "*.code-workspace": "the editor",
    ".devcontainer.json": "the editor",
    ".mcp.json": "the coding agent",
    ".aider.conf.yml": "the coding agent",
    ".cursorrules": "the coding agent",
    ".windsurfrules": "the coding agent",
    "agents.md": "the coding agent",
    "claude.md": "the coding agent",
    "claude.local.md": "the coding agent",
    "gemini.md": "the coding agent",
    "opencode.json*": "the coding agent",
    ".exrc": "the editor",
    ".vimrc": "the editor",
    ".lvimrc": "the editor",
    ".nvimrc": "the editor",
    ".nvim.lua": "the editor",
    ".dir-locals.el": "the editor",
    ".dir-locals-2.el": "the editor",
    "hie.yaml": "the editor",
    ".luarc.json*": "the editor",
    ".eslintrc*": "eslint",
    "eslint.config.*": "eslint",
    ".prettierrc*": "prettier",
    "prettier.config.*": "prettier",
    ".pylintrc*": "pylint",
    "pylintrc*": "pylint",
    ".flake8": "flake8",
    ".mypy.ini": "mypy",
    "mypy.ini": "mypy",
    "package.json": "npm",
    "binding.gyp": "npm",
    ".npmrc": "npm",
    ".yarnrc*": "yarn",
    ".pnp.*": "yarn",
    ".pnpmfile.*": "pnpm",
    "bunfig.toml": "bun",
    "setup.py": "pip",
    "setup.cfg": "pip and pytest",
    "pyproject.toml": "pip and pytest",
    "conftest.py": "pytest",
    "pytest.ini": "pytest",
    ".pytest.ini": "pytest",
    "pytest.toml": "pytest",
    ".pytest.toml": "pytest",
    ".coveragerc": "coverage",
    "tox.ini": "tox and pytest",
    "noxfile.py": "nox",
    "sitecustomize.py": "Python",
    "usercustomize.py": "Python",
    "*.pth": "Python",
    "*.pyc": "Python",
    "pyvenv.cfg": "Python",
    ".pdm-python": "pdm",
    ".pdbrc": "Python",
    "jupyter_*_config.py": "jupyter",
    "jupyter_*_config.json": "jupyter",
    ".bashrc": "the shell",
    ".bash_*": "the shell",
    ".profile": "the shell",
    ".zshrc": "the shell",
    ".zshenv": "the shell",
    ".zprofile": "the shell",
    ".zlogin": "the shell",
    ".zlogout": "the shell",
    ".tmux.conf": "the shell",
    ".inputrc": "the shell",
    ".rvmrc": "the shell",
    "build.rs": "cargo",
    "cargo.toml": "cargo",
    "rust-toolchain*": "cargo",
    ".irbrc": "Ruby",
    ".rspec": "rspec",
    ".pryrc": "Ruby",
    ".rprofile": "R",
    ".renviron": "R",
    ".ghci": "GHCi",
    ".iex.exs": "IEx",
    ".ocamlinit": "OCaml",
    ".octaverc": "Octave",
    ".perldb": "the debugger",
    ".bazelrc": "bazel",
    ".bazeliskrc": "bazel",
    ".gdbinit": "the debugger",
    ".lldbinit": "the debugger",
}

#: Paths, anywhere in the tree.
TRIGGER_PLACES: dict[str, str] = {
    ".cargo/config": "cargo",
    ".cargo/config.toml": "cargo",
    ".github/copilot-instructions.md": "the coding agent",
    "tools/bazel": "bazel",
    "bin/activate": "the shell",
    "bin/activate.csh": "the shell",
    "bin/activate.fish": "the shell",
    "bin/activate.ps1": "the shell",
    "bin/activate_this.py": "Python",
}

#: What git obeys in a folder that it takes for a repository, or takes it for one by.
GIT_PARTS = frozenset({"head", "commondir", "config", "config.worktree", "hooks", "info", "objects", "refs"})
#: What git takes a folder for a repository by, all of one row (setup.c: is_git_directory).  Content is not looked at.
_GIT_SIGNS = (frozenset({"head", "objects", "refs"}), frozenset({"head", "commondir"}))
_GIT_SIGN = frozenset().union(*_GIT_SIGNS)


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Names that are patterns.  Made where they are first asked for: most runs apply nothing."""
    return tuple((re.compile(translate(name)), by) for name, by in TRIGGER_NAMES.items() if set(name) & set("*?["))


def git_folders(paths: Iterable[str]) -> frozenset[str]:
    """
    The folders of a tree, in lower case, that git may take for a repository, whatever they are called.

    git looks into every folder above the one that it is started in.  ``paths`` are all files and folders.
    """
    found: dict[str, set[str]] = {}
    for path in paths:
        parts = path.lower().split("/")
        if _GIT_SIGN.isdisjoint(parts):
            continue
        for depth, part in enumerate(parts):
            if part in _GIT_SIGN:
                found.setdefault("/".join(parts[:depth]), set()).add(part)
    return frozenset(folder for folder, has in found.items() if any(signs <= has for signs in _GIT_SIGNS))


def acted_on_by(path: str, repositories: Container[str] = ()) -> str:
    """
    What acts on a file of this path by itself, or nothing.  Letter case does not matter.

    ``repositories`` is what :func:`git_folders` found in the tree as it will be.
    """
    low = path.lower()
    within = f"/{low}/"
    for folder, by in TRIGGER_FOLDERS.items():
        if f"/{folder}/" in within:
            return by
    for place, by in TRIGGER_PLACES.items():
        if within.endswith(f"/{place}/"):
            return by
    name = low.rpartition("/")[2]
    by = TRIGGER_NAMES.get(name) or next((by for pattern, by in _patterns() if pattern.match(name)), "")
    if by:
        return by
    parts = low.split("/")
    for depth, part in enumerate(parts):
        if part in GIT_PARTS and "/".join(parts[:depth]) in repositories:
            return "git, which takes its folder for a repository,"
    return ""


def is_allowed(path: str, allow: Iterable[str]) -> bool:
    """Whether a path, or a folder that it is in, is one of ``allow``, in any spelling: ``./a//b/`` is ``a/b``."""
    return any(path == item or path.startswith(item + "/") for item in map(os.path.normpath, allow))

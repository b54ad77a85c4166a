"""
Files that tools run, or obey, without being asked: applying a guest's version of one would give it the host.

A person who looks at a diff expects code that they will run on purpose; these run at the next commit, install, test
run, shell start, or when an editor opens the folder.  They are applied only where each is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate

#: Folders (anywhere in the path) below which everything counts, and what acts on it.
TRIGGER_FOLDERS: dict[str, str] = {
    ".git": "git",
    ".github/workflows": "continuous integration",
    ".github/actions": "continuous integration",
    ".circleci": "continuous integration",
    ".buildkite": "continuous integration",
    ".husky": "git hooks",
    ".githooks": "git hooks",
    ".lefthook": "git hooks",
    ".vscode": "the editor",
    ".idea": "the editor",
    ".zed": "the editor",
    ".cursor": "the editor",
    ".claude": "the editor",
    ".devcontainer": "the editor",
    ".yarn": "yarn",
    ".mvn": "maven",
    ".bundle": "bundler",
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
    ".drone.yml": "continuous integration",
    "azure-pipelines*.yml": "continuous integration",
    "bitbucket-pipelines.yml": "continuous integration",
    "jenkinsfile": "continuous integration",
    ".pre-commit-config.y*ml": "git hooks",
    "lefthook*.y*ml": "git hooks",
    ".envrc": "direnv",
    "mise.toml": "mise",
    ".mise.toml": "mise",
    "*.code-workspace": "the editor",
    ".devcontainer.json": "the editor",
    ".mcp.json": "the editor",
    ".exrc": "the editor",
    ".vimrc": "the editor",
    ".nvimrc": "the editor",
    ".nvim.lua": "the editor",
    ".dir-locals.el": "the editor",
    "package.json": "npm",
    "binding.gyp": "npm",
    ".npmrc": "npm",
    ".yarnrc*": "yarn",
    ".pnpmfile.cjs": "pnpm",
    "setup.py": "pip",
    "conftest.py": "pytest",
    "pytest.ini": "pytest",
    "tox.ini": "tox",
    "noxfile.py": "nox",
    "sitecustomize.py": "Python",
    "usercustomize.py": "Python",
    "*.pth": "Python",
    "pyvenv.cfg": "Python",
    ".bashrc": "the shell",
    ".bash_*": "the shell",
    ".profile": "the shell",
    ".zshrc": "the shell",
    ".zshenv": "the shell",
    ".zprofile": "the shell",
    ".zlogin": "the shell",
    ".tmux.conf": "the shell",
    ".inputrc": "the shell",
    "build.rs": "cargo",
    "rust-toolchain*": "cargo",
    ".irbrc": "Ruby",
    ".gdbinit": "the debugger",
    ".lldbinit": "the debugger",
}

#: Paths, anywhere in the tree.
TRIGGER_PLACES: dict[str, str] = {
    ".cargo/config": "cargo",
    ".cargo/config.toml": "cargo",
}

_names = [(re.compile(translate(pattern)), by) for pattern, by in TRIGGER_NAMES.items()]


def acted_on_by(path: str) -> str:
    """What acts on a file of this path by itself, or nothing.  Letter case does not matter."""
    low = path.lower()
    within = f"/{low}/"
    for folder, by in TRIGGER_FOLDERS.items():
        if f"/{folder}/" in within:
            return by
    for place, by in TRIGGER_PLACES.items():
        if within.endswith(f"/{place}/"):
            return by
    name = low.rpartition("/")[2]
    return next((by for pattern, by in _names if pattern.match(name)), "")


def is_allowed(path: str, allow: Iterable[str]) -> bool:
    """Whether a path, or a folder that it is in, is one of ``allow``."""
    return any(path == item or path.startswith(item.rstrip("/") + "/") for item in allow if item.strip("/"))

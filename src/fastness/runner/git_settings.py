"""
What git's settings name in a project: hooks, drivers and other programs that git starts from there by itself.

``core.hooksPath`` may be any folder of the tree, and then a guest's version of a file in it runs at the next commit.
The settings are those of the real project and of the user, as git finds them (git-config(1), FILES), never a guest's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

__all__ = ["named_by_git"]

#: Last parts of names of settings whose values are files or folders, and of those whose values are commands.
_PLACES = frozenset({"hookspath", "path", "attributesfile", "templatedir"})
_COMMANDS = frozenset(
    {
        "fsmonitor", "sshcommand", "editor", "pager", "askpass", "gitproxy", "alternaterefscommand", "external",
        "command", "textconv", "clean", "smudge", "process", "driver", "cmd", "program", "defaultkeycommand",
        "difffilter", "packobjectshook", "uploadpack", "receivepack",
    }
)  # fmt: skip
#: Those whose values are commands where they begin with one of these, and names that git knows elsewhere; all of
#: aliases are such.
_MAY_BE_COMMANDS = frozenset({"helper", "update"})
_MARKS = ("!", "/", "~", "./", "../")
_SECTION = re.compile(r"\s*\[\s*([\w.-]+)")
_SETTING = re.compile(r"(?:\s*\[[^]]*\])?\s*([A-Za-z][\w-]*)\s*=(.*)")
_WORDS = re.compile(r"[^\s\"'`;|&()<>=!$]+")
#: Bytes of a file of settings that are read, and files that are.
_BYTES_MAX = 1 << 20
_FILES_MAX = 64


def named_by_git(project: str, paths: Iterable[str] = ()) -> frozenset[str]:
    """
    Paths below the folder ``project``, in lower case, that settings of git name; what is below them is meant too.

    ``paths`` are what the project holds: there may be repositories below it.  Never raises for a file that cannot be
    read: git could not read it either.
    """
    real = os.path.realpath(project)
    found: set[str] = set()
    for file, base in _files(real, paths):
        for word in _values(file):
            # Included files are looked for beside the file that names them, all else in the work tree.
            for where in (base, os.path.dirname(file)):
                path = os.path.normpath(os.path.join(where, os.path.expanduser(word)))
                found.update(path[len(top) + 1 :].lower() for top in {real, project} if path.startswith(f"{top}/"))
    return frozenset(found)


def _files(real: str, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Files of settings, each with the work tree that it is for."""
    trees = [real]
    trees += [os.path.join(real, path[: -len("/.git/config")]) for path in paths if path.endswith("/.git/config")]
    trees += [os.path.join(real, path[: -len("/.git")]) for path in paths if path.endswith("/.git")]
    above = real
    while not os.path.lexists(os.path.join(above, ".git")) and above != os.path.dirname(above):
        above = os.path.dirname(above)
    trees.append(above)
    home = os.path.expanduser("~")
    own = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    users = [os.path.join(home, ".gitconfig"), os.path.join(own, "git", "config"), "/etc/gitconfig"]
    users += [os.environ[name] for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM") if os.environ.get(name)]
    todo = [(file, above) for file in users]
    for tree in dict.fromkeys(trees):
        todo += [(file, tree) for file in _of_repository(os.path.join(tree, ".git"))]
    seen: set[tuple[str, str]] = set()
    while todo and len(seen) < _FILES_MAX:
        file, base = todo.pop(0)
        if (file, base) in seen:
            continue
        seen.add((file, base))
        yield file, base
        beside = os.path.dirname(file)
        todo += [(os.path.normpath(os.path.join(beside, os.path.expanduser(one))), base) for one in _included(file)]


def _of_repository(git: str) -> list[str]:
    """The files of settings of a repository; ``git`` may be a file that says where it is (gitrepository-layout(5))."""
    if os.path.isfile(git):
        text = _text(git)
        if not text.startswith("gitdir:"):
            return []
        git = os.path.normpath(os.path.join(os.path.dirname(git), text[len("gitdir:") :].strip()))
    common = os.path.join(git, _text(os.path.join(git, "commondir")).strip() or ".")
    return [os.path.join(git, "config.worktree"), os.path.normpath(os.path.join(common, "config"))]


def _settings(file: str) -> Iterator[tuple[str, str, str]]:
    section = ""
    for line in _text(file).replace("\\\n", " ").splitlines():
        if head := _SECTION.match(line):
            section = head[1].lower().partition(".")[0]
        if setting := _SETTING.match(line):
            yield section, setting[1].lower(), setting[2]


def _values(file: str) -> Iterator[str]:
    for section, key, text in _settings(file):
        value = text.strip()
        if key in _PLACES:
            yield value.strip('"')
        elif (
            key in _COMMANDS
            or section == "pager"
            or ((key in _MAY_BE_COMMANDS or section == "alias") and value.strip('"').startswith(_MARKS))
        ):
            # A word without a slash is looked for in PATH, and what a program is told may be a file beside.
            first, *others = _WORDS.findall(value) or [""]
            yield from (word for word in (first, *others) if "/" in word)
            yield from (word for word in others if "." in word)


def _included(file: str) -> list[str]:
    return [
        value.strip().strip('"')
        for section, key, value in _settings(file)
        if section in ("include", "includeif") and key == "path"
    ]


def _text(file: str) -> str:
    """The beginning of a regular file; empty where there is none that can be read."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    with os.fdopen(fd, "rb") as stream:
        try:
            return stream.read(_BYTES_MAX).decode("utf-8", "replace")
        except OSError:
            return ""

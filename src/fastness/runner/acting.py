"""
What acts by itself on the paths of a change, under each name that they will have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fastness.runner.aliases import MANY, Aliases
from fastness.runner.entries import Entry
from fastness.runner.git_settings import named_by_git
from fastness.runner.tree import shown
from fastness.runner.triggers import acted_on_by, git_folders

__all__ = ["Acting"]

#: Other names that are looked at for one change, and what is said past them.
_LOOKS = 100_000
_TOO_MANY = "the links of this change give more names than are looked at"


class Acting:
    """
    The tree of the folder ``project`` before and after a change: ``before`` and ``after`` are its entries, ``left_out``
    what was never looked at.

    What is deleted, or was left out, counts as well: it makes a folder a repository before or after, and a link that is
    replaced may be replaced last.
    """

    def __init__(
        self, project: str, before: Mapping[str, Entry], after: Mapping[str, Entry], left_out: Iterable[str]
    ) -> None:
        self._repositories = git_folders([*before, *left_out, *after])
        self._named = named_by_git(project, [*before, *left_out])
        self._paths = sorted(after)
        links = {path: entry.target for path, entry in before.items() if entry.kind == "link"}
        links |= {path: entry.target for path, entry in after.items() if entry.kind == "link"}
        self._aliases = Aliases(links)
        self._looks = 0

    def why(self, path: str, *, is_link: bool) -> str:
        """What acts on ``path``, which is changed, under any of its names: in words, or nothing."""
        if by := self._by(path):
            return f"{by} acts on it by itself"
        if self._looks > _LOOKS:
            return _TOO_MANY
        others = self._aliases.of(path)
        # Counted over the whole change: many links to a folder of many files would keep the host for long.
        self._looks += len(others)
        for other in others:
            if by := self._by(other):
                return f"{by} acts on it by itself, as {shown(other)}: that is a link to it, or below one"
        if len(others) >= MANY:
            return "more links lead to it than are looked at"
        for real, other in self._aliases.through(path, self._paths) if is_link else ():
            self._looks += 1
            if self._looks > _LOOKS:
                return _TOO_MANY
            if (by := self._by(other)) and not self._by(real):
                return f"{by} would act by itself on {shown(other)}, where this link leads"
        return ""

    def _by(self, path: str) -> str:
        by = acted_on_by(path, self._repositories)
        if by or not self._named:
            return by
        parts = path.lower().split("/")
        # A folder that is named stands for all below it.
        named = any("/".join(parts[:count]) in self._named for count in range(1, len(parts) + 1))
        return "git, whose settings name it," if named else ""

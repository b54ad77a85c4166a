"""
Other names of a path: a link in a tree gives what it leads to, and all below that, a second path.

Whoever judges a file by its name must judge every name that it can be reached by.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping

__all__ = ["MANY", "Aliases"]

#: Links that are followed for one path (path_resolution(7)).
_FOLLOWED = 40
#: Links in one other name of a path, and such names that are looked at.
_IN_A_ROW = 3
MANY = 5000


class Aliases:
    """``links`` are all links of a tree: targets by path, of which only the last part is a link."""

    def __init__(self, links: Mapping[str, str]) -> None:
        self._links = links
        found = ((link, self._resolve(link)) for link in sorted(links))
        #: Where each link leads; only those that lead into the tree, of which the top is the empty path.
        self.ends = {link: end for link, end in found if end is not None}
        self._to: dict[str, list[str]] = {}
        for link, end in self.ends.items():
            self._to.setdefault(end, []).append(link)

    def of(self, path: str) -> list[str]:
        """Other paths of what is at ``path``, by up to three links; at most :data:`MANY`, which stands for more."""
        found: dict[str, None] = {}
        rest = [(path, 0)]
        while rest:
            known, links = rest.pop()
            for end in _above(known):
                for link in self._to.get(end, ()):
                    below = known[len(end) :].strip("/")
                    other = f"{link}/{below}" if below else link
                    if other in found or other == path:
                        continue
                    found[other] = None
                    if len(found) >= MANY:
                        return list(found)
                    if links + 1 < _IN_A_ROW:
                        rest.append((other, links + 1))
        return list(found)

    def through(self, link: str, paths: list[str]) -> Iterator[tuple[str, str]]:
        """What of ``paths``, which are sorted, ``link`` gives another path: both paths of each."""
        end = self.ends.get(link)
        if end is None:
            return
        first = f"{end}/" if end else ""
        if end:
            yield end, link
        for place in range(bisect_left(paths, first), len(paths)):
            path = paths[place]
            if not path.startswith(first):
                return
            yield path, f"{link}/{path[len(first) :]}"

    def _resolve(self, path: str) -> str | None:
        """The path without links that ``path`` leads to; None where that is outside the tree, or nowhere."""
        parts = path.split("/")[::-1]
        done: list[str] = []
        followed = 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    return None
                done.pop()
                continue
            target = self._links.get("/".join([*done, part]))
            if target is None:
                done.append(part)
                continue
            followed += 1
            if os.path.isabs(target) or followed > _FOLLOWED:
                return None
            parts += target.split("/")[::-1]
        return "/".join(done)


def _above(path: str) -> list[str]:
    """The path, the folders that it is in, and the top."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)] + [""]

"""
Where this process stands in the control group hierarchies, and which folder that is (``cgroups(7)``).

``/proc/self/cgroup`` names a group in every hierarchy, ``/proc/self/mountinfo`` says which part of a hierarchy is
mounted where.  Only the two together give a folder: a container often sees its own part alone, mounted at a place
that is named for the whole.
"""

from __future__ import annotations

import os
import re

from fastness._linux.cgroup_files import read

_PROC_CAP = 1 << 20

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Hierarchy:
    """
    One line of ``/proc/self/cgroup``.

    ``controllers`` are those of a version 1 hierarchy, and empty for version 2; ``path`` is our group as this cgroup
    namespace names it.
    """

    __slots__ = ("controllers", "path", "version")

    def __init__(self, version: int, controllers: tuple[str, ...], path: str) -> None:
        self.version = version
        self.controllers = controllers
        self.path = path


class Mount:
    """
    One mounted part of a hierarchy.

    ``root`` is the group that is mounted, ``point`` the folder, ``options`` the mount's own ones (``ro``, ``rw``),
    ``features`` those of the file system: for version 1 the controllers, for version 2 such as ``nsdelegate``.
    """

    __slots__ = ("features", "options", "point", "root", "version")

    def __init__(
        self, version: int, root: str, point: str, options: tuple[str, ...], features: tuple[str, ...]
    ) -> None:
        self.version = version
        self.root = root
        self.point = point
        self.options = options
        self.features = features

    @property
    def read_only(self) -> bool:
        """Whether nothing can be made here, whoever asks."""
        return "ro" in self.options or "ro" in self.features


class Place:
    """Our own group in one hierarchy: its ``folder``, and the ``mount`` and the ``hierarchy`` that say so."""

    __slots__ = ("folder", "hierarchy", "mount")

    def __init__(self, folder: str, mount: Mount, hierarchy: Hierarchy) -> None:
        self.folder = folder
        self.mount = mount
        self.hierarchy = hierarchy


def parse_groups(text: str) -> list[Hierarchy]:
    """The lines of ``/proc/<pid>/cgroup``; what does not look like one is passed over.  Version 2 has number 0."""
    found = []
    for line in text.split("\n"):
        number, colon, rest = line.partition(":")
        names, second, path = rest.partition(":")
        if not (colon and second and path.startswith("/") and re.fullmatch("[0-9]+", number)):
            continue
        if int(number) == 0 and not names:
            found.append(Hierarchy(2, (), path))
        elif names:
            found.append(Hierarchy(1, tuple(names.split(",")), path))
    return found


def parse_mounts(text: str) -> list[Mount]:
    """The control group mounts of ``/proc/<pid>/mountinfo``, in its order; a later one covers an earlier one."""
    found = []
    for line in text.split("\n"):
        left, dash, right = line.partition(" - ")
        first, last = left.split(" "), right.split(" ")
        if not dash or len(first) < 6 or len(last) < 3 or last[0] not in ("cgroup", "cgroup2"):
            continue
        found.append(
            Mount(
                2 if last[0] == "cgroup2" else 1,
                unescape(first[3]),
                unescape(first[4]),
                tuple(first[5].split(",")),
                tuple(last[2].split(",")),
            )
        )
    return found


def unescape(field: str) -> str:
    r"""A field of ``mountinfo`` as it was: space, tab, newline and backslash stand there as ``\040`` and so on."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda match: chr(int(match[1], 8)), field)


def folder_of(path: str, mount: Mount) -> str | None:
    """
    The folder of group ``path`` under ``mount``, or None where this mount does not show it.

    A ``..`` in either name means a group above our cgroup namespace: what is mounted is then not known by name.
    """
    parts, root = _parts(path), _parts(mount.root)
    if parts is None or root is None or parts[: len(root)] != root:
        return None
    return "/".join([mount.point.rstrip("/"), *parts[len(root) :]]) or "/"


def _parts(path: str) -> list[str] | None:
    parts = [part for part in path.split("/") if part]
    return None if ".." in parts or path.endswith(" (deleted)") else parts


def place(hierarchy: Hierarchy, mounts: Iterable[Mount]) -> Place | None:
    """Our own group of ``hierarchy`` in the last, and so uppermost, of ``mounts`` that shows it."""
    found = None
    for mount in mounts:
        if mount.version != hierarchy.version:
            continue
        if hierarchy.version == 1 and not set(hierarchy.controllers) <= set(mount.features):
            continue
        folder = folder_of(hierarchy.path, mount)
        if folder is not None:
            better = found is None or (found.mount.read_only and not mount.read_only)
            if better or (found is not None and mount.point == found.mount.point):
                found = Place(folder, mount, hierarchy)
    return found


def read_proc(name: str) -> str:
    """A file of ``/proc/self`` as text; raises ``OSError``."""
    with open(f"/proc/self/{name}", encoding="utf-8", errors="surrogateescape") as file:
        return file.read(_PROC_CAP)


def holds_us(folder: str) -> bool:
    """Whether the group of ``folder`` really holds this process: names alone may have been covered by other mounts."""
    return os.getpid() in members(folder)


def members(folder: str) -> list[int]:
    """
    The processes of one group, without those of groups below.

    0 stands for a process that this process number namespace does not know.  Raises ``OSError``.
    """
    return [int(word) for word in read(folder, "cgroup.procs").split()]


def own_places() -> dict[str, Place]:
    """
    Our own group in every hierarchy where it can be found: by controller for version 1, and as ``"2"``.

    Raises ``OSError`` where ``/proc`` is not mounted.
    """
    mounts = parse_mounts(read_proc("mountinfo"))
    found: dict[str, Place] = {}
    for hierarchy in parse_groups(read_proc("cgroup")):
        here = place(hierarchy, mounts)
        if here is not None:
            for name in hierarchy.controllers if hierarchy.version == 1 else ("2",):
                found[name] = here
    return found

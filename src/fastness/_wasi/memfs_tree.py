"""
Whole trees: building them, mounting one in another, walking them, telling what a run changed, and copying.

Walks are iterative and sorted, so that results are equal for equal runs and no depth can overflow our stack.
"""

from __future__ import annotations

from itertools import count

from .memfs import NAME_MAX, Dir, File, Node, Quota

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def _parts(path: str) -> list[str]:
    parts = path.strip("/").split("/")
    for part in parts:
        if part in ("", ".", "..") or "\0" in part or len(part.encode()) > NAME_MAX:
            raise ValueError(f"not a plain relative path: {path[:200]!r}")
    return parts


def add(
    root: Dir, path: str, content: bytes | bytearray | memoryview | None, now: int = 0, replace: bool = False
) -> Node:
    """
    Put a file (or, where ``content`` is None, a directory) at ``path`` below ``root``; makes directories as needed.

    Below a writable root the content is copied and charged; below a read-only one it is kept as a view, not copied.
    With ``replace`` a writable file that is there gets the new content and keeps its identity.
    Raises ``ValueError`` on a path that is not plain or is taken, and ``Errno`` past the quota.
    """
    here = root
    parts = _parts(path)
    last = parts.pop() if content is not None else ""
    for part in parts:
        child = here.entries.get(part)
        if child is None:
            if here.read_only:
                child = Dir(here.fs, True, now)
                child.parent = here
                child.name = part
                here.attach(part, child)
            else:
                child = here.create_dir(part, now)
        if not isinstance(child, Dir):
            raise ValueError(f"a file is in the way of {path[:200]!r}")
        here = child
    if content is None:
        return here
    there = here.entries.get(last)
    if replace and isinstance(there, File) and not there.read_only:
        here.fs.charge(max(0, len(content) - len(there.data)))
        here.fs.bytes -= max(0, len(content) - len(there.data))
        there.resize(0, now)
        there.write(0, bytes(content), now)
        return there
    if there is not None:
        raise ValueError(f"twice in one tree: {path[:200]!r}")
    if here.read_only:
        node = File(here.fs, memoryview(content).toreadonly(), True, now)
        here.attach(last, node)
        return node
    here.fs.charge(len(content))
    here.fs.bytes -= len(content)
    node = here.create_file(last, now)
    here.fs.charge(len(content))
    node.data = bytearray(content)
    return node


#: Device numbers of trees that have no quota of their own, in the order of their making; 1 is the run's.
_devices = count(2)


def build_tree(
    files: Mapping[str, bytes | bytearray | memoryview],
    read_only: bool,
    quota: Quota | None = None,
    now: int = 0,
    directories: Iterable[str] = (),
) -> Dir:
    """
    A new root directory that holds ``files`` (relative path to content) and ``directories``.

    With ``read_only`` nothing in it can ever change and contents are views of what was passed (a mapped archive is not
    copied); such a tree may be used by any number of runs.  Raises as :func:`add`.
    """
    root = Dir(Quota(dev=next(_devices)) if quota is None else quota, read_only, now)
    for path in directories:
        add(root, path, None, now)
    for path, content in files.items():
        add(root, path, content, now)
    if read_only:
        freeze(root)
    return root


def freeze(root: Dir) -> None:
    """Fill the listing caches of a finished read-only tree, so that later reads store nothing in it."""
    todo = [root]
    while todo:
        here = todo.pop()
        here.after(0)
        todo += [node for node in here.entries.values() if isinstance(node, Dir)]


def discard(root: Dir) -> None:
    """
    Take a run's tree apart, so that its memory is free at once.

    Directories and their parents refer to each other; left alone they would hold the contents until the cycle
    collector runs.  Read-only trees that are mounted in it stay whole.  Nothing may use the tree afterwards.
    """
    todo = [root]
    while todo:
        here = todo.pop()
        todo += [node for node in here.entries.values() if isinstance(node, Dir) and not node.read_only]
        here.entries = {}
        here.parent = None


def mount(parent: Dir, name: str, child: Dir) -> None:
    """
    Show ``child`` as ``name`` in ``parent``, which may be read-only but must belong to this run alone.

    The child keeps no pointer to ``parent``: a shared tree is not changed by being shown, and a mount point can be
    neither removed nor renamed by the guest.
    """
    _parts(name)
    parent.attach(name, child)


def walk(root: Dir, cap: int | None = None) -> Iterator[tuple[str, File]]:
    """Files below ``root`` as (relative path, node) in sorted order, at most ``cap`` of them."""
    left = -1 if cap is None else cap
    todo: list[tuple[str, Node]] = [("", root)]
    while todo and left != 0:
        path, node = todo.pop()
        if isinstance(node, Dir):
            prefix = path + "/" if path else ""
            todo += [(prefix + name, node.entries[name]) for name in sorted(node.entries, reverse=True)]
        elif isinstance(node, File):
            left -= 1
            yield path, node


class Baseline:
    """What a tree held at one moment: see :func:`snapshot_state`."""

    __slots__ = ("files", "version")

    def __init__(self, version: int, files: dict[str, tuple[File, int]]) -> None:
        self.version = version
        # The nodes themselves are kept: an identity can not come back as another file while we hold it.
        self.files = files


class Changes:
    """Relative paths, sorted: files that are new, files whose content is another, files that are gone."""

    __slots__ = ("added", "changed", "deleted")

    def __init__(self, added: list[str], changed: list[str], deleted: list[str]) -> None:
        self.added = added
        self.changed = changed
        self.deleted = deleted

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.deleted)


def snapshot_state(root: Dir) -> Baseline:
    """Remember which files there are and their versions; contents are neither copied nor hashed."""
    return Baseline(root.fs.version, {path: (node, node.version) for path, node in walk(root)})


def changes(root: Dir, baseline: Baseline) -> Changes:
    """
    Compare a writable tree with an earlier state of it.

    A file counts as changed where it was written, resized or replaced, even by equal bytes; setting times does not
    count.  A directory is seen through its files only.
    """
    if root.fs.version == baseline.version:
        return Changes([], [], [])
    added: list[str] = []
    changed: list[str] = []
    gone = dict(baseline.files)
    for path, node in walk(root):
        before = gone.pop(path, None)
        if before is None:
            added.append(path)
        elif before[0] is not node or before[1] != node.version:
            changed.append(path)
    return Changes(added, changed, sorted(gone))


def copy_tree(root: Dir, quota: Quota) -> tuple[Dir, dict[int, Node]]:
    """
    A deep copy of a writable tree, charged to ``quota``; read-only nodes are shared, not copied.

    Returns the new root and a map from ``id(old node)`` to new node, for descriptors that refer to them.  Names,
    times, inode numbers and readdir cookies are kept.  Raises NOSPC past the quota.
    """
    mapping: dict[int, Node] = {}
    top = _copy_dir(root, quota, mapping)
    todo = [(root, top)]
    while todo:
        old, new = todo.pop()
        for name, node in old.entries.items():
            twin = node
            if not node.read_only:
                if isinstance(node, Dir):
                    twin = _copy_dir(node, quota, mapping)
                    # A mount point has no parent and was never charged.
                    if node.parent is not None:
                        quota.charge_node()
                        twin.parent = new
                    todo.append((node, twin))
                elif isinstance(node, File):
                    quota.charge_node()
                    twin = copy_file(node, quota, mapping)
            new.entries[name] = twin
            new._serials[name] = old._serials[name]
        new._next_serial = old._next_serial
    quota.next_ino = max(quota.next_ino, root.fs.next_ino)
    return top, mapping


def copy_file(node: File, quota: Quota, mapping: dict[int, Node]) -> File:
    """Copy one writable file's content and times, charging its bytes but not its name."""
    quota.charge(len(node.data))
    twin = File(quota, bytearray(node.data), False, 0)
    _copy_meta(node, twin, mapping)
    return twin


def _copy_dir(node: Dir, quota: Quota, mapping: dict[int, Node]) -> Dir:
    twin = Dir(quota, node.read_only)
    twin.name = node.name
    _copy_meta(node, twin, mapping)
    return twin


def _copy_meta(node: Node, twin: Node, mapping: dict[int, Node]) -> None:
    twin.ino = node.ino
    twin.atim = node.atim
    twin.mtim = node.mtim
    twin.ctim = node.ctim
    twin.linked = node.linked
    mapping[id(node)] = twin

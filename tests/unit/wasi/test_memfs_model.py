"""The file tree against a model made of dictionaries, under a small quota."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import house
from fastness._wasi import memfs_tree
from fastness._wasi.memfs import Dir, File, Quota, rename
from fastness._wasi.preview1_abi import EXIST, INVAL, ISDIR, NOENT, NOSPC, NOTDIR, NOTEMPTY, ROFS, Errno

MAX_BYTES = 60
MAX_FILES = 7
names = st.sampled_from(["a", "b", "c"])
paths = st.lists(names, min_size=1, max_size=3).map(tuple)


class ModelFile:
    """Content, and how many descriptors hold it."""

    def __init__(self) -> None:
        self.content = b""
        self.opens = 0


Model = dict[str, "ModelFile | Model"]


def outcome(action: object) -> int:
    """0, or the errno with which ``action`` ended."""
    try:
        action()  # type: ignore[operator]  # every caller passes a function
    except Errno as error:
        return error.code
    return 0


class TreeMachine(RuleBasedStateMachine):
    """Random sequences of operations; after each, tree and model agree in content, errno and accounting."""

    def __init__(self) -> None:
        super().__init__()
        self.quota = Quota(max_bytes=MAX_BYTES, max_files=MAX_FILES)
        self.root = Dir(self.quota)
        self.model: Model = {}
        self.handles: list[tuple[File, ModelFile]] = []
        self.clock = itertools.count(1)
        self.baseline = memfs_tree.snapshot_state(self.root)
        self.before: dict[str, bytes] = {}

    # ---- the model's own resolution

    def model_at(self, path: tuple[str, ...]) -> tuple[int, Model]:
        """(errno, directory that holds the last name)."""
        here = self.model
        for name in path[:-1]:
            child = here.get(name)
            if child is None:
                return NOENT, {}
            if isinstance(child, ModelFile):
                return NOTDIR, {}
            here = child
        return 0, here

    def tree_at(self, path: tuple[str, ...]) -> Dir:
        """The directory of the tree that holds the last name."""
        here = self.root
        for name in path[:-1]:
            child = here.entries[name]
            assert isinstance(child, Dir)
            here = child
        return here

    def model_files(self, top: Model, prefix: str = "") -> dict[str, ModelFile]:
        """Relative path to file."""
        found: dict[str, ModelFile] = {}
        for name, child in top.items():
            if isinstance(child, ModelFile):
                found[prefix + name] = child
            else:
                found.update(self.model_files(child, f"{prefix}{name}/"))
        return found

    def count(self, top: Model) -> int:
        """Names below ``top``."""
        return sum(1 if isinstance(child, ModelFile) else 1 + self.count(child) for child in top.values())

    def charged(self) -> tuple[int, int]:
        """(bytes, nodes) that the model says are in use: every name, and every file that is still open without one."""
        files = set(self.model_files(self.model).values())
        orphans = {file for _, file in self.handles} - files
        return sum(len(file.content) for file in files | orphans), self.count(self.model) + len(orphans)

    # ---- operations

    @rule(path=paths, directory=st.booleans())
    def create(self, path: tuple[str, ...], directory: bool) -> None:
        """mkdir, or open with O_CREAT | O_EXCL."""
        errno, here = self.model_at(path)
        if errno:
            return
        parent = self.tree_at(path)
        expected = EXIST if path[-1] in here else NOSPC if self.charged()[1] >= MAX_FILES else 0
        make = parent.create_dir if directory else parent.create_file
        assert outcome(lambda: make(path[-1], next(self.clock))) == expected
        if not expected:
            here[path[-1]] = {} if directory else ModelFile()

    @rule(path=paths, directory=st.booleans())
    def remove(self, path: tuple[str, ...], directory: bool) -> None:
        """Remove by rmdir or unlink."""
        errno, here = self.model_at(path)
        if errno:
            return
        parent = self.tree_at(path)
        node = here.get(path[-1])
        if node is None:
            expected = NOENT
        elif directory:
            expected = NOTDIR if isinstance(node, ModelFile) else NOTEMPTY if node else 0
        else:
            expected = 0 if isinstance(node, ModelFile) else ISDIR
        act = parent.rmdir if directory else parent.unlink
        assert outcome(lambda: act(path[-1], next(self.clock))) == expected
        if not expected:
            del here[path[-1]]

    @rule(old=paths, new=paths)
    def move(self, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Move by rename."""
        errno, source = self.model_at(old)
        other, target = self.model_at(new)
        if errno or other:
            return
        node, victim = source.get(old[-1]), target.get(new[-1])
        if node is None:
            expected = NOENT
        elif node is victim:
            expected = 0
        elif isinstance(node, ModelFile):
            expected = 0 if victim is None or isinstance(victim, ModelFile) else ISDIR
        elif new[: len(old)] == old:
            expected = INVAL
        elif isinstance(victim, ModelFile):
            expected = NOTDIR
        else:
            expected = NOTEMPTY if victim else 0
        parent, onto = self.tree_at(old), self.tree_at(new)
        assert outcome(lambda: rename(parent, old[-1], onto, new[-1], next(self.clock))) == expected
        if not expected and node is not None:
            del source[old[-1]]
            target[new[-1]] = node

    @rule(path=paths)
    def open(self, path: tuple[str, ...]) -> None:
        """Hold a descriptor on a file."""
        errno, here = self.model_at(path)
        node = here.get(path[-1])
        if errno or not isinstance(node, ModelFile) or len(self.handles) >= 4:
            return
        file = self.tree_at(path).entries[path[-1]]
        assert isinstance(file, File)
        file.opened()
        self.handles.append((file, node))

    @precondition(lambda self: self.handles)
    @rule(which=st.integers(0, 3))
    def close(self, which: int) -> None:
        """Drop a descriptor."""
        file, _ = self.handles.pop(which % len(self.handles))
        file.closed()

    @precondition(lambda self: self.handles)
    @rule(which=st.integers(0, 3), at=st.integers(0, 80) | st.just(1 << 60), data=st.binary(max_size=30))
    def write(self, which: int, at: int, data: bytes) -> None:
        """Write at an offset through a descriptor, which may leave a hole."""
        file, node = self.handles[which % len(self.handles)]
        end = at + len(data)
        growth = max(0, end - len(node.content)) if data else 0
        expected = NOSPC if self.charged()[0] + growth > MAX_BYTES else 0
        assert outcome(lambda: file.write(at, data, next(self.clock))) == expected
        if not expected and data:
            node.content = node.content.ljust(at, b"\0")[:at] + data + node.content[end:]

    @precondition(lambda self: self.handles)
    @rule(which=st.integers(0, 3), size=st.integers(0, 80) | st.just(1 << 60))
    def resize(self, which: int, size: int) -> None:
        """Change a size."""
        file, node = self.handles[which % len(self.handles)]
        expected = NOSPC if self.charged()[0] + size - len(node.content) > MAX_BYTES else 0
        assert outcome(lambda: file.resize(size, next(self.clock))) == expected
        if not expected:
            node.content = node.content[:size].ljust(size, b"\0")

    @rule()
    def remember(self) -> None:
        """Take a new baseline."""
        self.baseline = memfs_tree.snapshot_state(self.root)
        self.before = {path: file.content for path, file in self.model_files(self.model).items()}

    @rule()
    def copy(self) -> None:
        """A copy has the same content and the same accounting, and shares no content with its origin."""
        quota = Quota(max_bytes=MAX_BYTES, max_files=MAX_FILES)
        twin, mapping = memfs_tree.copy_tree(self.root, quota)
        assert content(twin) == content(self.root)
        assert (quota.bytes, quota.files) == (
            sum(map(len, content(twin).values())),
            self.count(self.model),
        )
        for path, node in memfs_tree.walk(self.root):
            assert dict(memfs_tree.walk(twin))[path] is mapping[id(node)] is not node

    # ---- what must hold after every step

    @invariant()
    def same(self) -> None:
        """Contents, bytes, node count and the caps."""
        assert content(self.root) == {path: f.content for path, f in self.model_files(self.model).items()}
        assert (self.quota.bytes, self.quota.files) == self.charged()
        assert self.quota.bytes <= MAX_BYTES
        assert self.quota.files <= MAX_FILES

    @invariant()
    def changes_are_told(self) -> None:
        """Added and deleted paths are exact; every file with other content is among the changed ones."""
        now = content(self.root)
        delta = memfs_tree.changes(self.root, self.baseline)
        assert delta.added == sorted(set(now) - set(self.before), key=lambda path: path.split("/"))
        assert delta.deleted == sorted(set(self.before) - set(now))
        assert set(delta.changed) >= {path for path in now if path in self.before and now[path] != self.before[path]}
        assert not set(delta.changed) - set(now)


TreeMachine.TestCase.settings = settings(max_examples=house.examples(150), stateful_step_count=40, deadline=None)
test_tree_against_model = TreeMachine.TestCase


def content(root: Dir) -> dict[str, bytes]:
    """Relative path to content."""
    return {path: bytes(node.data) for path, node in memfs_tree.walk(root)}


def test_closing_gives_back_what_an_unlinked_file_held() -> None:
    """A file without a name is charged until its last descriptor is closed."""
    quota = Quota()
    root = Dir(quota)
    file = root.create_file("f", 1)
    file.opened()
    file.write(0, b"12345", 2)
    root.unlink("f", 3)
    assert (quota.bytes, quota.files) == (5, 1)
    file.write(5, b"678", 4)
    assert quota.bytes == 8
    file.closed()
    assert (quota.bytes, quota.files) == (0, 0)


def test_depth_and_path_length_are_capped_for_moves_too() -> None:
    """No sequence of mkdir and rename makes a tree deeper, or a path longer, than the quota says."""
    quota = Quota(max_depth=5, max_path=20)
    root = Dir(quota)
    here = root
    for name in "abc":
        here = here.create_dir(name, 0)
    other = root.create_dir("x", 0).create_dir("y", 0).create_dir("z", 0)
    other.create_file("f", 0)
    assert outcome(lambda: rename(root, "x", here, "x", 0)) == 37
    assert outcome(lambda: here.create_file("n" * 20, 0)) == 37
    assert outcome(lambda: here.create_file("n" * 14, 0)) == 0
    assert content(root) == {"a/b/c/" + "n" * 14: b"", "x/y/z/f": b""}


def test_a_read_only_tree_refuses_everything() -> None:
    """ROFS for each way to change it, and nothing in it is charged, counted or timed."""
    data = memoryview(b"0123456789")
    tree = memfs_tree.build_tree({"d/f": data, "e": b""}, read_only=True, now=5)
    folder, file = tree.entries["d"], tree.entries["d"].entries["f"]  # type: ignore[attr-defined]  # a directory
    assert isinstance(folder, Dir)
    assert file.data.obj is data.obj
    writable = Dir(Quota())
    attempts = [
        lambda: folder.create_file("x", 9),
        lambda: folder.create_dir("x", 9),
        lambda: folder.unlink("f", 9),
        lambda: tree.rmdir("d", 9),
        lambda: rename(folder, "f", writable, "f", 9),
        lambda: rename(writable, "w", folder, "w", 9),
        lambda: file.write(0, b"x", 9),
        lambda: file.resize(0, 9),
        lambda: file.set_times(1, 1, 9),
        lambda: tree.set_times(1, 1, 9),
    ]
    writable.create_file("w", 0)
    assert [outcome(attempt) for attempt in attempts] == [ROFS] * len(attempts)
    file.opened()
    assert (file.opens, file.mtim, folder.mtim, tree.fs.bytes, tree.fs.version) == (0, 5, 5, 0, 0)
    assert content(tree) == {"d/f": b"0123456789", "e": b""}


def test_mount_points_stay() -> None:
    """A mounted directory can be neither removed nor renamed nor replaced, and mounting does not change it."""
    quota = Quota()
    root, work, shared = Dir(quota), Dir(quota), memfs_tree.build_tree({"f": b"x"}, read_only=True)
    memfs_tree.mount(root, "work", work)
    memfs_tree.mount(root, "lib", shared)
    assert work.parent is None
    assert shared.parent is None
    root.create_dir("d", 0)
    assert outcome(lambda: root.rmdir("work", 0)) == 10
    assert outcome(lambda: rename(root, "work", root, "w", 0)) == 10
    assert outcome(lambda: rename(root, "d", root, "work", 0)) == 10
    assert outcome(lambda: rename(root, "d", root, "lib", 0)) == ROFS
    assert outcome(lambda: root.rmdir("lib", 0)) == ROFS
    assert outcome(lambda: rename(root, "d", Dir(Quota()), "d", 0)) == 75
    assert sorted(root.entries) == ["d", "lib", "work"]


@pytest.mark.parametrize("path", ["", "a//b", "../a", "a/./b", "a/../b", "a\0b", "n" * 256])
def test_staging_takes_plain_paths_only(path: str) -> None:
    """The engine's own additions to a tree are checked like a guest's."""
    with pytest.raises(ValueError, match="plain"):
        memfs_tree.add(Dir(Quota()), path, b"")


def test_staging_is_charged_before_it_is_copied() -> None:
    """Content over the quota leaves no file behind."""
    root = Dir(Quota(max_bytes=4))
    with pytest.raises(Errno):
        memfs_tree.add(root, "d/f", b"12345")
    assert content(root) == {}
    assert root.fs.bytes == 0


def test_staging_again_replaces_content_and_keeps_the_file() -> None:
    """With ``replace`` open descriptors see the new content; the quota counts the difference; a folder stays."""
    root = Dir(Quota(max_bytes=8))
    node = memfs_tree.add(root, "d/f", b"12345")
    baseline = memfs_tree.snapshot_state(root)
    assert memfs_tree.add(root, "d/f", b"1234567", 3, replace=True) is node
    assert content(root) == {"d/f": b"1234567"}
    assert root.fs.bytes == 7
    assert memfs_tree.changes(root, baseline).changed == ["d/f"]
    with pytest.raises(Errno):
        memfs_tree.add(root, "d/f", b"123456789", replace=True)
    assert content(root) == {"d/f": b"1234567"}
    with pytest.raises(ValueError, match="twice"):
        memfs_tree.add(root, "d/f", b"")
    with pytest.raises(ValueError, match="twice"):
        memfs_tree.add(root, "d", b"", replace=True)


def test_a_copy_of_a_root_with_mounts_charges_what_the_origin_charged() -> None:
    """Mount points are not counted; read-only trees are shared."""
    quota, twin_quota = Quota(), Quota()
    root, work = Dir(quota, True), Dir(quota)
    shared = memfs_tree.build_tree({"f": b"x"}, read_only=True)
    memfs_tree.mount(root, "work", work)
    memfs_tree.mount(root, "lib", shared)
    memfs_tree.add(work, "a/b", b"123")
    twin, mapping = memfs_tree.copy_tree(root, twin_quota)
    assert twin.entries["lib"] is shared
    assert twin.entries["work"] is mapping[id(work)]
    assert (twin_quota.bytes, twin_quota.files) == (quota.bytes, quota.files) == (3, 2)
    assert twin.entries["work"].ino == work.ino
    assert twin_quota.next_ino == quota.next_ino


def test_walk_stops_at_its_cap_in_order() -> None:
    """Files come sorted by component, and no more than asked for."""
    tree = memfs_tree.build_tree({"b": b"", "a/z": b"", "a-": b"", "a/b/c": b""}, read_only=False)
    assert [path for path, _ in memfs_tree.walk(tree)] == ["a/b/c", "a/z", "a-", "b"]
    assert [path for path, _ in memfs_tree.walk(tree, cap=2)] == ["a/b/c", "a/z"]
    assert list(memfs_tree.walk(tree, cap=0)) == []


def test_setting_times_is_no_change_of_content() -> None:
    """Only writing, resizing and replacing count as a change."""
    tree = memfs_tree.build_tree({"f": b"x"}, read_only=False)
    baseline = memfs_tree.snapshot_state(tree)
    tree.entries["f"].set_times(1, 1, 1)
    assert not memfs_tree.changes(tree, baseline)
    file = tree.entries["f"]
    assert isinstance(file, File)
    file.write(0, b"x", 2)
    assert memfs_tree.changes(tree, baseline).changed == ["f"]

"""Random trees and random edits: a copy is the project, a difference is the edits, and applying it makes them equal."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tree_support import Copy, opened, picture, write

from fastness.errors import StagingError
from fastness.runner.collect import collect
from fastness.runner.entries import leads_inside
from fastness.runner.tree import plain_name, shown

_NAMES = st.sampled_from(["a", "b", "c.txt", "ü", "D"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)
_FILES = st.tuples(st.just("file"), st.binary(max_size=40), st.sampled_from([0o644, 0o755, 0o600]))
_LINKS = st.tuples(st.just("link"), st.sampled_from(["a", "b/c.txt", "none", "./D"]), st.just(0))
_TREES = st.dictionaries(_PATHS, _FILES | _LINKS, max_size=8)


@contextmanager
def fresh() -> Iterator[Copy]:
    base = Path(tempfile.mkdtemp(prefix=f"fastness-tree-{os.getpid()}-"))
    before = os.environ.get("FASTNESS_HOME")
    os.environ["FASTNESS_HOME"] = str(base / "home")
    (base / "home").mkdir(mode=0o700)
    try:
        yield Copy(base)
    finally:
        shutil.rmtree(base)
        if before is None:
            del os.environ["FASTNESS_HOME"]
        else:
            os.environ["FASTNESS_HOME"] = before


def make(folder: Path, tree: dict[str, Any]) -> None:
    """Make what can be made of a tree: a path below a file of it is passed over."""
    for path, (kind, content, mode) in tree.items():
        target = folder / path
        if any(
            above.is_symlink() or above.is_file()
            for above in target.parents
            if above != folder and folder in above.parents
        ):
            continue
        if target.is_dir() and not target.is_symlink():
            continue
        if os.path.lexists(target):
            target.unlink()
        target.parent.mkdir(parents=True, exist_ok=True)
        if kind == "file":
            write(target, content, mode)
        else:
            target.symlink_to(content)


def inside_only(folder: Path) -> None:
    """Remove links that lead nowhere for ever: those are left out of copies."""
    for path in folder.rglob("*"):
        if path.is_symlink():
            try:
                path.stat()
            except FileNotFoundError:
                pass
            except OSError:
                path.unlink()


@given(_TREES)
def test_a_copy_that_nobody_touched_has_no_changes(tree: dict[str, Any]) -> None:
    """Whatever the tree."""
    with fresh() as copy:
        make(copy.real, tree)
        inside_only(copy.real)
        project = copy.fill()
        assert not project.left_out
        assert picture(copy.work, folders=True) == picture(copy.real, folders=True)
        found = copy.collect()
        assert not found.entries
        assert not found.folders_gone
        assert (found.changes.added, found.changes.changed, found.changes.deleted) == ((), (), ())


@given(_TREES, _TREES, st.sets(_PATHS, max_size=4))
def test_the_difference_is_what_was_done(tree: dict[str, Any], edits: dict[str, Any], gone: set[str]) -> None:
    """Seen by comparing both trees the plain way; and applying it makes the project what the guest has."""
    with fresh() as copy:
        make(copy.real, tree)
        inside_only(copy.real)
        copy.fill()
        for path in sorted(gone):
            target = copy.work / path
            if any(above.is_symlink() for above in target.parents if above != copy.work):
                continue
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            elif os.path.lexists(target):
                target.unlink()
        make(copy.work, edits)
        inside_only(copy.work)
        before, after = picture(copy.real), picture(copy.work)
        found = copy.collect()
        assert not found.refused
        assert set(found.changes.added) == set(after) - set(before)
        assert set(found.changes.deleted) == set(before) - set(after)
        assert set(found.changes.changed) == {path for path in before if path in after and before[path] != after[path]}
        folders = {path for path, what in picture(copy.real, folders=True).items() if what == "folder"}
        swapped = folders & set(after) or any(
            f"{path}/".startswith(f"{other}/") for path in after for other in before if path != other
        )
        if swapped:
            # A file where a folder was, or the other way round, is for people to sort out.
            return
        copy.apply()
        now = picture(copy.real)
        assert now == {path: what if what[0] == "link" else now[path] for path, what in after.items()}  # type: ignore[index]
        assert {path: what[1] for path, what in now.items()} == {path: what[1] for path, what in after.items()}  # type: ignore[index]


@given(st.text(st.sampled_from("a./"), max_size=12), st.integers(0, 3))
def test_links_are_read_as_the_kernel_reads_them(target: str, depth: int) -> None:
    """What is said to stay inside does, in a tree without other links."""
    path = "/".join(["d"] * depth + ["link"])
    inside = leads_inside(path, target)
    joined = os.path.normpath(os.path.join("/top", os.path.dirname(path), target))
    if inside:
        assert joined == "/top" or joined.startswith("/top/")
    elif not target.startswith("/"):
        # At some step it was above the top, even where it came back.
        parts = os.path.join(os.path.dirname(path), target).split("/")
        assert any(os.path.normpath("/".join(["t", *parts[:count]])).startswith("..") or
                   os.path.normpath("/".join(["t", *parts[:count]])) == "." for count in range(len(parts) + 1))  # fmt: skip


@given(st.text(max_size=30) | st.binary(max_size=30).map(os.fsdecode))
def test_shown_names_are_safe(name: str) -> None:
    """No control character and no lone surrogate comes through; a plain name is shown as it is."""
    text = shown(name)
    text.encode()
    assert plain_name(text)
    assert text == name or not plain_name(name)


@given(
    st.lists(
        st.binary(min_size=1, max_size=12).filter(lambda name: not {0, 47} & set(name) and name not in (b".", b"..")),
        max_size=6, unique=True,
    )
)  # fmt: skip
def test_any_bytes_may_be_a_name(names: list[bytes]) -> None:
    """Each file is taken under its very name, or refused; what leaves is always text."""
    with fresh() as copy:
        for name in names:
            with open(os.path.join(os.fsencode(copy.work), name), "wb") as stream:
                stream.write(name)
        with opened(copy.work) as descriptor:
            found = collect(descriptor, {}, max_bytes=1 << 20, max_files=100)
        for path, file in found.files.items():
            assert path.encode() == file.read()
        assert len(found.files) + len(found.refused) == len(names)
        for row in found.refused:
            assert row.path.encode()
        try:
            assert set(copy.fill().entries) == set()
        except StagingError:
            pytest.fail("an empty project is one")

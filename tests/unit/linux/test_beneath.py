"""Opening below a folder: no link, no mount, no `..`, with the kernel's own walk and without."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import house
from fastness._linux import beneath


@pytest.fixture(params=["openat2", "no openat2"])
def top(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    if request.param == "openat2" and not beneath.has_openat2():
        house.lacks("this kernel has no openat2")
    if request.param != "openat2":
        monkeypatch.setattr(beneath, "_works", False)
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"inside")
    (tmp_path / "to_folder").symlink_to("a")
    (tmp_path / "a/to_file").symlink_to("b/file")
    (tmp_path / "out").symlink_to("/etc")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def error_of(function: object, *arguments: object) -> str:
    try:
        os.close(function(*arguments))  # type: ignore[operator]
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "succeeded"


def test_real_names_are_opened(top: int) -> None:
    """A file in a folder in a folder; the descriptors do not survive exec."""
    folder = beneath.open_folder(top, "a/b")
    found = beneath.open_child(folder, "file", os.O_RDONLY)
    assert os.read(found, 10) == b"inside"
    assert not os.get_inheritable(folder)
    assert not os.get_inheritable(found)
    os.close(found)
    os.close(folder)
    again = beneath.open_folder(top, "")
    assert os.path.samestat(os.fstat(again), os.fstat(top))
    os.close(again)


def test_links_are_not_followed(top: int) -> None:
    """Neither the last name nor one on the way."""
    assert error_of(beneath.open_folder, top, "to_folder/b") == "ELOOP"
    assert error_of(beneath.open_folder, top, "to_folder") == "ELOOP"
    assert error_of(beneath.open_folder, top, "out") == "ELOOP"
    assert error_of(beneath.open_child, top, "out", os.O_RDONLY | os.O_DIRECTORY) == "ELOOP"
    assert error_of(beneath.open_folder, top, "a/b/file") == "ENOTDIR"
    folder = beneath.open_folder(top, "a")
    assert error_of(beneath.open_child, folder, "to_file", os.O_RDONLY) == "ELOOP"
    os.close(folder)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", "../x", "a\0", "a\0b", "\0", "\ud800"])
def test_only_plain_names_are_children(top: int, name: str) -> None:
    """Whatever else is no name of an entry; a NUL would end it in C, and another entry would be opened."""
    for flags in (os.O_RDONLY, os.O_RDONLY | os.O_DIRECTORY):
        assert error_of(beneath.open_child, top, name, flags) == "EINVAL"
        assert error_of(beneath.open_entry, top, name, flags) == "EINVAL"


_NAMES = st.sampled_from(["a", "b", "c"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join)
_TARGETS = st.sampled_from(["a", "b/c", "..", "../..", ".", "/etc", "none", "c"])


@given(st.dictionaries(_PATHS, st.none() | st.just("") | _TARGETS, max_size=8), _PATHS)
def test_both_walks_open_the_same(tree: dict[str, str | None], path: str) -> None:
    """Among any folders, files and links: what is opened lies where its path says, and both refuse for one reason."""
    with tempfile.TemporaryDirectory() as base, pytest.MonkeyPatch.context() as patch:
        for name, what in tree.items():
            place = Path(base, name)
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                if what is None:
                    place.mkdir(exist_ok=True)
                elif what == "":
                    place.touch()
                elif place.parent.resolve().is_relative_to(base):
                    place.symlink_to(what)
            except OSError:
                continue
        top = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
        said = []
        try:
            for works in {beneath.has_openat2(), False}:
                patch.setattr(beneath, "_works", works)
                try:
                    found = beneath.open_folder(top, path)
                except OSError as error:
                    said.append(errno.errorcode[error.errno or 0])
                else:
                    said.append(os.readlink(f"/proc/self/fd/{found}"))
                    os.close(found)
        finally:
            os.close(top)
        assert len(set(said)) == 1
        assert said[0] == f"{os.path.realpath(base)}/{path}" or said[0] in ("ENOENT", "ENOTDIR", "ELOOP")


def test_another_mount_is_not_entered() -> None:
    """What is mounted below a folder belongs to somebody else."""
    top = os.open("/", os.O_RDONLY)
    try:
        assert error_of(beneath.open_child, top, "proc", os.O_RDONLY | os.O_DIRECTORY) == "EXDEV"
    finally:
        os.close(top)


@pytest.mark.parametrize(
    ("path", "inside"),
    [("a/to_file", True), ("to_folder", True), ("out", False), ("missing", True), ("to_folder/missing", True),
     ("a/b/file/x", True), ("..", False), ("a/../..", False), ("to_folder/../../x", False), (".", True)],
)  # fmt: skip
def test_where_links_lead(top: int, path: str, inside: bool) -> None:
    """Followed by the kernel, not read as text."""
    assert beneath.stays_inside(top, path) is inside


def test_renaming_does_not_replace(top: int, tmp_path: Path) -> None:
    """And an exchange has both names afterwards."""
    (tmp_path / "x").write_bytes(b"x")
    (tmp_path / "y").write_bytes(b"y")
    with pytest.raises(FileExistsError):
        beneath.rename(top, "x", top, "y", beneath.RENAME_NOREPLACE)
    beneath.rename(top, "x", top, "y", beneath.RENAME_EXCHANGE)
    assert ((tmp_path / "x").read_bytes(), (tmp_path / "y").read_bytes()) == (b"y", b"x")

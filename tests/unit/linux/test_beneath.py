"""Opening below a folder: no link, no mount, no `..`, with the kernel's own walk and without."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    assert error_of(beneath.open_folder, top, "to_folder/b") in ("ELOOP", "ENOTDIR")
    assert error_of(beneath.open_folder, top, "to_folder") in ("ELOOP", "ENOTDIR")
    assert error_of(beneath.open_folder, top, "out") in ("ELOOP", "ENOTDIR")
    folder = beneath.open_folder(top, "a")
    assert error_of(beneath.open_child, folder, "to_file", os.O_RDONLY) == "ELOOP"
    os.close(folder)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", "../x"])
def test_only_plain_names_are_children(top: int, name: str) -> None:
    """Whatever else is no name of an entry."""
    assert error_of(beneath.open_child, top, name, os.O_RDONLY) == "EINVAL"


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

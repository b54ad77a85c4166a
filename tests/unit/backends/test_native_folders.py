"""Folders of confined guests: made ahead, used once, gone with their maker."""

from __future__ import annotations

import os
import stat
import time
from itertools import count
from pathlib import Path

import pytest

from fastness.backends import native_folders
from fastness.backends.native_folders import Folders, make, open_quietly, remove


@pytest.fixture
def boxes(tmp_path: Path) -> Path:
    """A folder below one of an owner, as anything that is removed has to be."""
    made = tmp_path / "0123456789abcdef"
    made.mkdir()
    return made


@pytest.fixture
def folders(boxes: Path) -> Folders:
    """Folders of this process's own user."""
    names = count()
    return Folders(str(boxes), lambda: f"f{next(names)}")


def ticked(folders: Folders) -> str:
    """A folder that was made ahead, a tick of the kernel's clock (10 ms at most) or more before it is taken."""
    folders.add(-1)
    time.sleep(0.02)
    return folders.take(-1)


def test_what_is_taken_is_whole_and_private(folders: Folders) -> None:
    """A folder has its two folders, and none of the three is open to anybody else."""
    for ahead in (False, True):
        if ahead:
            folders.add(-1)
        path = folders.take(-1)
        assert sorted(os.listdir(path)) == ["tmp", "work"]
        for one in (path, f"{path}/work", f"{path}/tmp"):  # folders of the test
            assert stat.S_IMODE(os.stat(one).st_mode) == 0o700
            assert os.stat(one).st_uid == os.getuid()


def test_each_is_had_once(folders: Folders) -> None:
    """Neither those that were made ahead nor the others are given to two."""
    folders.add(-1)
    folders.add(-1)
    taken = [folders.take(-1) for _ in range(4)]
    assert len(set(taken)) == 4
    assert not folders.names()


def test_those_of_another_user_are_not_had(folders: Folders, boxes: Path) -> None:
    """A folder that waits for one user is no other user's, and goes when that user's zygote does."""
    folders.add(-1)
    (waits,) = folders.names()
    if os.getuid() == 0:
        other = folders.take(12345)
        assert os.path.basename(other) != waits
        assert os.stat(other).st_uid == 12345
    folders.keep_only(12345)
    assert not folders.names()
    assert not (boxes / waits).exists()
    folders.add(-1)
    assert not folders.names()


def test_no_more_wait_than_are_used(folders: Folders, boxes: Path) -> None:
    """However often one is added, no more wait than a batch of burials."""
    for _ in range(100):
        folders.add(-1)
    assert len(os.listdir(boxes)) == len(folders.names()) <= 32


def test_closing_removes_them(folders: Folders, boxes: Path) -> None:
    """Those that wait go, and none come after."""
    folders.add(-1)
    kept = folders.take(-1)
    folders.add(-1)
    folders.close()
    folders.add(-1)
    assert os.listdir(boxes) == [os.path.basename(kept)]


def test_a_place_where_none_can_be_made(tmp_path: Path) -> None:
    """What cannot be made is told, and nothing of it is left."""
    with pytest.raises(OSError, match="missing"):
        Folders(str(tmp_path / "missing"), lambda: "x").take(-1)
    make(str(tmp_path / "x"), -1)
    with pytest.raises(FileExistsError):
        Folders(str(tmp_path), lambda: "x").take(-1)


def test_what_a_guest_has_left_goes_with_its_folder(folders: Folders, tmp_path: Path) -> None:
    """Nothing, files, folders without rights, links that lead out: the folder is gone, and what is outside is not."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    for leave in ("nothing", "file", "locked", "link", "instead"):
        path = Path(folders.take(-1))
        if leave == "file":
            (path / "work" / "a").write_text("x")
        elif leave == "locked":
            (path / "tmp" / "a" / "b").mkdir(parents=True)
            (path / "tmp" / "a").chmod(0)
        elif leave == "link":
            (path / "work" / "a").symlink_to(outside)
        elif leave == "instead":
            (path / "work").rmdir()
            (path / "work").symlink_to(outside)
        remove(str(path))
        assert not path.exists()
    assert (outside / "kept").read_text() == "x"


def test_one_that_nothing_was_done_to_is_had_again(folders: Folders) -> None:
    """It is the same folder, and whoever lists it as the caller does leaves no trace."""
    path = ticked(folders)
    above = os.open(path, os.O_PATH)
    work = open_quietly("work", above)
    assert os.listdir(work) == []
    os.close(work)
    os.close(above)
    folders.give(path, -1, again=True)
    assert folders.names() == {os.path.basename(path)}
    assert folders.take(-1) == path


def test_one_that_was_made_just_now_is_not(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a guest does within the tick in which its folder was made would have the times that the folder has."""
    monkeypatch.setattr(native_folders.time, "clock_gettime_ns", lambda clock: 0)
    folders.add(-1)
    path = folders.take(-1)
    folders.give(path, -1, again=True)
    assert not os.path.exists(path)
    assert len(folders.names()) == 1


def test_times_that_say_nothing_are_not_all(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file system keeps times that do not tell, a folder with something in it is still no other guest's."""
    path = ticked(folders)
    Path(path, "work", "fractions.py").write_text("x")
    monkeypatch.setattr(native_folders._Mark, "__eq__", lambda mark, other: True)
    folders.give(path, -1, again=True)
    assert not os.path.exists(path)


@pytest.mark.parametrize("done", ["file", "gone", "listed", "mode", "attribute", "instead", "link", "times", "above"])
def test_one_that_something_was_done_to_is_not(done: str, folders: Folders, tmp_path: Path) -> None:
    """Also where nothing is to be seen of it any more; another one waits in its place, which is empty and private."""
    path = Path(ticked(folders))
    work = path / "work"
    if done in ("file", "gone"):
        (work / "a").write_text("x")
    if done == "gone":
        (work / "a").unlink()
    elif done == "listed":
        os.listdir(work)
    elif done == "mode":
        work.chmod(0o500)
        work.chmod(0o700)
    elif done == "attribute":
        os.setxattr(work, "user.left", b"x")
    elif done == "times":
        os.utime(work, ns=(work.stat().st_atime_ns, work.stat().st_mtime_ns))
    elif done == "instead":
        work.rmdir()
        work.mkdir(mode=0o700)
    elif done == "link":
        (tmp_path / "outside").mkdir()
        work.rmdir()
        work.symlink_to(tmp_path / "outside")
    elif done == "above":
        (path / "third").mkdir()
    folders.give(str(path), -1, again=True)
    assert not path.exists()
    (waits,) = folders.names()
    assert waits != path.name
    assert os.listdir(path.parent / waits / "work") == []


def test_one_of_a_guest_that_is_not_ours_alone_is_never_had_again(folders: Folders) -> None:
    """Where foreign packages may have run before the guest's walls, its folders go."""
    path = folders.take(-1)
    folders.give(path, -1, again=False)
    assert not os.path.exists(path)
    assert len(folders.names()) == 1


def test_a_link_in_the_place_of_a_folder_is_given_to_nobody(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody of the guests' user swaps a folder between its making and the change of its owner."""
    if os.getuid():
        pytest.skip("only root gives files away")
    outside = tmp_path / "outside"
    outside.write_text("root's")
    mkdir = os.mkdir

    def swapping(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        mkdir(path, mode, dir_fd=dir_fd)
        if os.path.basename(path) == "work":
            os.rmdir(path, dir_fd=dir_fd)
            os.symlink(outside, path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", swapping)
    path = folders.take(12345)
    assert os.lstat(f"{path}/work").st_uid == 12345
    assert outside.stat().st_uid == 0
    assert os.stat(path).st_uid == 12345


def test_nothing_is_made_or_removed_through_a_link(folders: Folders, tmp_path: Path) -> None:
    """A guest of our own user may put a link in the place of its whole folder: what is there is somebody else's."""
    outside = tmp_path / "outside"
    for name in ("work", "tmp"):
        (outside / name).mkdir(parents=True)
    path = Path(folders.take(-1))
    path.rename(path.with_name("moved"))
    path.symlink_to(outside)
    with pytest.raises(OSError, match="Not a directory"):
        remove(str(path))
    assert sorted(os.listdir(outside)) == ["tmp", "work"]

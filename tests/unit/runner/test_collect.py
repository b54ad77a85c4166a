"""What a guest left: taken within caps, or refused by name; nothing blocks, nothing is followed."""

from __future__ import annotations

import errno
import os
import socket
import time
from pathlib import Path

import pytest
from tree_support import BYTES, Copy, opened, write

from fastness.runner.collect import Collected, collect
from fastness.runs import Changes, DenialCode


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def collected(
    folder: Path, before: dict[str, bytes] | None = None, max_bytes: int = BYTES, max_files: int = 1000
) -> Collected:
    with opened(folder) as descriptor:
        return collect(descriptor, before or {}, max_bytes=max_bytes, max_files=max_files)


def refused(found: Collected) -> dict[str, str]:
    return {row.path: row.why for row in found.refused}


# staged files


def test_an_empty_folder_is_nothing(tmp_path: Path) -> None:
    """The common case; the descriptor is the caller's and stays usable."""
    with opened(tmp_path) as descriptor:
        for _ in range(3):
            assert collect(descriptor, {}, max_bytes=0, max_files=0) == Collected()


def test_the_difference_to_what_was_staged(tmp_path: Path) -> None:
    """Added, changed and deleted; only what is new or other has content."""
    for name, content in {"same": b"1", "other": b"2x", "sized": b"333", "sub/new": b"4"}.items():
        write(tmp_path / name, content)
    found = collected(tmp_path, {"same": b"1", "other": b"2y", "sized": b"3", "gone": b"5"})
    assert found.changes == Changes(("sub/new",), ("other", "sized"), ("gone",))
    assert {path: file.read() for path, file in found.files.items()} == {
        "other": b"2x", "sized": b"333", "sub/new": b"4"
    }  # fmt: skip
    assert (found.total_files, found.total_bytes) == (4, 7)
    assert found.complete


def test_times_prove_nothing(copy: Copy) -> None:
    """A change that keeps size and times is a change."""
    path = write(copy.real / "a", b"old")
    large = write(copy.real / "large", b"o" * 900_000)
    copy.fill()
    for mine, name in ((path, "a"), (large, "large")):
        target = copy.work / name
        target.write_bytes(mine.read_bytes().replace(b"o", b"n"))
        os.utime(target, ns=(0, mine.stat().st_mtime_ns))
    assert copy.collect().changes.changed == ("a", "large")


def test_a_link_is_named_and_not_followed(tmp_path: Path) -> None:
    """Whatever it leads to, nothing is read through it."""
    (tmp_path / "passwd").symlink_to("/etc/passwd")
    (tmp_path / "etc").symlink_to("/etc")
    (tmp_path / "self").symlink_to("self")
    found = collected(tmp_path, {"etc": b"was a file"})
    assert not found.files
    assert found.changes.added == ("passwd", "self")
    assert found.changes.changed == ("etc",)
    assert found.changes.links == {"passwd": "/etc/passwd", "etc": "/etc", "self": "self"}


def test_pipes_and_sockets_do_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused without being read."""
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    begun = time.monotonic()
    found = collected(tmp_path, {"pipe": b"was a file"})
    assert time.monotonic() - begun < 1
    assert refused(found) == {"pipe": "it is a named pipe", "socket": "it is a socket"}
    assert found.changes == Changes()
    assert [denial.code for denial in found.denials] == [DenialCode.UNSUPPORTED] * 2


def test_devices_are_refused(tmp_path: Path) -> None:
    """A guest cannot make one; a folder that somebody else made may hold one."""
    try:
        os.mknod(tmp_path / "null", 0o20666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    assert refused(collected(tmp_path)) == {"null": "it is a device"}


def test_a_file_of_huge_size_is_not_read(tmp_path: Path) -> None:
    """A terabyte of nothing takes no memory and no time, and does not hide its neighbours."""
    with (tmp_path / "a").open("wb") as stream:
        stream.truncate(1 << 40)
    write(tmp_path / "b", b"small")
    begun = time.monotonic()
    found = collected(tmp_path)
    assert time.monotonic() - begun < 1
    assert [(row.path, row.code) for row in found.refused] == [("a", DenialCode.TOO_LARGE)]
    assert list(found.files) == ["b"]


def test_bytes_are_capped_together(tmp_path: Path) -> None:
    """What fits is taken in order, also behind what does not."""
    for name, size in (("a", 60), ("b", 60), ("c", 40)):
        write(tmp_path / name, b"x" * size)
    found = collected(tmp_path, max_bytes=100)
    assert list(found.files) == ["a", "c"]
    assert "40 bytes that file_bytes leaves" in refused(found)["b"]


def test_hard_links_count_once_each(tmp_path: Path) -> None:
    """One content under many names is no way past the cap."""
    write(tmp_path / "a", b"x" * 400)
    for number in range(10):
        os.link(tmp_path / "a", tmp_path / f"b{number}")
    found = collected(tmp_path, max_bytes=1000)
    assert len(found.files) == 2
    assert len(found.refused) == 9


def test_too_many_entries_end_the_walk(tmp_path: Path) -> None:
    """What was not looked at is not taken for deleted."""
    for number in range(50):
        write(tmp_path / f"f{number:02}")
    found = collected(tmp_path, {"f49": b"x", "zz": b"y"}, max_files=20)
    assert len(found.files) <= 20
    assert [row.code for row in found.refused] == [DenialCode.QUOTA]
    assert not found.complete
    assert found.changes.deleted == ()


def test_many_refused_entries_are_counted(tmp_path: Path) -> None:
    """64 are kept."""
    for number in range(100):
        os.mkfifo(tmp_path / f"p{number}")
    found = collected(tmp_path)
    assert (len(found.refused), found.refused_dropped) == (64, 36)


def test_odd_names_are_refused_with_escapes(tmp_path: Path) -> None:
    """Control characters, and bytes that are not UTF-8; nothing below such a folder is taken."""
    write(tmp_path / "a\nb")
    write(tmp_path / "\x1b]0;title\x07")
    write(tmp_path / "\udcff\udcfe/inner/x")
    write(tmp_path / "c1\x9b")
    (tmp_path / "link").symlink_to("to\udc80")
    found = collected(tmp_path)
    assert not found.files
    assert found.changes == Changes()
    assert set(refused(found)) == {"a\\x0ab", "\\x1b]0;title\\x07", "\\xff\\xfe", "c1\\x9b", "link"}
    for row in found.refused:
        assert row.path.isprintable()
        row.path.encode()


def test_a_name_that_the_caller_chose_comes_back(tmp_path: Path) -> None:
    """Odd as it may be: it was staged under it."""
    write(tmp_path / "t\tab/a\nb", b"2")
    found = collected(tmp_path, {"t\tab/a\nb": b"1"})
    assert found.changes.changed == ("t\tab/a\nb",)
    assert not found.refused


def test_closed_files_and_folders_are_opened(tmp_path: Path) -> None:
    """A guest that takes its own rights away hides nothing; no link is followed on the way."""
    write(tmp_path / "file", b"1", 0)
    write(tmp_path / "folder/x", b"2", 0)
    (tmp_path / "folder").chmod(0)
    outside = write(tmp_path.parent / "outside", b"3", 0)
    (tmp_path / "link").symlink_to(outside)
    found = collected(tmp_path)
    assert {path: file.read() for path, file in found.files.items()} == {"file": b"1", "folder/x": b"2"}
    assert outside.stat().st_mode & 0o777 == 0


def test_a_closed_top_is_opened(tmp_path: Path) -> None:
    """The work folder itself is the guest's too."""
    write(tmp_path / "file", b"1")
    with opened(tmp_path) as descriptor:
        tmp_path.chmod(0)
        assert list(collect(descriptor, {}, max_bytes=10, max_files=10).files) == ["file"]


def test_deep_folders_are_refused_at_a_depth(tmp_path: Path) -> None:
    """Made by descending, deeper than any path can say; the walk neither recurses nor runs out of descriptors."""
    made = 1500
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(made):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    write(tmp_path / "z", b"beside")
    begun = time.monotonic()
    found = collected(tmp_path)
    assert time.monotonic() - begun < 1
    assert list(found.files) == ["z"]
    assert [row.why for row in found.refused] == ["it is more than 64 folders deep"]
    remove_deep(tmp_path)


def remove_deep(folder: Path) -> None:
    """Without paths: no tool takes one that long."""
    top = os.open(folder, os.O_RDONLY)
    while True:
        os.rename("d", "e", src_dir_fd=top, dst_dir_fd=top)
        inner = os.open("e", os.O_RDONLY, dir_fd=top)
        try:
            os.rename("d", "d", src_dir_fd=inner, dst_dir_fd=top)
        except OSError as error:
            assert error.errno == errno.ENOENT
            break
        finally:
            os.close(inner)
            os.rmdir("e", dir_fd=top)
    os.close(top)


def test_long_paths_are_refused(tmp_path: Path) -> None:
    """Of 20 folders with the longest names."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("n" * 255, dir_fd=here)
        deeper = os.open("n" * 255, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    found = collected(tmp_path)
    assert [row.why for row in found.refused] == ["its path is longer than 4096 bytes"]
    (tmp_path / ("n" * 255)).rename(tmp_path / "d")
    here = tmp_path / "d"
    while inner := next(here.iterdir(), None):
        (inner).rename(tmp_path / "e")
        here.rmdir()
        here = (tmp_path / "e").rename(tmp_path / "d")


def test_a_file_that_changes_all_the_time_is_bounded(tmp_path: Path) -> None:
    """One that grows while it is read is refused or taken with its size of one moment; never more than the cap."""
    path = write(tmp_path / "log", b"x" * 1000)
    grows = path.open("ab")
    real = os.read

    def read(descriptor: int, count: int) -> bytes:
        grows.write(b"y" * 100)
        grows.flush()
        return real(descriptor, count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "read", read)
        found = collected(tmp_path)
    grows.close()
    assert refused(found) == {"log": "it grew while it was read"}


# projects


def test_modes_of_a_project_are_told(copy: Copy) -> None:
    """Of new files where they are unusual, of others where they changed; set-id bits are not hidden."""
    write(copy.real / "tool", b"1", 0o755)
    write(copy.real / "data", b"2", 0o600)
    copy.fill()
    write(copy.work / "new", b"3")
    write(copy.work / "new.sh", b"4", 0o755)
    (copy.work / "data").chmod(0o644)
    (copy.work / "tool").chmod(0o4755)
    found = copy.collect()
    assert found.changes.modes == {"data": "0644", "new.sh": "0755", "tool": "4755"}
    assert found.changes.changed == ("data", "tool")
    assert found.files["data"].read() == b"2"


def test_kinds_that_change(copy: Copy) -> None:
    """A file that became a folder is deleted; a link in its place is a change; a folder that went takes its files."""
    for name in ("file", "linked", "folder/x", "folder/sub/y"):
        write(copy.real / name)
    copy.fill()
    (copy.work / "file").unlink()
    write(copy.work / "file/inner")
    (copy.work / "linked").unlink()
    (copy.work / "linked").symlink_to("file")
    (copy.work / "folder").rename(copy.work / "moved")
    found = copy.collect()
    assert found.changes == Changes(
        ("file/inner", "moved/sub/y", "moved/x"), ("linked",), ("file", "folder/sub/y", "folder/x"),
        links={"linked": "file"},
    )  # fmt: skip
    assert found.folders_gone == ("folder", "folder/sub")


def test_what_was_left_out_is_told(copy: Copy) -> None:
    """With the result's changes."""
    write(copy.real / ".env")
    copy.fill()
    assert copy.collect().changes.left_out == {".env": "it looks like a secret"}


def test_a_hard_link_to_outside_is_known(copy: Copy) -> None:
    """Names that are all inside are copies of each other; one that is not all inside is another matter."""
    write(copy.real / "a")
    copy.fill()
    write(copy.work / "in1")
    os.link(copy.work / "in1", copy.work / "in2")
    outside = write(copy.work.parent / "outside", b"o")
    os.link(outside, copy.work / "out")
    assert copy.collect().outside_links == ("out",)

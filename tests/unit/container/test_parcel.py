"""
Folders as streams: what goes in comes out, and what was not written by us does no harm.
"""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness._container import parcel
from fastness._container.parcel import BadParcel, Unpacker


def opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def unpack(data: bytes, into: Path, step: int = 1 << 20, max_bytes: int = 1 << 20, max_files: int = 1000) -> Unpacker:
    into.mkdir(exist_ok=True)
    fd = opened(into)
    try:
        unpacker = Unpacker(fd, max_bytes, max_files)
        try:
            for start in range(0, len(data), step):
                unpacker.feed(data[start : start + step])
        finally:
            unpacker.close()
    finally:
        os.close(fd)
    return unpacker


def record(**fields: object) -> bytes:
    head = json.dumps(fields).encode()
    return len(head).to_bytes(4, "big") + head


END = b"\0\0\0\0"


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_a_folder_comes_out_as_it_went_in(step: int, tmp_path: Path) -> None:
    source = tmp_path / "in"
    (source / "a" / "b").mkdir(parents=True)
    (source / "a" / "b" / "file").write_bytes(b"x" * 70_000)
    (source / "a" / "empty").write_bytes(b"")
    (source / "link").symlink_to("a/b/file")
    (source / "a" / "run").write_text("run")
    (source / "a" / "run").chmod(0o4755)
    (source / "closed").mkdir(mode=0o500)
    os.mkfifo(source / "pipe")
    os.mkfifo(source / b"\xff".decode("utf-8", "surrogateescape"))
    fd = opened(source)
    data = b"".join(parcel.of_folder(fd))
    os.close(fd)
    found = unpack(data, tmp_path / "out", step)
    out = tmp_path / "out"
    assert found.done
    assert (out / "a" / "b" / "file").read_bytes() == b"x" * 70_000
    assert (out / "a" / "empty").read_bytes() == b""
    assert (out / "link").readlink() == Path("a/b/file")
    assert (out / "a" / "run").stat().st_mode & 0o7777 == 0o755
    assert (out / "closed").stat().st_mode & 0o777 == 0o500
    assert (out / "pipe").is_fifo()
    assert os.path.lexists(os.fsencode(out) + b"/\xff")
    assert (out / "a" / "b" / "file").stat().st_mtime_ns == (source / "a" / "b" / "file").stat().st_mtime_ns


def test_files_of_ours(tmp_path: Path) -> None:
    data = b"".join(parcel.of_files([("a/b", b"1"), ("a/c", b"2"), ("d", b"")]))
    assert unpack(data, tmp_path / "out").done
    assert sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")) == [
        "a", "a/b", "a/c", "d",
    ]  # fmt: skip


def test_no_link_is_followed(tmp_path: Path) -> None:
    """What a stream has linked is not a folder to it: nothing is ever written below a link."""
    outside = tmp_path / "outside"
    outside.mkdir()
    data = record(p="l", k="link", l=str(outside)) + record(p="l/x", k="file", s=1) + b"x" + END
    with pytest.raises(BadParcel):
        unpack(data, tmp_path / "out")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("path", ["../x", "/x", "a/../x", "", ".", "a//b", "./a", "x\0y", "a" * 5000])
def test_paths_that_lead_elsewhere(path: str, tmp_path: Path) -> None:
    with pytest.raises(BadParcel):
        unpack(record(p=path, k="file", s=1) + b"x" + END, tmp_path / "out")
    assert [one.name for one in tmp_path.iterdir()] == ["out"]
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\0\0\0\x02{]",
        record(p="a", k="file", s=-1),
        record(p="a", k="file", s=1.5),
        record(p="a", k="file", s=True),
        record(p="a", k="file", s=1 << 60),
        record(p="a", k="file", s="1"),
        record(p="a", k="file", m="x"),
        record(p=["a"], k="file"),
        record(p="a", k="other"),
        record(p="a", k=["file"]),
        record(k="file"),
        record(p="a", k="link"),
        record(p="a", k="link", l=7),
        record(p="a", k="folder") + record(p="a", k="folder"),
        record(p="a", k="file", s=0) + record(p="a", k="link", l="/etc"),
        record(p="a/b", k="file", s=0),
        END + record(p="a", k="folder"),
        b"\0\0\0\x01[",
        b"\0\0\x00\x02[]",
    ],
)
def test_what_is_no_stream_of_ours(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadParcel):
        unpack(data, tmp_path / "out")


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        try:
            unpack(data, Path(folder) / "out")
        except BadParcel:
            pass


def test_what_does_not_fit_is_left_out_and_named(tmp_path: Path) -> None:
    data = b"".join(parcel.of_files([("a", b"x" * 600), ("b", b"y" * 600), ("c", b"z" * 300)]))
    found = unpack(data, tmp_path / "out", max_bytes=1000)
    assert (found.done, found.beyond) == (True, "b")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a", "c"]


def test_more_entries_than_may_be(tmp_path: Path) -> None:
    data = b"".join(parcel.of_files([(f"f{number}", b"") for number in range(50)]))
    found = unpack(data, tmp_path / "out", max_files=10)
    assert (found.done, found.beyond) == (True, "f10")
    assert len(list((tmp_path / "out").iterdir())) == 10


def test_a_file_that_shrinks_while_it_is_read_is_padded(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a").write_bytes(b"x" * (1 << 20))
    fd = opened(source)
    pieces = parcel.of_folder(fd)
    data = next(pieces)
    (source / "a").write_bytes(b"")
    data += b"".join(pieces)
    os.close(fd)
    found = unpack(data, tmp_path / "out", max_bytes=2 << 20)
    assert found.done
    assert (tmp_path / "out" / "a").stat().st_size == 1 << 20


def test_what_lies_too_deep_is_counted(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    fd = opened(source)
    at = os.dup(fd)
    for _ in range(30):
        os.mkdir("n" * 200, dir_fd=at)
        below = os.open("n" * 200, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    data = b"".join(parcel.of_folder(fd))
    os.close(fd)
    found = unpack(data, tmp_path / "out")
    assert found.done
    assert found.skipped == 1


def test_more_folders_side_by_side_than_descriptors(tmp_path: Path) -> None:
    source = tmp_path / "in"
    for number in range(100):
        (source / f"d{number}").mkdir(parents=True)
        (source / f"d{number}" / "file").write_text("x")
    fd = opened(source)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 20, before[1]))
    try:
        data = b"".join(parcel.of_folder(fd))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        os.close(fd)
    found = unpack(data, tmp_path / "out")
    assert (found.done, found.skipped) == (True, 0)
    assert len(list((tmp_path / "out").glob("*/file"))) == 100


def test_what_is_beyond_the_bounds_is_named_and_not_sent(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for name in ("a", "b", "c"):
        # No block of them is there: only their length is beyond what may come.
        with (source / name).open("wb") as file:
            file.truncate(600)
    (source / "d").write_text("small")
    fd = opened(source)
    data = b"".join(parcel.of_folder(fd, 1000, 100))
    few = b"".join(parcel.of_folder(fd, 1 << 20, 2))
    os.close(fd)
    assert len(data) < 1400
    found = unpack(data, tmp_path / "out")
    assert (found.done, found.beyond) == (True, "b")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a", "d"]
    found = unpack(few, tmp_path / "few")
    assert (found.done, found.beyond) == (True, "c")


def test_where_all_must_come_an_entry_that_does_not_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    fd = opened(tmp_path / "out")
    with pytest.raises(BadParcel):
        Unpacker(fd, 1 << 20, 100, whole=True).feed(record(p="", k="skipped", s=0, n=1) + END)
    os.close(fd)

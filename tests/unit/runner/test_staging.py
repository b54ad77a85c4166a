"""Paths and files on their way in: what is taken, and why the rest is not."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness.errors import StagingError
from fastness.runner import staging

_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..")
)


@given(st.lists(_NAMES, min_size=1, max_size=8))
def test_plain_paths_stay_as_they_are(parts: list[str]) -> None:
    """A relative path of plain names is returned unchanged."""
    path = "/".join(parts)
    assert staging.check_path(path) == path


@given(st.lists(st.sampled_from(["a", "b.c", "", ".", "ü"]), min_size=1, max_size=12))
def test_what_is_taken_is_normal(parts: list[str]) -> None:
    """Empty parts and dots go; what comes out goes through again as it is."""
    try:
        taken = staging.check_path("/".join(parts))
    except StagingError:
        assert not any(part not in ("", ".") for part in parts) or parts[0] == "" or parts[-1] == ""
        return
    assert taken.split("/") == [part for part in parts if part not in ("", ".")]
    assert staging.check_path(taken) == taken


@given(st.text(max_size=60) | st.text(st.sampled_from("./\\a\0\ud800"), max_size=20))
def test_no_text_leads_out(text: str) -> None:
    """Whatever the text: an error, or a path that stays below the folder on any file system."""
    try:
        taken = staging.check_path(text)
    except StagingError as error:
        assert error.why
        return
    joined = os.path.normpath(os.path.join("/base", taken))
    assert joined.startswith("/base/")
    assert joined == f"/base/{taken}"
    assert "\0" not in taken
    assert taken.encode()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (None, "text"),
        (b"a", "text"),
        (Path("a"), "text"),
        ("", "empty"),
        ("/a", "relative"),
        ("a/../b", "'..'"),
        ("..", "'..'"),
        ("a\0b", "NUL"),
        ("\ud800", "UTF-8"),
        ("a/", "folder"),
        (".", "folder"),
        ("x" * 256, "255"),
        ("é" * 128, "255"),
        ("/".join(["a"] * 65), "64"),
        ("/".join(["abcdefgh" * 8] * 64), "4096"),
    ],
)
def test_paths_that_are_refused(path: Any, why: str) -> None:
    """Each is refused with its own reason."""
    with pytest.raises(StagingError) as caught:
        staging.check_path(path)
    assert why in caught.value.why


def stage(files: Any, max_bytes: int = 100, max_files: int = 10) -> dict[str, bytes]:
    """Stage with small caps."""
    return staging.stage(files, max_bytes=max_bytes, max_files=max_files)


def test_every_kind_of_content(tmp_path: Path) -> None:
    """Bytes of any kind, text as UTF-8, and the content of a host file."""
    (tmp_path / "f").write_bytes(b"file")
    given_files = {"a": b"1", "b": bytearray(b"2"), "c": memoryview(b"3"), "d/e": "ü", "f": tmp_path / "f", "g": ""}
    expected = {"a": b"1", "b": b"2", "c": b"3", "d/e": "ü".encode(), "f": b"file", "g": b""}
    assert stage(given_files) == expected


def test_caps(tmp_path: Path) -> None:
    """The caps are on the sum, and exactly the cap is allowed."""
    assert len(stage({"a": bytes(60), "b": bytes(40)})) == 2
    with pytest.raises(StagingError, match="b"):
        stage({"a": bytes(60), "b": bytes(41)})
    assert len(stage({str(i): b"" for i in range(10)})) == 10
    with pytest.raises(StagingError, match="10 files"):
        stage({str(i): b"" for i in range(11)})
    (tmp_path / "f").write_bytes(bytes(101))
    with pytest.raises(StagingError, match="100"):
        stage({"f": tmp_path / "f"})


def test_each_refusal_says_what_to_do(tmp_path: Path) -> None:
    """A cap by the option that raises it, a wrong source by what would be taken; else the path is to be looked at."""
    (tmp_path / "link").symlink_to("f")
    (tmp_path / "f").write_bytes(bytes(101))
    for files, fix in (
        ({"a": bytes(101)}, "--disk SIZE"),
        ({"a": tmp_path / "f"}, "--disk SIZE"),
        ({str(i): b"" for i in range(11)}, "--max-files N"),
        ({"../a": b""}, "Give a short path below /work"),
        ({"a/": b""}, "Add the name of a file"),
        ({"a": tmp_path}, "Name a file"),
        ({"a": tmp_path / "link"}, "Name the file that it leads to"),
        ({"a": 1}, "as bytes or str"),
        ({"a": tmp_path / "missing"}, "Check the path that was given"),
    ):
        with pytest.raises(StagingError) as caught:
            stage(files)
        assert fix in caught.value.fix
        assert str(caught.value).endswith(f"nothing ran. {caught.value.fix}")


@pytest.mark.parametrize(
    "files", [{"a": b"", "./a": b""}, {"a": b"", "a/b": b""}, {"x/y/z": b"", "x/y": b""}, {"a": 1}, {"a": None}]
)
def test_files_that_cannot_be_together(files: Any) -> None:
    """The same place twice, a file that is a folder of another, and things that are no content."""
    with pytest.raises(StagingError):
        stage(files)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """Links, folders, pipes, sockets and devices are refused without being waited for."""
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("real")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "sock"))
        for name in ("link", "pipe", "sock", "missing", "."):
            with pytest.raises(StagingError):
                staging.read_file(tmp_path / name, 100)
    for device in ("/dev/zero", "/dev/null", "/proc/self/mem"):
        with pytest.raises(StagingError):
            staging.read_file(device, 100)


def test_folders(tmp_path: Path) -> None:
    """A folder is copied with its regular files; links inside it to its own files are those files."""
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "a").write_text("1")
    (tmp_path / "d" / "e" / "b").write_text("2")
    (tmp_path / "d" / "l").symlink_to("e/b")
    folder = tmp_path / "d"
    assert staging.stage_folder(folder, max_bytes=10, max_files=10) == {"a": b"1", "l": b"2", "e/b": b"2"}
    with pytest.raises(StagingError):
        staging.stage_folder(folder, max_bytes=2, max_files=10)
    with pytest.raises(StagingError):
        staging.stage_folder(folder, max_bytes=10, max_files=2)


@pytest.mark.parametrize("target", ["../outside", "/etc/hostname", "nowhere", "e"])
def test_links_that_lead_elsewhere(target: str, tmp_path: Path) -> None:
    """Out of the folder, nowhere, or to a folder: refused by name."""
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "l").symlink_to(target)
    with pytest.raises(StagingError) as caught:
        staging.stage_folder(tmp_path / "d", max_bytes=100, max_files=10)
    assert "/l" in str(caught.value)


@pytest.fixture
def ordinary() -> Iterator[None]:
    """As a user without rights of its own, where this run is root's."""
    if os.geteuid():
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o111])
@pytest.mark.parametrize("where", ["shut", "open/shut"])
def test_a_folder_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, mode: int, where: str
) -> None:
    """It does not look like an empty one."""
    place = tmp_path / "place"
    for path in (place, place / "open", place / where):
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
    (place / where / "file").write_text("x")
    (place / where).chmod(mode)
    monkeypatch.chdir(place)
    request.getfixturevalue("ordinary")
    with pytest.raises(StagingError, match=f"cannot stage ./{where}: Permission denied"):
        staging.stage_folder(".", max_bytes=99, max_files=99)


def test_links_count_as_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    for name in "bcd":
        (tmp_path / name).symlink_to("a")
    assert len(staging.stage_folder(tmp_path, max_bytes=99, max_files=4)) == 4
    with pytest.raises(StagingError, match="more than 3 files"):
        staging.stage_folder(tmp_path, max_bytes=99, max_files=3)

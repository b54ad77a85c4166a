"""
A file that cannot be staged is refused by name and reason before anything runs.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import anyio
import pytest

import fastness
from fastness.testing import FakeBackend, fake_sandbox


def refused(files: dict[Any, Any], **options: Any) -> fastness.StagingError:
    """The error of staging, after making sure that nothing ran."""
    fake = FakeBackend()

    async def main() -> None:
        async with fake_sandbox(fake) as box:
            await box.run("print(1)", files=files, **options)

    with pytest.raises(fastness.StagingError) as caught:
        anyio.run(main)
    assert fake.requests == []
    assert caught.value.why and "nothing ran" in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "/",
        "/etc/passwd",
        "..",
        "../x",
        "a/../../x",
        "a/..",
        "a\0b",
        "\0",
        "\ud800",
        "a/\udfff",
        "dir/",
        "x" * 256,
        "\N{SNOWMAN}" * 100,
        "/".join(["d"] * 70),
        "x/" * 3000 + "y",
        b"bytes",
        5,
        None,
    ],
)
def test_destination_names(name: Any) -> None:
    """A destination is a plain relative path in UTF-8 without ``..`` or NUL, of bounded length and depth."""
    error = refused({name: b"data"})
    assert error.path == name


def test_destinations_that_meet() -> None:
    """Two sources for one destination, or a file that is also a folder, are refused."""
    assert "twice" in refused({"a": b"1", "./a": b"2"}).why
    assert "staged as a file" in refused({"a": b"1", "a/b": b"2"}).why


@pytest.mark.parametrize(
    "kind", ["missing", "folder", "link", "dangling", "link out", "fifo", "socket", "device", "zero"]
)
def test_sources_that_are_no_regular_files(kind: str, tmp_path: Path) -> None:
    """Only regular files are read; opening never blocks and never follows a link."""
    (tmp_path / "real").write_text("real")
    source = tmp_path / "source"
    listener = None
    if kind == "folder":
        source.mkdir()
    elif kind == "link":
        source.symlink_to(tmp_path / "real")
    elif kind == "dangling":
        source.symlink_to(tmp_path / "nowhere")
    elif kind == "link out":
        source.symlink_to("/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(source)
    elif kind == "socket":
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(source))
    elif kind == "device":
        source = Path("/dev/null")
    elif kind == "zero":
        source = Path("/dev/zero")
    try:
        error = refused({"a": source})
    finally:
        if listener is not None:
            listener.close()
    assert error.path == str(source)
    assert error.why != ""


def test_source_path_with_nul() -> None:
    """A host path that the kernel cannot take is a staging error, not a ValueError."""
    assert refused({"a": Path("/tmp/a\0b")}).path == "/tmp/a\0b"


def test_unreadable_source(tmp_path: Path) -> None:
    """The operating system's reason is passed on."""
    source = tmp_path / "secret"
    source.write_text("x")
    source.chmod(0)
    user = os.geteuid()
    if user == 0:
        # Root may read everything; for the moment of the attempt this process is somebody else.
        os.seteuid(54_321)
    try:
        assert "ermission" in refused({"a": source}).why
    finally:
        os.seteuid(user)


def test_caps_are_checked_before_reading(tmp_path: Path) -> None:
    """A file over the cap is refused by its size; a sparse terabyte is not read to find out."""
    huge = tmp_path / "huge"
    with huge.open("wb") as stream:
        stream.truncate(1 << 40)
    error = refused({"a": huge})
    assert str(1 << 40) in error.why
    assert "file_bytes" in refused({"a": b"x" * 101}, limits={"file_bytes": 100}).why
    assert "file_bytes" in refused({"a": b"x" * 60, "b": b"x" * 60}, limits={"file_bytes": 100}).why
    assert "files" in refused({"a": b"", "b": b"", "c": b""}, limits={"files": 2}).why


def test_files_without_end(tmp_path: Path) -> None:
    """A file of the kernel that claims to be empty and is not does not make the reader read on."""
    assert "grew" in refused({"a": Path("/proc/self/status")}).why


@pytest.mark.parametrize("source", [7, None, ["a"], 1.5, object()])
def test_sources_of_other_types(source: Any) -> None:
    """Content is bytes or text, a host file is a Path: nothing else is guessed at."""
    refused({"a": source})


def test_text_that_is_not_utf8() -> None:
    """Text content with lone surrogates needs to be passed as bytes."""
    assert "UTF-8" in refused({"a": "\ud800"}).why


@pytest.mark.tiers("wasm", "isolated", "confined")
def test_the_guest_never_sees_refused_files(box: fastness.Sandbox, tmp_path: Path) -> None:
    """With the real tier too: the run is not started, and the next one has none of the files."""
    with pytest.raises(fastness.StagingError):
        box.run("open('ran', 'w')", files={"good": b"1", "bad": tmp_path / "missing"})
    result = box.run("import os; os.listdir('.')")
    assert result.value == []


@pytest.mark.tiers("wasm", "isolated", "confined")
def test_good_files_of_every_kind(box: fastness.Sandbox, tmp_path: Path) -> None:
    """Bytes, text and host files arrive byte for byte, in folders, with names of any script and full length."""
    (tmp_path / "host").write_bytes(b"\x00\xffhost")
    names = ["a", "b/c/d", "\N{SNOWMAN}.txt", "x" * 255, "/".join(["d"] * 63) + "/f", "with space", "-rf", ".hidden"]
    files: dict[str, Any] = {name: name.encode() for name in names}
    files |= {"host": tmp_path / "host", "text": "h\N{LATIN SMALL LETTER E WITH ACUTE}", "./dot//slash": b"1"}
    code = (
        "import os\n"
        "found = {}\n"
        "for here, _, names in os.walk('.'):\n"
        "    for name in names:\n"
        "        path = os.path.join(here, name)\n"
        "        found[path[2:]] = open(path, 'rb').read()\n"
        "found"
    )
    result = box.run(code, files=files)
    expected = {name: name.encode() for name in names}
    expected |= {"host": b"\x00\xffhost", "text": "hé".encode(), "dot/slash": b"1"}
    assert result.value == expected
    assert dict(result.files) == {}


@pytest.mark.tiers("wasm", "isolated", "confined")
def test_large_input(box: fastness.Sandbox) -> None:
    """Input larger than any frame arrives whole."""
    data = os.urandom(1 << 20) * 40
    code = "import hashlib; d = open('big', 'rb').read(); [len(d), hashlib.sha256(d).hexdigest()]"
    import hashlib

    assert box.run(code, files={"big": data}).value == [len(data), hashlib.sha256(data).hexdigest()]

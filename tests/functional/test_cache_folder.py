"""
The cache holds code that engines load: a folder that others may write to is refused, damage is noticed and mended, and
what cannot be written is told with its path and leaves nothing half done.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from wasm_support import SOURCE

import fastness


def attempt(home: Path | str, monkeypatch: pytest.MonkeyPatch) -> fastness.FastnessError:
    """The error of a run with this home folder."""
    monkeypatch.setenv("FASTNESS_HOME", str(home))
    with pytest.raises(fastness.FastnessError) as caught, fastness.Sandbox() as box:
        box.run("1")
    return caught.value


def test_relative_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The home folder is named by an absolute path."""
    error = attempt("somewhere", monkeypatch)
    assert isinstance(error, fastness.ConfigurationError)
    assert error.field == "FASTNESS_HOME"


def test_home_that_is_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file where a folder should be is told by its path."""
    (tmp_path / "home").write_text("x")
    assert str(tmp_path / "home") in str(attempt(tmp_path / "home", monkeypatch))
    assert (tmp_path / "home").read_text() == "x"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o720])
def test_folder_that_others_may_write_to(mode: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is refused with the remedy, and neither used nor repaired: somebody may have put something in."""
    cache = tmp_path / "home" / "cache"
    cache.mkdir(parents=True)
    (tmp_path / "home").chmod(0o700)
    cache.chmod(mode)
    error = attempt(tmp_path / "home", monkeypatch)
    assert isinstance(error, fastness.ConfigurationError)
    assert "chmod 700" in str(error) and str(cache) in str(error)
    assert cache.stat().st_mode & 0o777 == mode
    assert list(cache.iterdir()) == []


def test_folder_that_is_a_link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A link in place of the cache folder is not followed."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "cache").symlink_to(tmp_path / "elsewhere")
    assert isinstance(attempt(tmp_path / "home", monkeypatch), fastness.ConfigurationError)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_folder_of_somebody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another user's folder is refused, even by root."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    (tmp_path / "home" / "cache").mkdir(parents=True, mode=0o700)
    os.chown(tmp_path / "home" / "cache", 12345, 12345)
    error = attempt(tmp_path / "home", monkeypatch)
    assert isinstance(error, fastness.ConfigurationError)
    assert "12345" in str(error)


def test_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not even root may write, the error names the path and the way out."""
    error = attempt("/proc/fastness-home", monkeypatch)
    assert isinstance(error, fastness.BackendError)
    assert "/proc/fastness-home" in str(error) and "FASTNESS_HOME" in str(error)


def _entries(folder: Path) -> set[str]:
    """Entries of the cache; locks and records of what was looked at are none."""
    return {path.name for path in folder.iterdir() if path.name.partition("-")[0] in ("code", "image", "bundle")}


@pytest.fixture
def copied(python_guest: None, tmp_path: Path) -> Path:
    """A home folder with a copy of the built guests but no images."""
    from fastness._wasi import home

    guests = tmp_path / "home" / "cache" / "guests"
    shutil.copytree(home.folder("cache", "guests"), guests, ignore=shutil.ignore_patterns("image-*"))
    for folder in (guests, *guests.parents[:2]):
        folder.chmod(0o700)
    return guests


def test_damaged_image_is_made_again(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong byte anywhere is noticed when the file is opened; the image is made anew and works."""
    monkeypatch.setenv("FASTNESS_HOME", str(copied.parents[1]))
    program = f"""
    import sys; sys.path.insert(0, {str(SOURCE)!r})
    import fastness
    print(fastness.run("6 * 7", preload=()).value)
    """

    def run() -> str:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False, timeout=300
        )
        return done.stdout + done.stderr

    assert run() == "42\n"
    (image,) = [path for path in copied.glob("image-*") if not path.name.endswith(".json")]
    whole = image.read_bytes()
    for change in (len(whole) // 2, len(whole) - 1, None):
        image.chmod(0o600)
        if change is None:
            image.write_bytes(whole[: len(whole) // 2])
        else:
            with image.open("r+b") as stream:
                stream.seek(change)
                stream.write(bytes([whole[change] ^ 1]))
        image.chmod(0o400)
        assert run() == "42\n"
        assert image.read_bytes() == whole


def test_no_room_for_an_image(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that takes no more ends in a clear error and leaves no half-written entry; then it works."""
    monkeypatch.setenv("FASTNESS_HOME", str(copied.parents[1]))
    before = _entries(copied)
    program = f"""
    import resource, sys; sys.path.insert(0, {str(SOURCE)!r})
    import fastness
    with fastness.Sandbox() as box:
        # The rest of the file is refused by the kernel, as on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (10 << 20, resource.RLIM_INFINITY))
        try:
            box.run("1", preload=())
        except fastness.BackendError as error:
            print(error)
        else:
            print("no error")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print(box.run("6 * 7", preload=()).value)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    error, value = done.stdout.strip().rsplit("\n", 1)
    assert value == "42"
    assert "Fix:" in error and "image" in error
    assert len(_entries(copied) - before) == 2, "one image and its record"

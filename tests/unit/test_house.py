"""The suite's own rules: what is left behind fails the run, and what is missing may not pass for a success."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import house

#: A program that looks like an engine to whoever reads its arguments, and does nothing.
BOOT = "import time; time.sleep(60) # from fastness._wasi.engine import main"

#: The status of a run that left something behind; pytest itself has none of this number.
LEFT_BEHIND = 9

INNER_CONFTEST = (Path(house.__file__).parent / "conftest.py").read_text().replace('pytest_plugins = ["pytester"]', "")


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of its own with the suite's conftest, whose grace periods are short."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(Path(house.__file__).parent), str(house.SOURCE))))
    pytester.makeconftest(
        INNER_CONFTEST + "\nhouse.Leftovers.find.__defaults__ = (0.3, 0.3, 0.3)\n",
    )
    return pytester


def test_a_clean_run_passes(inner: pytest.Pytester) -> None:
    """Nothing left: the run ends as its tests did."""
    inner.makepyfile("def test_nothing(): pass")
    result = inner.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*left behind*")


def test_a_living_child_fails_the_run(inner: pytest.Pytester) -> None:
    """A process that a test started and forgot is named, and the run fails though its tests passed."""
    inner.makepyfile(
        f"""
        import subprocess, sys
        kept = []
        def test_forgets():
            null = subprocess.DEVNULL
            child = subprocess.Popen([sys.executable, "-c", {BOOT!r}], stdout=null, stderr=null)
            kept.append(child)
            open("pid", "w").write(str(child.pid))
        """
    )
    try:
        result = inner.runpytest_subprocess("-p", "no:cacheprovider")
    finally:
        subprocess.run(["kill", "-9", (inner.path / "pid").read_text()], check=False)
    assert result.ret == LEFT_BEHIND
    result.stdout.fnmatch_lines(["*left behind*", "process *fastness._wasi.engine*", "*1 passed*"])


def test_an_orphan_fails_the_run(inner: pytest.Pytester) -> None:
    """So does one whose parent has died, which no tree leads to any more."""
    inner.makepyfile(
        f"""
        import subprocess, sys
        def test_orphans():
            code = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', sys.argv[1]], "
            code += "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"
            done = subprocess.run([sys.executable, "-c", code, {BOOT!r}], capture_output=True, text=True)
            open("pid", "w").write(done.stdout)
        """
    )
    try:
        result = inner.runpytest_subprocess("-p", "no:cacheprovider")
    finally:
        subprocess.run(["kill", "-9", (inner.path / "pid").read_text().strip()], check=False)
    assert result.ret == LEFT_BEHIND
    result.stdout.fnmatch_lines(["*left behind*", "process *fastness._wasi.engine*"])


def test_a_folder_fails_the_run(inner: pytest.Pytester, tmp_path: Path) -> None:
    """A temporary folder of ours that stays fails the run."""
    inner.makepyfile(
        f"""
        import tempfile
        def test_litters():
            tempfile.mkdtemp(prefix="fastness-litter-", dir={str(tmp_path)!r})
        """
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path))
        result = inner.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == LEFT_BEHIND
    result.stdout.fnmatch_lines([f"folder {tmp_path}/fastness-litter-*"])


def test_a_control_group_fails_the_run(inner: pytest.Pytester) -> None:
    """A group that nobody holds any more fails the run, and is removed once it was told."""
    house.require("control groups")
    name = f"fastness-left-{os.getpid()}-slots"
    inner.makepyfile(
        f"""
        import os
        import house
        def test_litters():
            for base in house.group_bases():
                try:
                    os.mkdir(base + "/{name}")
                except OSError:
                    # Not every hierarchy is one that this user was given.
                    pass
        """
    )
    result = inner.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == LEFT_BEHIND
    result.stdout.fnmatch_lines(["*left behind*", f"control group */{name}", "*1 passed*"])
    assert [base for base in house.group_bases() if os.path.exists(f"{base}/{name}")] == []


def test_groups_that_others_left_before_are_not_this_runs() -> None:
    """Only what appeared counts: a group that was free before the run may be one that this user cannot remove."""
    house.require("control groups")
    made = []
    for base in house.group_bases():
        with contextlib.suppress(OSError):
            os.mkdir(path := f"{base}/fastness-before-{os.getpid()}-slots")
            made.append(path)
    try:
        assert made
        left = house.Leftovers(tempfile.gettempdir())
        assert not [line for line in left.groups() if f"before-{os.getpid()}" in line]
    finally:
        for path in made:
            os.rmdir(path)


def test_failed_tests_do_not_hide_what_is_left(inner: pytest.Pytester, tmp_path: Path) -> None:
    """A run in which tests failed says by its status that something was left too."""
    inner.makepyfile(
        f"""
        import tempfile
        def test_litters_and_fails():
            tempfile.mkdtemp(prefix="fastness-litter-", dir={str(tmp_path)!r})
            assert False
        """
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path))
        result = inner.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == LEFT_BEHIND
    result.stdout.fnmatch_lines([f"folder {tmp_path}/fastness-litter-*", "*1 failed*"])


def test_an_open_sandbox_fails_the_run(inner: pytest.Pytester) -> None:
    """A sandbox that nobody closed is named even where it never started a process."""
    inner.makepyfile(
        """
        import fastness
        kept = []
        def test_opens():
            kept.append(fastness.Sandbox(tier="wasm"))
        """
    )
    result = inner.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == LEFT_BEHIND
    result.stdout.fnmatch_lines(["open sandbox *wasm*"])


def test_a_background_build_of_the_users_own_cache_may_stay() -> None:
    """It is meant to outlive its command; one that serves a test's cache is not."""
    job = "# from fastness._wasi.background import main"
    child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep(60) {job}", "/home/x/cache"])
    try:
        assert not house.Leftovers("/tmp/scratch-of-a-run")._is_meant(os.getpid())
        assert house.Leftovers("/tmp/scratch-of-a-run")._is_meant(child.pid)
        assert not house.Leftovers("/home/x")._is_meant(child.pid)
    finally:
        child.kill()
        child.wait()


def test_missing_components(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing component skips a test, and fails it under FASTNESS_REQUIRE_ALL=1."""
    monkeypatch.setitem(house.COMPONENTS, "moon", lambda: "there is no moon")
    monkeypatch.delenv("FASTNESS_REQUIRE_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no moon"):
        house.require("moon")
    monkeypatch.setenv("FASTNESS_REQUIRE_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match="no moon"):
        house.require("moon")
    seen: list[str] = []
    monkeypatch.setitem(house.COMPONENTS, "moon", lambda: seen.append("moon") or "")
    house.require("moon")
    house.require("moon")
    assert seen == ["moon"], "what is there is looked for once"


def test_nothing_new_is_found_at_once() -> None:
    """The check costs nothing where nothing is left."""
    left = house.Leftovers(tempfile.gettempdir())
    assert left.mounts() == []
    assert left.folders() == []

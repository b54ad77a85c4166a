"""The suite's own rules: what is left behind fails the run, and what is missing may not pass for a success."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import house

#: A program that looks like an engine to whoever reads its arguments, and does nothing.
BOOT = "import time; time.sleep(60) # from fastness._wasi.engine import main"

INNER_CONFTEST = (Path(house.__file__).parent / "conftest.py").read_text().replace('pytest_plugins = ["pytester"]', "")


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of its own with the suite's conftest, whose grace periods are short."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(Path(house.__file__).parent), str(house.SOURCE))))
    pytester.makeconftest(
        INNER_CONFTEST + "\nhouse.Leftovers.find.__defaults__ = (0.3, 0.3)\n",
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
    assert result.ret == pytest.ExitCode.TESTS_FAILED
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
    assert result.ret == pytest.ExitCode.TESTS_FAILED
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
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"folder {tmp_path}/fastness-litter-*"])


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
    assert result.ret == pytest.ExitCode.TESTS_FAILED
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
    monkeypatch.setitem(house.COMPONENTS, "moon", lambda: "")
    house.require("moon")


def test_nothing_new_is_found_at_once() -> None:
    """The check costs nothing where nothing is left."""
    left = house.Leftovers(tempfile.gettempdir())
    assert left.mounts() == []
    assert left.folders() == []

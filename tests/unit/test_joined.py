"""Two runs of tests at once are one: whatever comes of a test in either is in the status and the closing line."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from pathlib import Path

import pytest

import joined

LEFT_BEHIND = 9


@pytest.fixture
def inner(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project whose conftest has the two options and nothing else."""
    folder = str(Path(joined.__file__).parent)
    pytester.makeconftest(
        f"""
        import sys
        sys.path.append({folder!r})
        import joined
        pytest_addoption = joined.add_options
        pytest_configure = joined.configure
        """
    )
    pytester.makeini("[pytest]\nmarkers = alone")
    return pytester


def run(inner: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return inner.runpytest_subprocess("-q", *arguments)


def test_one_closing_line(inner: pytest.Pytester) -> None:
    """Passed, failed and skipped tests of both count, and one that failed beside fails both and is tried again."""
    here = inner.makepyfile(test_here="def test_passes(): pass")
    beside = inner.makepyfile(
        test_beside="""
        import pytest
        def test_passes(): pass
        def test_skips(): pytest.skip("for a reason")
        def test_fails(): assert 1 == 2
        """
    )
    assert run(inner, "-p", "no:cacheprovider", "--reports-to", "told", str(beside)).ret == pytest.ExitCode.TESTS_FAILED
    result = run(inner, "-rfs", "--reports-from", "told", str(here))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*assert 1 == 2*", "FAILED test_beside.py::test_fails*", "SKIPPED*for a reason"])
    again = run(inner, "--last-failed", "--last-failed-no-failures", "none")
    again.assert_outcomes(failed=1)


def test_all_is_well(inner: pytest.Pytester) -> None:
    """Where both pass, so do they together."""
    here = inner.makepyfile(test_here="def test_passes(): pass")
    beside = inner.makepyfile(test_beside="def test_passes(): pass")
    assert run(inner, "--reports-to", "told", str(beside)).ret == 0
    result = run(inner, "--reports-from", "told", str(here))
    assert result.ret == 0
    result.assert_outcomes(passed=2)


def test_reports_that_are_there_already(inner: pytest.Pytester) -> None:
    """The run beside may have ended before this one begins, which has no other place of tests than its own folder."""
    inner.makepyfile(test_here="def test_passes(): pass")
    inner.mkdir("notes")
    assert run(inner, "--reports-to", "notes/told", "--collect-only").ret == 0
    assert run(inner, f"--reports-from={inner.path}/notes/told").ret == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (f"import pytest\ndef test_ends(): pytest.exit('x', returncode={LEFT_BEHIND})", LEFT_BEHIND),
        ("import pytest\ndef test_interrupted(): raise KeyboardInterrupt", pytest.ExitCode.INTERRUPTED),
        ("import os\ndef test_dies(): os._exit(0)", pytest.ExitCode.INTERNAL_ERROR),
        ("import nothing_of_this_name", pytest.ExitCode.INTERRUPTED),
    ],
)
def test_a_run_beside_that_did_not_end_well(inner: pytest.Pytester, body: str, status: int) -> None:
    """Its status is that of both, though all tests that came to an end have passed."""
    here = inner.makepyfile(test_here="def test_passes(): pass")
    beside = inner.makepyfile(test_beside=body)
    run(inner, "--reports-to", "told", str(beside))
    result = run(inner, "--reports-from", "told", str(here))
    assert result.ret == status
    result.stdout.fnmatch_lines([f"it ended with status {int(status)}", "1 passed*"])


def test_what_must_be_alone_waits(inner: pytest.Pytester) -> None:
    """It comes last, and not before the run beside has let go of its reports."""
    here = inner.makepyfile(
        """
        import pytest
        @pytest.mark.alone
        def test_alone(): print("alone")
        def test_with_others(): print("with others")
        """
    )
    told = inner.path / "told"
    command = [sys.executable, "-m", "pytest", "-s", "-q", "--reports-from", str(told), str(here)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=inner.path) as run_here:
        assert run_here.stdout is not None
        assert run_here.stdout.readline() == "with others\n"
        # As the run beside does it: nobody finds the file without its lock.
        with open(f"{told}.new", "w") as beside:
            fcntl.flock(beside, fcntl.LOCK_EX)
            Path(f"{told}.new").rename(told)
            time.sleep(1)
            assert run_here.poll() is None
            beside.write('{"ended": 0}\n')
        rest, _ = run_here.communicate(timeout=60)
    assert rest.lstrip(".").startswith("alone\n")
    assert run_here.returncode == 0

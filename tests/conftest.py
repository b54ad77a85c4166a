"""
Rules of the whole suite: nothing may be left behind, and in continuous integration nothing may be missing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import house
import joined

# A shell starts background jobs with interrupts ignored, and children inherit that; tests that interrupt need them.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Whatever engine this machine has is nobody's business here; tests of engines start their own.
os.environ["FASTNESS_ENGINE"] = "unix:///nonexistent/engine"

pytest_plugins = ["pytester"]

# A busy machine takes its pauses in the middle of examples; speed is measured elsewhere.
settings.register_profile(
    "fastness", deadline=None, max_examples=house.examples(100), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fastness")

#: The status of a run that left something: no status of pytest's own, so that trying failed tests again hides nothing.
LEFT_BEHIND = 9
_LEFT = pytest.StashKey[house.Leftovers]()
_FOUND = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def require() -> Callable[[str], None]:
    """``require("python guest")`` skips where a component is missing, or fails under FASTNESS_REQUIRE_ALL=1."""
    return house.require


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A folder that every user can reach and write to."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.name.startswith("pytest-"):
            folder.chmod(0o755)
    tmp_path.chmod(0o777)
    return tmp_path


def pytest_addoption(parser: pytest.Parser) -> None:
    """Two runs may be made one."""
    joined.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Make this one of them where that was asked for."""
    joined.configure(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Note what there is before the first test."""
    scratch = str(session.config._tmp_path_factory.getbasetemp())  # type: ignore[attr-defined]  # pytest's own fixture reads it
    session.config.stash[_LEFT] = house.Leftovers(scratch)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run that leaves a process, a folder, a mount or an open sandbox behind has failed, whatever its tests say."""
    left = session.config.stash.get(_LEFT, None)
    if left is None:
        return
    found = house.forgotten_sandboxes() + left.find()
    session.config.stash[_FOUND] = found
    ended = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    if found and session.exitstatus in ended:
        session.exitstatus = LEFT_BEHIND


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was left."""
    found = config.stash.get(_FOUND, [])
    if found:
        terminalreporter.section("left behind", red=True, bold=True)
        for line in found:
            terminalreporter.write_line(line)

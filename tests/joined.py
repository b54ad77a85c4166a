"""
Two runs of tests at once that end as one: one writes its reports to a file, and the other takes them for its own.

``--reports-to FILE`` is for the run beside.  ``--reports-from FILE`` is for the one whose closing line, exit status and
list of what failed are those of both.  It waits until the file's writer has ended, however that was, and then runs the
tests that are marked ``alone``: they look at the whole machine.  Whoever starts both ends the one where the other
cannot come to its tests.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Generator
from typing import Any, TextIO

import pytest


def add_options(parser: pytest.Parser) -> None:
    """The two options."""
    group = parser.getgroup("joined", "two runs at once")
    group.addoption("--reports-to", metavar="FILE", help="write what comes of each test for another run to take")
    group.addoption("--reports-from", metavar="FILE", help="take what another run writes there, at the end")


def configure(config: pytest.Config) -> None:
    """Be the run beside or the one that joins, where that was asked for."""
    if path := config.getoption("reports_to"):
        file = open(f"{path}.new", "w", encoding="utf-8")  # noqa: SIM115  # held until this process ends
        # The kernel gives the lock up when this process ends, however it ends.  Nobody finds the file without it.
        fcntl.flock(file, fcntl.LOCK_EX)
        os.rename(f"{path}.new", path)
        config.pluginmanager.register(_Beside(config, file))
    if path := config.getoption("reports_from"):
        config.pluginmanager.register(_Joining(path))


class _Beside:
    def __init__(self, config: pytest.Config, file: TextIO) -> None:
        self._config = config
        self._file = file
        self._session: pytest.Session | None = None

    def _write(self, value: object) -> None:
        self._file.write(json.dumps(value) + "\n")
        self._file.flush()

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._write(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_unconfigure(self) -> None:
        # Nothing of the session changes its status any more.
        if self._session is not None:
            self._write({"ended": int(self._session.exitstatus)})


class _Joining:
    def __init__(self, path: str) -> None:
        self._path = path
        self._rows: list[dict[str, Any]] | None = None

    def _wait(self) -> list[dict[str, Any]]:
        """What the other run wrote, once it has ended."""
        while self._rows is None:
            try:
                with open(self._path, encoding="utf-8") as file:
                    fcntl.flock(file, fcntl.LOCK_SH)
                    # A writer that was killed may have come halfway.
                    self._rows = [json.loads(line) for line in file if line.endswith("\n")]
            except FileNotFoundError:
                # It has not come to its tests.
                time.sleep(0.5)
        return self._rows

    def _ended(self) -> int:
        """The other run's status, if it is one that its reports do not show; 0 otherwise."""
        rows = self._rows or []
        # One that did not say how it ended has not come to its end.
        ended = next((row["ended"] for row in rows if "ended" in row), int(pytest.ExitCode.INTERNAL_ERROR))
        return 0 if ended == pytest.ExitCode.TESTS_FAILED else ended

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=_alone)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        if _alone(item):
            self._wait()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        done = yield
        reports = [row for row in self._wait() if "ended" not in row]
        session.testscollected += len({row["nodeid"] for row in reports})
        for row in reports:
            report = session.config.hook.pytest_report_from_serializable(config=session.config, data=row)
            session.config.hook.pytest_runtest_logreport(report=report)
        return done

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if ended := self._ended():
            session.exitstatus = ended

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if ended := self._ended():
            terminalreporter.section("the run beside", red=True, bold=True)
            terminalreporter.write_line(f"it ended with status {ended}")


def _alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None

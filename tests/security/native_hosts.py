"""
Hosts of native guests as processes of their own, which tests may kill, starve and take kernel features away from.

Each program here runs as the user of the tests and, where that is root, as an ordinary user too.  A *watcher* stands
between the test and the host: it adopts whatever loses its parent below it (``PR_SET_CHILD_SUBREAPER``), so nothing
that comes of the host can hide.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import house

#: A user that no file of this machine belongs to.
ORDINARY = 64321
#: What setpriv starts is looked up with root's power still; what env starts is not.
_AS_ORDINARY = ["setpriv", "--reuid", str(ORDINARY), "--regid", str(ORDINARY), "--clear-groups", "/usr/bin/env"]
CALLERS = ("caller", "ordinary")


def _paths() -> str:
    import msgspec

    return f"{house.SOURCE}:{os.path.dirname(os.path.dirname(msgspec.__file__))}"


@functools.cache
def _ordinary() -> tuple[str, str]:
    """An interpreter that an ordinary user can start with our dependencies, or why there is none."""
    if os.geteuid() != 0:
        return "", "the tests run as an ordinary user already"
    if shutil.which("setpriv") is None:
        return "", "there is no setpriv (util-linux)"
    why = ""
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        code = f"import sys, msgspec, anyio, platformdirs, fastness; sys.exit(sys.version_info[:2] != {sys.version_info[:2]!r})"
        try:
            done = subprocess.run(
                [*_AS_ORDINARY, python, "-c", code],
                check=False,
                env={"PYTHONPATH": _paths()},
                capture_output=True,
                cwd="/",
            )
        except OSError as error:
            why = str(error)
            continue
        if done.returncode == 0:
            return python, ""
        why = done.stderr.decode()[-200:] or f"{python} is another version of Python"
    return "", f"no interpreter that an ordinary user can start: {why}"


class Caller:
    """Starts programs as one user, with a home of its own."""

    def __init__(self, name: str, folder: str) -> None:
        self.name = name
        self.home = os.path.join(folder, name)
        os.mkdir(self.home, 0o700)
        self.python, self.prefix = sys.executable, []
        if name == "ordinary":
            self.python, self.prefix = _ordinary()[0], _AS_ORDINARY
            os.chown(self.home, ORDINARY, ORDINARY)
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": self.home,
            "FASTNESS_HOME": os.path.join(self.home, "fastness"),
            "PYTHONPATH": _paths(),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
        }

    @property
    def root(self) -> bool:
        """Whether its programs are root's."""
        return os.geteuid() == 0 and self.name == "caller"

    def command(self, program: str, wanted: Any = None) -> list[str]:
        """The arguments that start a program, which finds ``wanted`` in its own first one."""
        return [*self.prefix, self.python, "-c", program, json.dumps(wanted)]

    def run(self, program: str, wanted: Any = None, *, timeout: float = 60, **options: Any) -> Any:
        """What a program printed last, as JSON.  Fails the test where it ends with anything but success."""
        command = [*options.pop("before", []), *self.command(program, wanted)]
        environment = {**self.environment, **options.pop("env", {})}
        done = subprocess.run(
            command, env=environment, cwd=self.home, capture_output=True, timeout=timeout, check=False, **options
        )
        assert done.returncode == 0, f"status {done.returncode}\n{done.stdout.decode()}\n{done.stderr.decode()}"
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def callers() -> Iterator[dict[str, Caller]]:
    """Callers by name, with homes that go at the end; one that cannot be had here is not among them."""
    folder = tempfile.mkdtemp(prefix=f"fastness-tests-{os.getpid()}-")
    os.chmod(folder, 0o755)
    try:
        yield {name: Caller(name, folder) for name in CALLERS if name == "caller" or not _ordinary()[1]}
    finally:
        shutil.rmtree(folder)


def find(found: dict[str, Caller], name: str) -> Caller:
    """A caller; skips the test, or fails it where everything must be there, without one."""
    if name not in found:
        why = _ordinary()[1]
        if house.must_be_there() and os.geteuid() == 0:
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    return found[name]

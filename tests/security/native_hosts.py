"""
Hosts of native guests as processes of their own, which tests may kill, starve and take kernel features away from.

Each program here runs as the user of the tests and, where that is root, as an ordinary user too.  A *watcher* stands
between the test and the host: it adopts whatever loses its parent below it (``PR_SET_CHILD_SUBREAPER``), so nothing
that comes of the host can hide.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import house
from fastness.bench import ordinary

#: A user that no file of this machine belongs to.
ORDINARY = 64321
#: What setpriv starts is looked up with root's power still; what env starts is not.
_AS_ORDINARY = ["setpriv", "--reuid", str(ORDINARY), "--regid", str(ORDINARY), "--clear-groups", "/usr/bin/env"]
CALLERS = ("caller", "ordinary")


def _paths() -> str:
    import msgspec

    return f"{house.SOURCE}:{os.path.dirname(os.path.dirname(msgspec.__file__))}"


class _Python:
    """An interpreter and where it finds our package and what that needs; or why there is none."""

    def __init__(self, path: str = "", paths: str = "", why: str = "") -> None:
        self.path = path
        self.paths = paths
        self.why = why

    def fails(self) -> str:
        """Why an ordinary user cannot start it, with our dependencies and as this version of Python; empty if it works."""
        version = f"{sys.version_info[:2]!r}"
        code = f"import sys, msgspec, anyio, platformdirs, fastness; sys.exit(sys.version_info[:2] != {version})"
        command = [*_AS_ORDINARY, self.path, "-c", code]
        try:
            done = subprocess.run(
                command, check=False, env={"PYTHONPATH": self.paths}, capture_output=True, cwd="/", timeout=60
            )
        except OSError as error:
            return str(error)
        if done.returncode == 0:
            return ""
        return done.stderr.decode()[-200:] or f"{self.path} is another version of Python"


def _ordinary(folder: str) -> _Python:
    """
    An interpreter that an ordinary user can start with our dependencies.

    Where the checkout or its environment is closed to others it is that of an environment of copies in ``folder``.
    """
    if os.geteuid() != 0:
        return _Python(why="the tests run as an ordinary user already")
    if shutil.which("setpriv") is None:
        return _Python(why="there is no setpriv (util-linux)")
    for path in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        python = _Python(path, _paths())
        why = python.fails()
        if not why:
            return python
    interpreter = ordinary._interpreter()
    if interpreter is not None:
        python = _Python(ordinary.make_environment(Path(folder, "environment"), interpreter))
        why = python.fails()
        if not why:
            return python
    return _Python(why=f"no interpreter that an ordinary user can start: {why}")


class Caller:
    """Starts programs as one user, with a home of its own."""

    def __init__(self, name: str, folder: str, python: _Python) -> None:
        self.name = name
        self.home = os.path.join(folder, name)
        os.mkdir(self.home, 0o700)
        self.python, self.prefix = python.path, []
        if name == "ordinary":
            self.prefix = _AS_ORDINARY
            os.chown(self.home, ORDINARY, ORDINARY)
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": self.home,
            "FASTNESS_HOME": os.path.join(self.home, "fastness"),
            "PYTHONPATH": python.paths,
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


class Callers(dict[str, Caller]):
    """Callers by name; ``why`` there is no ordinary one, where one cannot be had here."""

    def __init__(self, folder: str) -> None:
        python = _ordinary(folder)
        self.why = python.why
        self["caller"] = Caller("caller", folder, _Python(sys.executable, _paths()))
        if not self.why:
            self["ordinary"] = Caller("ordinary", folder, python)


@contextmanager
def callers() -> Iterator[Callers]:
    """Callers with homes that go at the end."""
    folder = tempfile.mkdtemp(prefix=f"fastness-tests-{os.getpid()}-")
    os.chmod(folder, 0o755)
    try:
        yield Callers(folder)
    finally:
        shutil.rmtree(folder)


def find(found: Callers, name: str) -> Caller:
    """A caller; skips the test, or fails it where everything must be there, without one."""
    if name not in found:
        if os.geteuid() == 0:
            house.lacks(found.why)
        pytest.skip(found.why)
    return found[name]

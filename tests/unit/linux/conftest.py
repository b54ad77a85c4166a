"""Children that do to themselves what must not be done to the test process, as root and as an ordinary user."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import emulator
from fastness._linux import machine_code, syscalls

SOURCE = str(Path(__file__).resolve().parents[3] / "src")

# Everything is imported before the identity changes: an ordinary user may not be able to read the interpreter's files.
_PRELUDE = f"""
import sys; sys.path.insert(0, {SOURCE!r})
import ctypes, errno, os, select, signal, struct, time, _socket, _thread
from fastness._linux import confine, landlock, memory, namespaces, pagemap, privileges, profiles, seccomp
from fastness._linux import cloning, mounts, notify, plan, syscalls, timerfd
from fastness._native import mother

def error_of(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    return "succeeded"
"""

# A process that was started by an ordinary user is dumpable, one that changed its user is not.
_BECOME_NOBODY = """
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
"""

Child = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=["root", "nobody"])
def user(request: pytest.FixtureRequest) -> str:
    """Each test that takes it runs as root and as an ordinary user; as the latter alone where we are not root."""
    name: str = request.param
    if name == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    return name


@pytest.fixture(scope="session")
def child() -> Child:
    """Run code in a fresh interpreter, isolated like an engine; returns the finished process."""

    def run(code: str, *, user: str = "", timeout: float = 30) -> subprocess.CompletedProcess[str]:
        become = _BECOME_NOBODY if user == "nobody" and os.geteuid() == 0 else ""
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", _PRELUDE + become + textwrap.dedent(code)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={},
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def interpret() -> Callable[..., int]:
    """An interpreter of classic BPF: ``interpret(program, nr, args, arch)`` is what the kernel would decide."""
    return emulator.interpret


@pytest.fixture(params=["machine code", "python"])
def maker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Either maker of calls, and afterwards the one that there was."""
    monkeypatch.setattr(machine_code, "make", machine_code.in_python)
    monkeypatch.setattr(machine_code, "fork", None)
    if request.param == "machine code":
        if syscalls.MACHINE != "x86_64":
            pytest.skip("the machine code is for x86_64")
        assert machine_code.prepare()
        assert machine_code.make is not machine_code.in_python
    name: str = request.param
    return name

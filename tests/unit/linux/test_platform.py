"""Elsewhere than on Linux and x86_64 the mechanisms refuse when they are called, and say why."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

import fastness._linux as linux
from fastness._linux import confine, numbers
from fastness._linux.confine import Confinement


def _calls() -> list[object]:
    return [
        linux.require_support,
        linux.confine_engine,
        linux.confine_compiler,
        lambda: linux.seal_engine(Confinement()),
        lambda: linux.prove_engine(sys.executable),
        confine.confine_compiler,
    ]


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("platform", "darwin", "needs Linux; this is darwin"),
        ("platform", "win32", "needs Linux; this is win32"),
        ("maxsize", 2**31 - 1, "32-bit"),
    ],
)
def test_other_platforms_are_refused(
    monkeypatch: pytest.MonkeyPatch, attribute: str, value: object, words: str
) -> None:
    """Each portable function raises ENOSYS with the reason, before it does anything."""
    monkeypatch.setattr(sys, attribute, value)
    assert words in linux.why_unsupported()
    for call in _calls():
        with pytest.raises(OSError, match=words) as caught:
            call()  # type: ignore[operator]  # each entry is a callable
        assert caught.value.errno == errno.ENOSYS


def test_other_machines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that was never run on a machine is not tried out on a guest."""
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="aarch64"))
    with pytest.raises(OSError, match="this machine is aarch64"):
        linux.confine_engine()


def test_this_machine_is_supported() -> None:
    """The suite runs where the mechanisms do."""
    assert linux.why_unsupported() == ""


@pytest.mark.parametrize("module", ["fastness._linux", "fastness._linux.confine", "fastness._linux.pagemap"])
def test_imports_work_elsewhere(module: str) -> None:
    """Importing raises nothing on another platform: a host without Linux can still ask what it lacks."""
    code = f"import ctypes, sys; sys.platform = 'darwin'; sys.path[:0] = sys.argv[1:]; import {module}"
    subprocess.run([sys.executable, "-I", "-S", "-c", code, *sys.path], check=True, timeout=60)


def test_engine_imports_are_cheap() -> None:
    """An engine starts often: none of what it imports from here drags in the slow parts of the standard library."""
    code = """if True:
        import sys, ctypes
        before = set(sys.modules)
        sys.path[:0] = sys.argv[1:]
        from fastness._linux import confine, memory, pagemap, timerfd
        print(*sorted(m for m in set(sys.modules) - before if not m.startswith("fastness")))
    """
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, *sys.path], check=True, timeout=60, capture_output=True, text=True
    )
    assert set(done.stdout.split()) <= {"__future__", "errno"}


def test_numbers_are_those_of_the_kernel() -> None:
    """A few numbers that everyone knows by heart, and one of each kind of gap in the tables."""
    x86, arm = numbers.numbers_of("x86_64"), numbers.numbers_of("aarch64")
    known = {"read": 0, "mmap": 9, "ioctl": 16, "clone": 56, "execve": 59, "ptrace": 101, "openat": 257, "seccomp": 317}
    assert {name: x86[name] for name in known} == known
    assert (x86["rseq"], x86["pidfd_send_signal"], x86["clone3"], x86["landlock_restrict_self"]) == (334, 424, 435, 446)
    assert (arm["read"], arm["openat"], arm["execve"], arm["accept4"], arm["wait4"]) == (63, 56, 221, 242, 260)
    assert (arm["clone3"], arm["mseal"], x86["mseal"]) == (435, 462, 462)
    assert "open" not in arm
    assert len(set(x86.values())) == len(x86)
    assert numbers.numbers_of("riscv64") == {}

"""Landlock by itself: what it denies, what a rule gives back, and what older kernels are asked for."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import house
from fastness._linux import landlock, syscalls


@pytest.fixture(scope="module", autouse=True)
def _kernel_has_it() -> None:
    house.require("landlock")


Child = Callable[..., Any]

_TRY = """
privileges.forbid_new_privileges()
def attempts():
    return (
        error_of(lambda: os.close(os.open(folder + "/file", os.O_RDONLY))),
        error_of(lambda: os.close(os.open(folder + "/new" + str(os.getpid()), os.O_WRONLY | os.O_CREAT))),
        error_of(lambda: os.listdir("/")),
        error_of(lambda: _socket.socket(_socket.AF_INET).connect(("127.0.0.1", port))),
    )
print(*attempts())
%s
print(*attempts())
"""


def test_deny_all_denies_files_and_tcp(child: Child, user: str, open_folder: Path) -> None:
    """What succeeded a moment before is refused afterwards: reading, creating, listing, connecting."""
    (open_folder / "file").write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = f"folder = {str(open_folder)!r}; port = {listener.getsockname()[1]}"
        code = where + _TRY % "print(landlock.deny_all())"
        lines = child(code, user=user).stdout.splitlines()
    assert lines[0] == "succeeded succeeded succeeded succeeded"
    assert int(lines[1]) == landlock.abi()
    assert lines[2] == f"EACCES EACCES EACCES {'EACCES' if landlock.abi() >= 4 else 'succeeded'}"


def test_rules_give_back_only_what_they_say(child: Child, user: str, open_folder: Path) -> None:
    """A rule for reading a folder allows that and nothing else."""
    (open_folder / "file").write_text("x")
    rules = """
ruleset = landlock.Ruleset()
ruleset.allow_path(folder, landlock.READ)
ruleset.allow_path(folder + "/file", landlock.READ)
print(ruleset.restrict())
"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code = f"folder = {str(open_folder)!r}; port = {listener.getsockname()[1]}" + _TRY % rules
        lines = child(code, user=user).stdout.splitlines()
    assert lines[0] == "succeeded succeeded succeeded succeeded"
    assert lines[1] == landlock.describe(landlock.abi())
    assert lines[2] == f"succeeded EACCES EACCES {'EACCES' if landlock.abi() >= 4 else 'succeeded'}"


def test_rulesets_of_one_kind_are_each_as_one_by_itself(child: Child, user: str, open_folder: Path) -> None:
    """The second is as strict as the first, wherever its descriptor is, and neither has the other's later rules."""
    (open_folder / "file").write_text("x")
    rules = """
above = os.open(folder, os.O_PATH)
kind = landlock.Rulesets([(above, landlock.READ)])
kind.make()
first = kind.made.value
kind.make()
print(kind.made.value == first)
kind.made.value, kind.whole.value = -1, 0
kind.make()
second = kind.made.value
print(first != second)
syscalls.raw("landlock_restrict_self", second, 0)
"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code = f"folder = {str(open_folder)!r}; port = {listener.getsockname()[1]}" + _TRY % rules
        lines = child(code, user=user).stdout.splitlines()
    assert lines[:3] == ["succeeded succeeded succeeded succeeded", "True", "True"]
    assert lines[3] == f"succeeded EACCES EACCES {'EACCES' if landlock.abi() >= 4 else 'succeeded'}"


def test_a_rule_that_fails_says_nothing_of_the_kernel() -> None:
    """A zygote takes some errors for a kernel without Landlock; a rule that was refused is none of them."""
    kind = landlock.Rulesets([(1 << 20, landlock.READ)])
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="landlock_add_rule") as raised:
        kind.make()
    assert raised.value.errno == errno.EIO
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("version", range(1, 7))
def test_each_abi_version_is_asked_for_no_more_than_it_knows(child: Child, version: int) -> None:
    """A kernel takes the attribute and the rights of every version up to its own."""
    if version > landlock.abi():
        pytest.skip(f"this kernel has ABI {landlock.abi()}")
    done = child(f"""
        landlock.abi = lambda: {version}
        privileges.forbid_new_privileges()
        before = error_of(os.listdir, "/")
        landlock.deny_all()
        print(before, error_of(os.listdir, "/"))
    """)
    assert done.stdout.split() == ["succeeded", "EACCES"], done.stderr


def test_without_landlock_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without Landlock has ABI 0, and nothing pretends to restrict."""

    def missing(name: str, *arguments: int) -> int:
        raise syscalls.oserror(name, errno.ENOSYS)

    monkeypatch.setattr(landlock, "raw", missing)
    monkeypatch.setattr(landlock, "_known", [])
    assert landlock.abi() == 0
    with pytest.raises(OSError, match="landlock"):
        landlock.deny_all()

    def odd(name: str, *arguments: int) -> int:
        raise syscalls.oserror(name, errno.ENOMEM)

    monkeypatch.setattr(landlock, "raw", odd)
    monkeypatch.setattr(landlock, "_known", [])
    with pytest.raises(OSError, match="landlock"):
        landlock.abi()


def test_unused_ruleset_can_be_dropped() -> None:
    """Closing twice is harmless, and nothing was restricted."""
    ruleset = landlock.Ruleset()
    ruleset.close()
    ruleset.close()
    assert Path("/").exists()

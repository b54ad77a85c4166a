"""Calls that are written down and made later: their order, their memory, and what stops them."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import house
from fastness._linux import plan

Child = Callable[..., Any]


def test_calls_are_made_in_order_with_their_memory(tmp_path: Path) -> None:
    """Texts end with a zero, arrays are read when the call is made, and a descriptor may be foreseen."""
    free = os.open("/dev/null", os.O_RDONLY)
    os.close(free)
    text = ctypes.create_string_buffer(b"before", 16)
    part = (ctypes.c_uint64 * 2)(ctypes.addressof(text), 6)
    calls = plan.Plan()
    calls.hold(text)
    calls.add(
        "openat", -100, os.fsencode(tmp_path / "file"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600, result=free
    )
    calls.add("writev", free, part, 1, result=plan.ANY)
    calls.add("close", free)
    text.value, part[1] = b"afterwards", 10
    calls.run()
    assert (tmp_path / "file").read_bytes() == b"afterwards"
    assert len(calls) == 3


def test_the_first_failure_stops_it(tmp_path: Path) -> None:
    """It says which call failed and why; what comes after it is not done."""
    calls = plan.Plan()
    calls.add("close", 1 << 20)
    calls.add("mkdirat", -100, os.fsencode(tmp_path / "made"), 0o700)
    with pytest.raises(OSError, match="close: Bad file descriptor") as caught:
        calls.run()
    assert caught.value.errno == errno.EBADF
    assert not (tmp_path / "made").exists()


def test_another_answer_stops_it(tmp_path: Path) -> None:
    """Later calls may name the descriptor that was foreseen, so it must be that one."""
    calls = plan.Plan()
    calls.add("getppid", result=os.getppid() + 1)
    calls.add("mkdirat", -100, os.fsencode(tmp_path / "made"), 0o700)
    with pytest.raises(OSError, match=f"getppid: answered {os.getppid()} where {os.getppid() + 1} was due"):
        calls.run()
    assert not (tmp_path / "made").exists()


def test_arguments_are_changed(tmp_path: Path) -> None:
    """The first ones, and nothing else of the call."""
    read, write = os.pipe()
    try:
        calls = plan.Plan()
        calls.add("write", 1 << 20, b"abc", 2, result=2)
        calls.put(0, write)
        calls.run()
        assert os.read(read, 10) == b"ab"
    finally:
        os.close(read)
        os.close(write)


def test_no_such_call() -> None:
    with pytest.raises(OSError, match="no_such_call") as caught:
        plan.Plan().add("no_such_call")
    assert caught.value.errno == errno.ENOSYS


def test_a_filter_is_planned(child: Child, user: str) -> None:
    """With a listener and without one; what it compares with can be changed until it is installed."""
    done = child(
        """
        privileges.forbid_new_privileges()
        free = os.dup(0); os.close(free)
        for listener, name in ((free, "guest/isolated_notify"), (-1, "guest/isolated")):
            pid = os.fork()
            if pid == 0:
                calls = plan.Plan()
                code = seccomp.plan(calls, profiles.program(syscalls.MACHINE, name, self_pid=1), listener)
                for index in profiles.own_number(syscalls.MACHINE, name):
                    assert code[2 * index + 1] == 1
                    code[2 * index + 1] = os.getpid()
                calls.run()
                if listener >= 0:
                    os.close(listener)
                os.kill(os.getpid(), 0)
                os.write(1, (error_of(_socket.socket) + "\\n").encode())
                os._exit(0)
            print(os.waitpid(pid, 0)[1])
        """,
        user=user,
    )
    # Where nobody listens any more, a call that would be told of fails with ENOSYS (seccomp_unotify(2)).
    assert done.stdout.split() == ["ENOSYS", "EPERM", "0", "0"], done.stderr


def test_a_rule_is_planned(child: Child, user: str, open_folder: Path) -> None:
    """For a folder; on anything else the kernel refuses it, and the plan ends there."""
    house.require("landlock")
    (open_folder / "file").write_text("x")
    done = child(
        f"""
        folder = {str(open_folder)!r}
        for path in (folder, folder + "/file"):
            ruleset = landlock.Ruleset()
            free = os.dup(0); os.close(free)
            calls = plan.Plan()
            text = ctypes.create_string_buffer(path.encode())
            landlock.plan_allow(calls, ruleset.fd, text, landlock.READ, free)
            calls.add("landlock_restrict_self", ruleset.fd, 0)
            pid = os.fork()
            if pid == 0:
                privileges.forbid_new_privileges()
                told = [error_of(calls.run)]
                told.append(error_of(lambda: os.close(os.open(folder + "/file", os.O_RDONLY))))
                told.append(error_of(os.listdir, "/"))
                os.write(1, (" ".join(told) + "\\n").encode())
                os._exit(0)
            os.waitpid(pid, 0)
            ruleset.close()
        """,
        user=user,
    )
    assert done.stdout.splitlines() == ["succeeded succeeded EACCES", "EINVAL succeeded succeeded"], done.stderr


def test_a_call_that_fails_is_no_answer_that_will_do() -> None:
    """Where any answer will do, an error still ends the plan: what was to be sent was not."""
    calls = plan.Plan()
    calls.add("close", 1 << 20, result=plan.ANY)
    with pytest.raises(OSError, match="close"):
        calls.run()
    message = plan.Plan()
    message.add_message(1 << 20, plan.memory(b"+"), 1)
    with pytest.raises(OSError, match="sendmsg"):
        message.run()

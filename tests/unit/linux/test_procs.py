"""The end of more processes than there are descriptors, and a keeper that has not heard from its caller yet."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

import house
from fastness._linux import procs
from fastness._native import datagrams

Child = Callable[..., "subprocess.CompletedProcess[str]"]

#: 150 processes, each with one of its own where ``DEEP``, and a process that may open 64 files.
_MANY = """
import resource
from fastness._linux import procs
from fastness._linux.syscalls import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl
from fastness._native import keeper

def many(stubborn=False):
    ready, write = os.pipe()
    for _ in range(75):
        if not os.fork():
            prctl(PR_SET_PDEATHSIG, 9)
            if stubborn:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if not os.fork():
                prctl(PR_SET_PDEATHSIG, 9)
            os.write(write, b"x")
            time.sleep(60)
            os._exit(0)
    seen = 0
    while seen < 150:
        seen += len(os.read(ready, 150))

def living():
    return len(procs.descendants(os.getpid()))
"""
_FEW = "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"


@pytest.mark.parametrize(
    ("stubborn", "act"),
    [
        (False, "keeper.end_all(0)"),
        (False, "keeper.ask_all(20, ())"),
        (True, "keeper.ask_all(0.3, ()); keeper.end_all(0)"),
    ],
)
def test_a_keeper_ends_more_processes_than_it_may_have_descriptors(child: Child, stubborn: bool, act: str) -> None:
    """Whether they are asked or killed, none is left, and none is left stopped."""
    code = f"{_MANY}\nprctl(PR_SET_CHILD_SUBREAPER, 1)\nmany({stubborn})\n{_FEW}print(living())\n{act}\nprint(living())"
    done = child(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["150", "0"]


def test_a_host_ends_a_tree_of_more_processes_than_it_may_have_descriptors(child: Child) -> None:
    """By its root, which is no child of the process that asks how many are left."""
    done = child(
        f"""{_MANY}
root = os.fork()
if not root:
    prctl(PR_SET_PDEATHSIG, 9)
    many()
    time.sleep(60)
while living() < 151:
    time.sleep(0.01)
{_FEW}
print(procs.kill_tree(root), living())
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "0"]


def test_no_descriptor_is_not_no_process(child: Child) -> None:
    """Who may open nothing cannot tell whether a process is there, and says so."""
    done = child(
        _MANY
        + """
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
print(error_of(procs.start_time, os.getpid()), error_of(procs.tree, os.getpid()))
"""
    )
    assert done.stdout.split() == ["EMFILE", "EMFILE"], done.stderr


_CALLER = """
import os, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from fastness._native import datagrams
ours, theirs = datagrams.pair()
code = "import sys;sys.path.insert(0,sys.argv[2]);from fastness._native.keeper import main;main()"
command = [sys.executable, "-I", "-S", "-c", code, str(theirs.fileno()), sys.argv[1]]
keeper = subprocess.Popen(command, pass_fds=[theirs.fileno()], env={})
# Holds a copy of the caller's end, as a child of a host may that was forked at the wrong moment.
holder = subprocess.Popen(["sleep", "60"], pass_fds=[ours.fileno()], stdout=subprocess.DEVNULL)
print(keeper.pid, holder.pid, flush=True)
sys.stdin.read(1)
os._exit(0)
"""


@pytest.mark.parametrize("after", [0.0, 0.5])
def test_a_keeper_whose_caller_ends_before_its_first_word_ends(after: float) -> None:
    """Its socket says nothing of that while another process holds a copy of the caller's end."""
    with subprocess.Popen(
        [sys.executable, "-c", _CALLER, str(house.SOURCE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as caller:
        assert caller.stdout is not None
        assert caller.stdin is not None
        keeper, holder = map(int, caller.stdout.readline().split())
        pidfd = os.pidfd_open(keeper)
        try:
            time.sleep(after)
            caller.stdin.close()
            assert procs.wait_for_end(pidfd, 10)
        finally:
            os.close(pidfd)
            os.kill(holder, signal.SIGKILL)


def test_a_keeper_is_its_makers_alone() -> None:
    """Where the process that started it is another than the one that made its socket, it does nothing."""
    ours, theirs = datagrams.pair()
    with ours, theirs:
        code = "import sys;sys.path.insert(0,sys.argv[2]);from fastness._native.keeper import main;main()"
        command = [sys.executable, "-I", "-S", "-c", code, str(theirs.fileno()), str(house.SOURCE)]
        between = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[2:], pass_fds=[int(sys.argv[1])]))"
        done = subprocess.run(
            [sys.executable, "-c", between, str(theirs.fileno()), *command],
            pass_fds=[theirs.fileno()],
            timeout=20,
            check=False,
        )
        assert done.returncode == 0
        theirs.close()
        ours.setblocking(False)
        assert ours.recv(100, socket.MSG_DONTWAIT) == b""

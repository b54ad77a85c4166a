"""What is asked of a guest's process is never asked of the caller's own."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import time

import pytest

from fastness.backends.box import Box, BoxLost
from fastness.waiting import ThreadWaiting


def test_a_guest_without_a_number() -> None:
    """To the kernel the number 0 is the caller itself: its clock and its limits are not the guest's."""
    ours, theirs = socket.socketpair()
    out, err = os.pipe()
    box = Box("b1", ours, out, err, ThreadWaiting())
    try:
        assert time.process_time() > 0
        assert box.cpu_s() == 0.0
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        with pytest.raises(BoxLost):
            box.limit(resource.RLIMIT_NOFILE, 16)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
    finally:
        box.close()
        theirs.close()


def test_its_memory_is_what_it_is_when_it_is_asked() -> None:
    """Not what it was when its numbers were opened; and whatever was opened is closed, with the box at the latest."""
    ours, theirs = socket.socketpair()
    out, unread_out = os.pipe()
    err, unread_err = os.pipe()
    box = Box("b1", ours, out, err, ThreadWaiting())
    assert box.peak() == 0
    sleeper = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\nsys.stdin.read(1)\nx = b'1' * (64 << 20)\nprint(1, flush=True)\nsys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert sleeper.stdin is not None
    assert sleeper.stdout is not None
    opened = len(os.listdir("/proc/self/fd"))
    try:
        box.pid = sleeper.pid
        first = box.peak()
        assert 0 < first < 64 << 20
        box.look_ahead()
        sleeper.stdin.write(b"1")
        sleeper.stdin.flush()
        assert sleeper.stdout.readline() == b"1\n"
        assert box.peak() > first + (60 << 20)
        assert box.peak() > first + (60 << 20)
        assert len(os.listdir("/proc/self/fd")) == opened
        box.look_ahead()
    finally:
        sleeper.kill()
        sleeper.communicate()
        box.close()
        theirs.close()
    left = len(os.listdir("/proc/self/fd"))
    # One end of each of two pipes, both of a conversation, and two streams of the process were closed.
    assert opened - left == 6
    os.close(unread_out)
    os.close(unread_err)
    left -= 2
    box.pid = os.getpid()
    box.look_ahead()
    assert len(os.listdir("/proc/self/fd")) == left

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


def test_its_memory_is_read_off_its_own_numbers() -> None:
    """Opened once and read anew each time; of a box that was closed nothing is read, whoever has that number by then."""
    ours, theirs = socket.socketpair()
    out, err = os.pipe()
    box = Box("b1", ours, out, err, ThreadWaiting())
    assert box.peak() == 0
    sleeper = subprocess.Popen(
        [sys.executable, "-c", "import sys\nsys.stdin.read(1)\nx = b'1' * (64 << 20)\nsys.stdin.read()"],
        stdin=subprocess.PIPE,
    )
    assert sleeper.stdin is not None
    try:
        box.pid = sleeper.pid
        box.look_ahead()
        opened = len(os.listdir("/proc/self/fd"))
        first = box.peak()
        assert 0 < first < 64 << 20
        sleeper.stdin.write(b"1")
        sleeper.stdin.flush()
        deadline = time.monotonic() + 20
        while box.peak() < first + (60 << 20):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert len(os.listdir("/proc/self/fd")) == opened
        sleeper.kill()
        sleeper.wait()
        assert box.peak() == 0
        box.look_ahead()
        number = box._numbers
    finally:
        sleeper.kill()
        sleeper.stdin.close()
        sleeper.wait()
        box.close()
        theirs.close()
    with open("/proc/self/status", "rb") as file:
        os.dup2(file.fileno(), number)
    try:
        assert box.peak() == 0
    finally:
        os.close(number)

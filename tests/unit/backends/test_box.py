"""What is asked of a guest's process is never asked of the caller's own."""

from __future__ import annotations

import os
import resource
import socket
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

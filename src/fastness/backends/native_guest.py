"""
One native guest on its caller's side: a box with what belongs to it.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Protocol

from fastness.backends.box import Box
from fastness.backends.zygote_process import ZygoteProcess

if TYPE_CHECKING:
    from fastness._linux.cgroup_slot import Slot
    from fastness.limits import Limits
    from fastness.runs import RunRequest
    from fastness.waiting import Waiting

#: What is decided at a guest's birth: bytes and files of its tree, and limits that it sets itself, by number.
Size = tuple[int, int, tuple[tuple[int, int], ...]]


class Early(Protocol):
    """What is done for a guest before it is ready."""

    def unborn(self, guest: Guest) -> None:
        """Before it is asked for, where nothing foreign has been imported by its zygote."""

    def born(self, guest: Guest) -> None:
        """Once it is in its control group, while it gives up its rights."""


class Guest:
    """A box with what belongs to it: its zygote, its slot, its folder, and what it was made for."""

    def __init__(self, box: Box, zygote: ZygoteProcess, key: Size) -> None:
        self.box = box
        self.zygote = zygote
        self.key = key
        self.slot: Slot | None = None
        self.folder = ""
        #: A descriptor of that folder, which the box closes; -1 where there is none.
        self.above = -1
        #: The host's number of the guest's user, -1 where it is the caller's own.
        self.uid = -1
        self.base = (0, 0, 0)
        self.inside_uid = 0
        #: Limits that it sets itself at its birth beside those of its key, by number.
        self.own_limits: list[tuple[int, int]] = []
        #: The limits that it is under, once its caller has set any.
        self.bound_to: Limits | None = None
        #: The limits of its group, which a guest that is made ahead has sooner.
        self.group_bound_to: Limits | None = None
        #: What it was taken for.
        self.request: RunRequest | None = None
        #: Whether it was given something to do and has not answered well: its group may have killed it.
        self.in_doubt = False
        self.buried = False


def unborn(name: str, waiting: Waiting) -> tuple[Box, list[int]]:
    """
    The box of a guest that is not born yet, and the guest's ends: of its conversation, its output and its errors.

    Raises ``OSError`` where there are no descriptors, and then keeps none.
    """
    pipes: list[int] = []
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        ours.setblocking(False)
        for _ in range(2):
            pipes += os.pipe2(os.O_CLOEXEC)
            os.set_blocking(pipes[-2], False)
    except BaseException:
        ours.close()
        theirs.close()
        for fd in pipes:
            os.close(fd)
        raise
    out, out_end, err, err_end = pipes
    return Box(name, ours, out, err, waiting), [theirs.detach(), out_end, err_end]

"""
Leaving the host's namespaces without forking (``namespaces(7)``, ``user_namespaces(7)``).

The process keeps no identity in its new user namespace: no map is written, so inside it is the overflow user and
owns nothing.  There is no PID namespace, which ``unshare`` gives to children only.
"""

from __future__ import annotations

import os

from fastness._linux.syscalls import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    unshare,
)

#: The user and group that own nothing.
NOBODY = 65534

_OTHERS = (
    ("net", CLONE_NEWNET),
    ("ipc", CLONE_NEWIPC),
    ("uts", CLONE_NEWUTS),
    ("mount", CLONE_NEWNS),
    ("cgroup", CLONE_NEWCGROUP),
)


class Left:
    """
    Which namespaces were left.

    ``entered`` are names such as ``net``; ``failed`` maps the others to the reason; ``own_uid`` is True where a
    process that was root became nobody, ``uid_gap`` why it did not.
    """

    __slots__ = ("entered", "failed", "own_uid", "uid_gap")

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.failed: dict[str, str] = {}
        self.own_uid = False
        self.uid_gap = ""


def leave_all() -> Left:
    """
    Leave each kind of namespace that the kernel lets us leave; never raises for one that it does not.

    Root first leaves with its own power, so that the new namespaces belong to the host's root and not to the process
    itself; then it becomes nobody, for in an unmapped user namespace it would still be the owner of root's files.
    Everybody else gets the power from the user namespace.  The process must have one thread.
    """
    left = Left()
    if os.geteuid() == 0:
        for name, flag in _OTHERS:
            _leave(left, name, flag)
        try:
            become_nobody()
            left.own_uid = True
        except OSError as error:
            left.uid_gap = f"the process stays root: {error.strerror}"
    _leave(left, "user", CLONE_NEWUSER)
    if "user" in left.entered:
        for name, flag in _OTHERS:
            if name not in left.entered:
                _leave(left, name, flag)
    else:
        for name, _ in _OTHERS:
            if name not in left.entered:
                left.failed.setdefault(name, "needs a user namespace")
    return left


def _leave(left: Left, name: str, flag: int) -> None:
    try:
        unshare(flag)
    except OSError as error:
        left.failed[name] = error.strerror or str(error)
    else:
        left.entered.append(name)
        left.failed.pop(name, None)


def become_nobody() -> None:
    """
    Give root up for good: no groups, group and user ``NOBODY``.

    The kernel takes all capabilities away with it and forgets the death signal.  Raises ``OSError``.
    """
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)

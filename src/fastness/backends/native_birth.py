"""
What a zygote is asked for when a guest is to be born: its user, its folders, and the limits that it sets itself.
"""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING, Any

from fastness.backends import native_folders

if TYPE_CHECKING:
    from fastness.backends.native_folders import Folders
    from fastness.backends.native_guest import Guest


def request(guest: Guest, config: dict[str, Any], folders: Folders, *, ahead: bool, calls: bool) -> dict[str, Any]:
    """
    The request for a guest that has its user; where its folders are on this side, they are taken from ``folders``.

    ``calls`` says that it will most likely call the host.

    Raises ``OSError``.
    """
    name = guest.box.name
    file_bytes, files, limits = guest.key
    made: dict[str, Any] = {
        "box": name,
        "uid": config["guest_uid"] + max(0, guest.inside_uid - 1),
        "file_bytes": file_bytes,
        "files": files,
        "limits": _limits(guest, limits),
        "ahead": ahead,
        "calls": calls,
        "programs": config["kind"] == "command",
        "into_group": False,
        "entrances": 0,
    }
    if config["tier"] == "isolated":
        writable = ["/work", "/tmp"] + (["/dev/shm"] if made["programs"] else [])  # noqa: S108  # of the guest alone
        return made | {"folder": "", "writable": writable}
    folder = guest.folder = folders.take(guest.uid)
    # Opened now: by the time that the guest says which folder it is, packages that nobody here has read may have run.
    guest.above = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    guest.box.holds(guest.above)
    guest.box.owns(native_folders.open_quietly("work", guest.above))
    return made | {"folder": folder, "writable": []}


def _limits(guest: Guest, limits: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    """Limits as the guest sets them; those of memory come on top of what its zygote takes."""
    base = guest.zygote.size()
    more = {resource.RLIMIT_AS: base[0], resource.RLIMIT_DATA: base[2]}
    return [(limit, value + more.get(limit, 0)) for limit, value in limits]

"""
A zygote that is started before anybody asks for one: what it takes to get ready goes on while its caller imports.

It is a guess, and only a command that is about to run one guest makes it.  What was started serves who asks for the
very same, once, and goes through every step and proof that any other does; where nobody asks it is ended.
"""

from __future__ import annotations

import os

from fastness._linux import why_unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fastness._linux.cgroup import Slots
    from fastness.backends.native_spawn import Key, Outfit
    from fastness.backends.zygote_process import ZygoteProcess

#: The one that was begun, with the process that did it: guests belong to who has started them.
_begun: list[tuple[int, Outfit, ZygoteProcess]] = []


def begin(tier: str, kind: str) -> None:
    """
    Start a zygote of ``tier`` for guests of ``kind`` (``python``, ``command``) with nothing preloaded.

    To be called by a thread that lasts as long as this process.  Whatever stands in the way is left for the run itself
    to meet, and to tell.
    """
    if why_unsupported():
        return
    from fastness.backends import native_launch

    try:
        # First, for it has as much to import as what follows.
        launched = native_launch.launch(native_launch.ENVIRONMENTS[kind])
    except OSError:
        return
    from fastness.errors import FastnessError

    try:
        try:
            from fastness.backends import native_config, native_slots, native_spawn

            groups = native_slots.begin() if tier == "isolated" else None
            outfit = native_spawn.Outfit((tier, kind, (), native_config.packages_of(None)), groups)
        except BaseException:
            launched.drop()
            raise
        _begun.append((os.getpid(), outfit, outfit.spawn(launched)))
    except (FastnessError, OSError):
        return


def take(key: Key, groups: Slots | None) -> tuple[Outfit, ZygoteProcess] | None:
    """What was begun, if it is of this ``key`` and its groups are these; it is the caller's from then on."""
    for begun in list(_begun):
        process, outfit, zygote = begun
        if process == os.getpid() and outfit.key == key and outfit.groups is groups and zygote.alive:
            _begun.remove(begun)
            return outfit, zygote
    return None


def drop() -> None:
    """End what nobody has asked for."""
    while _begun:
        process, _, zygote = _begun.pop()
        if process == os.getpid():
            zygote.kill()

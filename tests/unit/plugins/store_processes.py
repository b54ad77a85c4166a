"""What other processes of the store's tests do: one word of standard input, one line of standard output."""

from __future__ import annotations

import os
import sys

from fake_specs import SPECS

from fastness.plugins.changes import Changes
from fastness.plugins.store import Store


def checker(folder: str) -> None:
    """Answer each line with what a check that begins now says."""
    store = Store(SPECS, folder)
    watch = store.watch("weather", "ann")
    blind = watch()
    for line in sys.stdin:
        if line.strip() == "check":
            print(watch(), flush=True)
        elif line.strip() == "blind":
            print(blind, flush=True)


def revoker(folder: str) -> None:
    """Revoke when told to."""
    store = Store(SPECS, folder)
    print("ready", flush=True)
    for line in sys.stdin:
        print(store.revoke("weather", line.strip() or None), flush=True)


def dying(folder: str) -> None:
    """Revoke, and be killed after the commit and before anybody is told."""
    put = Changes._put

    def die(self: Changes, number: int) -> None:
        if number % 2 == 0:
            os.kill(os.getpid(), 9)
        put(self, number)

    Changes._put = die  # type: ignore[method-assign]
    Store(SPECS, folder).revoke("weather", "ann")


def granter(folder: str) -> None:
    """Grant and revoke again and again, for an owner of its own."""
    from fastness.grant import Grant

    store = Store(SPECS, folder)
    owner = f"owner{os.getpid()}"
    for _ in range(20):
        made = store.grant(Grant(plugin="weather", owner=owner, package_digest="a" * 64))
        assert store.watch("weather", owner)() == made.revision
        assert store.revoke("weather", owner) == 1
        assert store.watch("weather", owner)() == 0
        print(made.revision, flush=True)


if __name__ == "__main__":
    {"checker": checker, "revoker": revoker, "dying": dying, "granter": granter}[sys.argv[1]](sys.argv[2])

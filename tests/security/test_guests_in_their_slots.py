"""A guest of ``isolated`` is in a control group slot of its own before it hears of any code, however it comes there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

import fastness
import house
from fastness._linux import cgroup
from fastness._linux.cgroup_files import groups_below
from fastness._linux.cgroup_find import members
from fastness.backends.native_slots import place


def held() -> dict[str, set[int]]:
    """Processes in slots of this process, by the root of the slots' hierarchy."""
    slots = place()[1]
    assert isinstance(slots, cgroup.Slots)
    return {root: {pid for name in groups_below(root) for pid in members(f"{root}/{name}")} for root in slots.roots}


def essential() -> list[str]:
    """The roots whose groups limit memory and processes."""
    return [root for root in held() if "/cpu" not in root]


def eventually(sets: Callable[[], set[frozenset[int]]], count: int) -> bool:
    """Whether the same ``count`` processes are in all of them soon; those that are being buried go meanwhile."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found = sets()
        if len(found) == 1 and len(next(iter(found))) == count:
            return True
        time.sleep(0.01)
    return False


@pytest.fixture(autouse=True)
def _here() -> None:
    house.require("isolated tier")
    house.require("control groups")


@pytest.mark.parametrize("preload", [(), ("this",)], ids=["by itself", "by the host"])
@pytest.mark.parametrize("pool", [0, 2])
def test_a_python_guest(preload: tuple[str, ...], pool: int) -> None:
    """It is limited by memory and number of processes, with and without packages in its zygote, ahead and on demand."""
    # Other sandboxes of this process may have some too.
    before = held()
    with fastness.Sandbox(tier="isolated", preload=preload, pool=pool) as box:
        box.run("1")
        with box.session() as session:
            assert session.execute("6 * 7").value == 42
            # The session's, and those that wait.
            assert eventually(lambda: {frozenset(held()[root] - before[root]) for root in essential()}, 1 + pool)


def test_programs() -> None:
    """All that a program starts is in the groups too, and none of its descriptors opens one."""
    text = "sleep 30 & echo $!; ls -l /proc/self/fd | grep -c tasks; cat /proc/self/cgroup"
    with fastness.Sandbox(tier="isolated") as box:
        done = box.run(command=["/bin/sh", "-c", text], timeout=20)
    assert done.outcome.kind == "ok", done
    lines = done.stdout.splitlines()
    assert lines[1] == "0"
    slots = place()[1]
    assert isinstance(slots, cgroup.Slots)
    names = {os.path.basename(root) for root in slots.roots}
    placed = [line for line in lines[2:] if any(f"{name}/" in line for name in names)]
    if slots.flavour == "cgroup1":
        assert len(placed) == len(slots.roots)

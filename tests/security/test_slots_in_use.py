"""Control group slots on their way from one run to the next: what is moved into one, what is counted, what is looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import cgroup_checks
import pytest

import house
from fastness._linux import cgroup, cgroup_find
from fastness._linux.cgroup_open import OpenFiles
from fastness._linux.cgroup_slot import Slot


@pytest.fixture(scope="module")
def slots() -> Iterator[cgroup.Slots]:
    """Slots of this process, where this machine lets it make some."""
    house.require("control groups")
    found = cgroup.find(f"in-use-{os.getpid()}")
    assert isinstance(found, cgroup.Slots)
    yield found
    cgroup_checks.everything_is_gone(found)


@pytest.fixture
def slot(slots: cgroup.Slots) -> Iterator[Slot]:
    """A new slot."""
    made = slots.new(f"used-{os.getpid()}")
    yield made
    made.kill()
    made.remove()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is in this one's groups."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield child
    child.kill()
    child.wait()


def _open_files() -> set[str]:
    return {fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")}


def groups(pid: int) -> str:
    """Where a process is, in every hierarchy."""
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
        return file.read()


@pytest.mark.parametrize("cpu", [True, False])
def test_a_number_that_became_anothers_is_let_go(slot: Slot, sleeper: subprocess.Popen[bytes], cpu: bool) -> None:
    """What has the number now is neither kept nor killed with the slot; before it was looked at again it was both."""
    before = groups(sleeper.pid)
    slot.attach(sleeper.pid, cpu=cpu)
    assert slot.processes() == [sleeper.pid]
    slot._put_back(sleeper.pid, slot._folders)
    with pytest.raises(ProcessLookupError):
        slot.attach(sleeper.pid, cpu=cpu, alive=lambda: False)
    assert slot.processes() == []
    assert groups(sleeper.pid) == before
    slot.reset()
    slot.kill()
    assert sleeper.poll() is None


def test_a_process_that_is_the_one_that_was_meant_stays(slot: Slot, sleeper: subprocess.Popen[bytes]) -> None:
    """It is asked for after the move, or the answer would say nothing of what was moved."""
    asked: list[list[int]] = []
    slot.attach(sleeper.pid, alive=lambda: not asked.append(slot.processes()))
    assert asked == [[sleeper.pid]]
    assert slot.processes() == [sleeper.pid]
    slot.kill()
    assert sleeper.wait(10) == -9


def test_a_run_does_not_wait_for_what_was_done_before_it(
    slot: Slot, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counters are set back when a slot is taken back, and not once more when the next process is in it."""
    marks: list[Slot] = []
    mark = Slot._mark
    monkeypatch.setattr(Slot, "_mark", lambda self: (marks.append(self), mark(self)))
    slot.configure(memory=64 << 20, pids=8, cpus=None)
    assert len(marks) == 1
    slot.reset()
    assert len(marks) == 2
    slot.attach(sleeper.pid)
    slot.configure(memory=64 << 20, pids=8, cpus=None)
    assert len(marks) == 2
    slot.configure(memory=64 << 20, pids=8, cpus=None)
    assert len(marks) == 3


def test_groups_that_nothing_was_moved_to_are_not_looked_at(
    slot: Slot, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what a process was moved to can hold one."""
    looked: list[str] = []
    members = cgroup_find.members
    monkeypatch.setattr("fastness._linux.cgroup_slot.members", lambda folder: looked.append(folder) or members(folder))
    slot.attach(sleeper.pid, cpu=False)
    assert slot.processes() == [sleeper.pid]
    assert sorted(looked) == sorted(slot._essential())
    looked.clear()
    slot.attach(sleeper.pid)
    assert slot.processes() == [sleeper.pid]
    assert sorted(looked) == sorted(slot._folders)


@pytest.mark.parametrize("cpu", [True, False])
def test_a_process_moves_itself_by_what_it_is_given(slot: Slot, cpu: bool) -> None:
    """It is in the same groups as one that was moved by us, and stays out of the others."""
    entrances = slot.entrances(cpu=cpu)
    if slot.flavour == "cgroup2":
        assert entrances == []
        return
    assert len(entrances) == len(slot._folders if cpu else slot._essential())
    text = "import os, sys\nfor fd in sys.argv[1:]:\n    os.write(int(fd), b'0')\nprint(flush=True)\nos.read(0, 1)\n"
    mover = [sys.executable, "-c", text, *map(str, entrances)]
    child = subprocess.Popen(mover, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=entrances)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert slot.processes() == [child.pid]
        moved = groups(child.pid)
        slot._put_back(child.pid, slot._folders)
        slot.attach(child.pid, cpu=cpu)
        assert groups(child.pid) == moved
        slot.kill()
        assert child.wait(10) == -9
    finally:
        child.kill()
        child.communicate()


def test_what_opens_a_slot_stays_open_where_few_do(slot: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that not each run opens it anew, and a process with many slots keeps few descriptors."""
    if slot.flavour == "cgroup2":
        return
    # Those of other sandboxes of this process are not what is counted.
    monkeypatch.setattr("fastness._linux.cgroup_open._staying", set())
    before = _open_files()
    for most in (1, 0):
        monkeypatch.setattr("fastness._linux.cgroup_open._MOST", most)
        slot.files.close()
        assert _open_files() == before
        entrances = slot.entrances(cpu=False)
        assert [os.readlink(f"/proc/self/fd/{fd}") for fd in entrances] == [f"{one}/tasks" for one in slot._essential()]
        slot.sent()
        assert _open_files() - before == (set(map(str, entrances)) if most else set())
    monkeypatch.setattr("fastness._linux.cgroup_open._MOST", 1)
    slot.sent()
    first = slot.entrances(cpu=False)
    assert slot.entrances(cpu=False) == first
    everywhere = slot.entrances()
    assert set(first) <= set(everywhere)
    assert len(everywhere) == len(slot._folders)
    # Another one of this process finds the place taken.
    other = OpenFiles()
    other.writable(slot._folders[0], "tasks")
    other.spare()
    assert len(_open_files() - before) == len(everywhere)
    slot.files.close()
    assert _open_files() == before


def test_counters_are_read_anew_from_files_that_stay_open(
    slot: Slot, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there when the file was opened is not what is told afterwards."""
    monkeypatch.setattr("fastness._linux.cgroup_open._staying", set())
    slot.configure(memory=64 << 20, pids=8, cpus=None)
    slot.sent()
    try:
        count = slot.files.counter
        assert count(slot._pids, "pids.current") == 0
        slot.attach(sleeper.pid)
        assert count(slot._pids, "pids.current") == 1
        with pytest.raises(OSError, match="processes are left"):
            slot.reset(quiet=True)
        slot.kill()
        sleeper.wait(10)
        assert count(slot._pids, "pids.current") == 0
        slot.reset(quiet=True)
        assert count(slot._pids, "no such file") is None
    finally:
        slot.files.close()


def test_after_a_quiet_run_all_is_counted_from_zero(slot: Slot, sleeper: subprocess.Popen[bytes]) -> None:
    """What one process has used is not seen by the next that may be many."""
    if slot.flavour == "cgroup2":
        pytest.skip("everything is counted anew there each time")
    slot.configure(memory=256 << 20, pids=8, cpus=None)
    text = "x = bytearray(64 << 20)\nprint(flush=True)\nimport os\nos.read(0, 1)\n"
    child = subprocess.Popen([sys.executable, "-c", f"import os\nos.read(0, 1)\n{text}"], stdin=-1, stdout=-1)
    try:
        slot.attach(child.pid, cpu=False)
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"g")
        child.stdin.flush()
        child.stdout.readline()
        most = slot.memory_peak()
        assert most is not None
        assert most > 60 << 20
    finally:
        child.kill()
        child.communicate()
    slot.reset(quiet=True)
    slot.attach(sleeper.pid)
    slot.configure(memory=256 << 20, pids=8, cpus=None)
    now = slot.memory_peak()
    assert now is not None
    assert now < 30 << 20


def test_one_that_is_left_is_found_in_whichever_group_it_is(slot: Slot, sleeper: subprocess.Popen[bytes]) -> None:
    """A slot that still holds a process in part is not given to the next run."""
    for folder in slot._essential():
        slot.attach(sleeper.pid, cpu=False)
        for other in slot._essential():
            if other != folder:
                slot._put_back(sleeper.pid, [other])
        with pytest.raises(OSError, match=str(sleeper.pid)):
            slot.reset(quiet=True)


def test_what_was_killed_before_is_nothing_of_the_next(slot: Slot) -> None:
    """A guest may answer well, go on, and be killed for want of memory; who comes after it was not."""
    slot.configure(memory=32 << 20, pids=8, cpus=None)
    text = "import os\nos.read(0, 1)\nx = bytearray(64 << 20)\nx[::4096] = b'x' * len(x[::4096])\n"
    child = subprocess.Popen([sys.executable, "-c", text], stdin=-1)
    slot.attach(child.pid, cpu=False)
    child.communicate(b"g")
    assert child.returncode == -9
    slot.reset(quiet=True)
    slot.configure(memory=32 << 20, pids=8, cpus=None)
    assert slot.oom_kills() == 0

"""Control group slots on this machine: limits that bite, and plain words where there can be none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import cgroup_checks
import native_hosts
import pytest

import house
from fastness import runtime
from fastness._linux import cgroup, cgroup_find, cgroup_probe

FIND = """
import json, os
from fastness._linux import cgroup
found = cgroup.find(f"ordinary-{os.getpid()}")
print(json.dumps([type(found).__name__, *map(str, getattr(found, "reasons", ()))]))
if not hasattr(found, "reasons"):
    found.close()
"""


@pytest.fixture(scope="module")
def slots() -> Iterator[cgroup.Slots]:
    """Slots of this process, where this machine lets it make some."""
    house.require("control groups")
    found = cgroup.find(f"tests-{os.getpid()}")
    assert isinstance(found, cgroup.Slots)
    yield found
    cgroup_checks.everything_is_gone(found)


@pytest.mark.parametrize("name", cgroup_checks.CHECKS)
def test_slots(slots: cgroup.Slots, name: str) -> None:
    """Each rule of :mod:`cgroup_checks`."""
    cgroup_checks.CHECKS[name](slots)


def test_how_it_is_done_is_said(slots: cgroup.Slots) -> None:
    """The words for a user name the version, the place and what was proven."""
    assert slots.flavour in ("cgroup1", "cgroup2")
    assert "memory, pids" in slots.how
    assert slots.how.endswith("with both limits seen to hold")


def test_finding_takes_no_time_to_speak_of() -> None:
    """A place is found and proven within a second, also on a busy machine, and nothing is left of the attempt."""
    house.require("control groups")
    owner = f"timed-{os.getpid()}"
    began = time.monotonic()
    found = cgroup.find(owner)
    took = time.monotonic() - began
    assert isinstance(found, cgroup.Slots)
    try:
        assert took < 2
        for root in found.roots:
            assert not [entry for entry in os.scandir(root) if entry.is_dir()]
    finally:
        cgroup_checks.everything_is_gone(found)


def test_the_proof_may_go_on_while_its_caller_does_something_else() -> None:
    """It is the same proof, and nothing is a place for slots before it is done."""
    house.require("control groups")
    search = cgroup.Search(f"meanwhile-{os.getpid()}")
    search.begin()
    search.begin()
    looked_at = search.slots
    assert looked_at is not None
    assert "seen to hold" not in looked_at.how
    found = search.finish()
    try:
        assert found is looked_at
        assert found is search.finish()
        assert found.how.endswith("with both limits seen to hold")
    finally:
        cgroup_checks.everything_is_gone(looked_at)


@pytest.mark.parametrize("meanwhile", [False, True])
def test_what_breaks_the_proof_is_told_to_who_waits_for_it(meanwhile: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot that cannot be used is a reason; anything else is raised; nothing is left of either."""
    house.require("control groups")
    breaks: BaseException = OSError(28, "No space left")

    def bite(slots: cgroup.Slots) -> str:
        roots.extend(slots.roots)
        raise breaks

    roots: list[str] = []
    monkeypatch.setattr(cgroup_probe, "bite", bite)
    search = cgroup.Search(f"broken-{os.getpid()}")
    if meanwhile:
        search.begin()
    found = search.finish()
    assert isinstance(found, cgroup.Unavailable)
    assert any("a slot could not be used" in reason.cause for reason in found.reasons)
    breaks = KeyboardInterrupt()
    search = cgroup.Search(f"broken-{os.getpid()}")
    if meanwhile:
        search.begin()
    with pytest.raises(KeyboardInterrupt):
        search.finish()
    assert roots
    assert not any(map(os.path.exists, roots))


def test_a_limit_that_does_not_hold_is_found_out(slots: cgroup.Slots, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt is not for show: with limits that are written but far too high it says what did not hold."""
    real = cgroup.Slot.configure

    def no_memory_limit(self: cgroup.Slot, *, memory: int, pids: int, cpus: float | None) -> None:
        real(self, memory=1 << 30, pids=pids, cpus=cpus)

    def no_pids_limit(self: cgroup.Slot, *, memory: int, pids: int, cpus: float | None) -> None:
        real(self, memory=memory, pids=100, cpus=cpus)

    monkeypatch.setattr(cgroup.Slot, "configure", no_memory_limit)
    assert cgroup_probe.bite(slots) == "memory was filled past the limit"
    monkeypatch.setattr(cgroup.Slot, "configure", no_pids_limit)
    assert cgroup_probe.bite(slots) == "a process was made past pids.max"
    monkeypatch.setattr(cgroup.Slot, "configure", real)
    assert cgroup_probe.bite(slots) == ""


def test_an_ordinary_user_is_told_why_and_what_to_do(callers: native_hosts.Callers) -> None:
    """Where groups belong to root, another user gets one reason for each version, each with its remedy."""
    kind, *reasons = native_hosts.find(callers, "ordinary").run(FIND)
    if kind != "Unavailable":
        assert kind.startswith("Slots")
        return
    assert all(". Fix: " in reason for reason in reasons)
    flavours = [reason.partition(":")[0] for reason in reasons]
    if flavours == ["cgroup1", "cgroup2"]:
        # The hierarchies of this machine are those of version 1, so their fix is told first, whole.
        groups = re.search("for g in (.*); do mkdir", reasons[0])
        assert groups is not None
        kinds = {folder.split("/")[4] for folder in groups[1].split()}
        assert {"memory", "pids"} <= kinds <= {"memory", "pids", "cpu", "cpuacct", "cpu,cpuacct"}
        assert f"chown -R {native_hosts.ORDINARY} $g/NAME; echo PID > $g/NAME/cgroup.procs; done" in reasons[0]
        return
    assert flavours == ["cgroup2", "cgroup1"]
    assert "systemd-run --user --scope -p Delegate=yes -- <command>" in reasons[0]


HOST = """
import subprocess, sys, time
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
from fastness.backends import native_slots
owner, slots = native_slots.place()
slot = slots.new("a")
child = subprocess.Popen(["sleep", "300"], start_new_session=True)
slot.configure(memory=32 << 20, pids=8, cpus=None)
slot.attach(child.pid)
print(child.pid, *slots.roots, flush=True)
time.sleep(300)
"""


def test_groups_of_a_host_that_was_in_another_group_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder says where they are, for a sweep looks below its own group only."""
    house.require("control groups")
    here = cgroup_find.own_places().get("memory")
    if here is None:
        pytest.skip("needs a memory hierarchy of version 1")
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path))
    apart = Path(here.folder) / f"apart-{os.getpid()}"
    apart.mkdir()
    host = subprocess.Popen([sys.executable, "-c", HOST, str(apart)], stdout=subprocess.PIPE, text=True)
    try:
        assert host.stdout is not None
        guest, *roots = host.stdout.readline().split()
        assert any(root.startswith(f"{apart}/") for root in roots)
        host.kill()
        host.wait()
        assert runtime.sweep() != []
        assert [root for root in roots if os.path.exists(root)] == []
        assert cgroup_checks.is_gone(int(guest))
    finally:
        cgroup_checks.stop(host)
        apart.rmdir()

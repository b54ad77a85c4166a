"""
However a host of native guests ends, nothing of it stays: no process, mount, namespace, control group or folder.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import native_hosts
import native_programs
import pytest

import house

#: What a run goes through, in this order; then what else a host may be doing.
STATES = (
    "planned", "spawned", "zygote ready", "guest asked for", "guest born", "guest limited", "filled", "running",
    "sleeping", "answered", "draining", "collecting", "burying", "pool", "session",
)  # fmt: skip
#: In these the host alone does something, and whose it is makes no difference to what stands around it.
OF_THE_HOST = ("planned", "filled", "answered", "collecting", "burying")
KILLED = [
    (state, caller) for state in STATES for caller in native_hosts.CALLERS
    if caller == "caller" or state not in OF_THE_HOST
]  # fmt: skip
#: What a killed host left is left for what comes next.
WATCHER_WITHOUT_SWEEP = native_programs.WATCHER.replace("runtime.sweep()", "")


@pytest.fixture(scope="module")
def found() -> Iterator[native_hosts.Callers]:
    """Callers with homes of their own: what is in these is counted."""
    house.require("confined tier")
    with native_hosts.callers() as made:
        yield made


def with_groups(caller: native_hosts.Caller) -> bool:
    """Whether hosts of this caller make control groups; an ordinary one was given none to make them in."""
    return caller.name == "caller" and not house.missing("control groups")


def killed(caller: native_hosts.Caller, tier: str, state: str, **more: Any) -> dict[str, Any]:
    wanted = {"state": state, "tier": tier, "program": native_programs.HOST, "within": house.PROCESS_GRACE_S, **more}
    told: dict[str, Any] = caller.run(native_programs.WATCHER, wanted)
    assert told["left"] == []
    assert told["still"] == []
    assert told["mounts"] == []
    assert told["groups"] == []
    assert told["folders"] == []
    return told


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["confined", "isolated"])
@pytest.mark.parametrize(("state", "caller"), KILLED)
def test_a_killed_host_leaves_nothing(state: str, tier: str, caller: str, found: native_hosts.Callers) -> None:
    """Kill -9 in the middle of each step: the kernel ends what the host can no longer end, and a sweep the rest."""
    house.require(f"{tier} tier")
    told = killed(native_hosts.find(found, caller), tier, state)
    # What was there was seen, or its absence would say nothing.
    assert told["processes"] >= (0 if state == "planned" else 1)
    if tier == "isolated" and state not in ("planned", "spawned") and native_hosts.find(found, caller).root:
        assert told["namespaces"] >= 4
    assert told["owners"] == 1


def test_a_killed_host_leaves_no_program(found: native_hosts.Callers) -> None:
    """Grandchildren with sessions of their own, and a shell that ignores being asked to end, go with their host."""
    house.require("isolated tier")
    house.require("control groups")
    told = killed(native_hosts.find(found, "caller"), "isolated", "command")
    assert told["processes"] >= 7


@pytest.mark.parametrize("caller", native_hosts.CALLERS)
def test_the_next_start_finds_all_as_it_was(caller: str, found: native_hosts.Callers) -> None:
    """The next host removes what a killed one left, its control groups and its folder, and leaves nothing itself."""
    start = "import json, sys, fastness\nwith fastness.Sandbox(tier=json.loads(sys.argv[1])) as box: print(box.run('6 * 7').value)"
    one = native_hosts.find(found, caller)
    for tier in ("confined", "isolated"):
        house.require(f"{tier} tier")
        wanted = {"state": "sleeping", "tier": tier, "program": native_programs.HOST, "within": house.PROCESS_GRACE_S}
        told = one.run(WATCHER_WITHOUT_SWEEP, wanted)
        # What was left was seen, or its absence would say nothing.
        assert len(told["folders"]) == 2
        assert bool(told["groups"]) is with_groups(one)
        assert one.run(start, tier) == 42
        assert [path for path in told["groups"] if os.path.exists(path)] == []
        assert os.listdir(os.path.join(one.environment["FASTNESS_HOME"], "runtime")) == []


@pytest.mark.slow
def test_doctor_sweeps_what_a_killed_host_left(found: native_hosts.Callers) -> None:
    """``fastness doctor --sweep`` says how many dead processes it cleared up after, and then there are none."""
    one = native_hosts.find(found, "caller")
    groups = with_groups(one)
    wanted = {"state": "sleeping", "tier": "confined", "program": native_programs.HOST, "within": house.PROCESS_GRACE_S}
    told = one.run(WATCHER_WITHOUT_SWEEP, wanted)
    assert len(told["folders"]) == 2
    assert bool(told["groups"]) is groups
    sweep = (
        "import sys\nfrom fastness.cli.main import main\nsys.argv = ['fastness', 'doctor', '--sweep', '--json']\nmain()"
    )
    done = subprocess.run(one.command(sweep), env=one.environment, cwd=one.home, capture_output=True, check=False)
    swept = json.loads(done.stdout)["swept"]
    assert "folders of 1 process that had ended" in swept
    # Those of other hosts that ended meanwhile may be among them.
    assert any(re.match(r"control groups of [1-9]\d* process", line) for line in swept) is groups
    assert [path for path in told["groups"] if os.path.exists(path)] == []
    dead = "import json\nfrom fastness import runtime\nprint(json.dumps(runtime.dead_owners()))"
    assert one.run(dead) == []


def stressed(one: native_hosts.Caller, tier: str, runs: int) -> None:
    told = one.run(native_programs.STRESS, {"tier": tier, "runs": runs, "seed": runs}, timeout=60 + runs)
    assert told["wrong"] == []
    assert told["right"] + told["crashed"] + told["refused"] == runs
    assert told["right"] >= runs / 4
    assert told["kills"] >= runs / 20
    assert told["slow"] < 15
    assert told["left"] == 0
    descriptors, threads, memory = (after - before for before, after in zip(told["before"], told["after"], strict=True))
    # A guest that waits has seven descriptors, and there may be more of them now than then.
    assert descriptors <= 3 * 7
    assert threads <= 1
    assert memory < 16 << 20
    assert told["open"] < 20


@pytest.mark.slow
@pytest.mark.parametrize("caller", native_hosts.CALLERS)
@pytest.mark.parametrize("tier", ["confined", "isolated"])
def test_processes_killed_at_random(tier: str, caller: str, found: native_hosts.Callers) -> None:
    """Guests, zygotes, launchers and mothers that are killed take runs with them, and never more than that."""
    house.require(f"{tier} tier")
    stressed(native_hosts.find(found, caller), tier, 60)


@pytest.mark.long
@pytest.mark.parametrize("caller", native_hosts.CALLERS)
@pytest.mark.parametrize("tier", ["confined", "isolated"])
def test_many_processes_killed_at_random(tier: str, caller: str, found: native_hosts.Callers) -> None:
    """As above, for long enough to show what grows slowly."""
    house.require(f"{tier} tier")
    stressed(native_hosts.find(found, caller), tier, 500)


@pytest.mark.long
@pytest.mark.parametrize("caller", native_hosts.CALLERS)
@pytest.mark.parametrize("tier", ["confined", "isolated"])
def test_hosts_killed_at_random(tier: str, caller: str, found: native_hosts.Callers) -> None:
    """A host with guests that wait, come and go is killed at any moment of that."""
    house.require(f"{tier} tier")
    one = native_hosts.find(found, caller)
    program = native_programs.HOST.replace("\nelse:\n", "\nelif state == 'busy':\n    BUSY\nelse:\n").replace(
        "BUSY",
        "other = fastness.Sandbox(tier=tier, pool=2)\n"
        "    work = lambda: [other.run('1') for _ in range(1 << 30)]\n"
        "    [threading.Thread(target=work, daemon=True).start() for _ in range(3)]\n"
        "    reached('busy')",
    )
    for number in range(40):
        killed(one, tier, "busy", program=program, delay=number * 0.01)

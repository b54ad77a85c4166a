"""
The corpus against native tiers once more: as an ordinary user, on a kernel whose Landlock is older, and what is known
to get through.
"""

from __future__ import annotations

from typing import Any

import native_hosts
import pytest

import fastness
import house
from fastness.attack import registry, runner
from fastness.attack.model import Expect, Layer, Verdict

pytestmark = pytest.mark.attack

#: Runs attacks and prints what came of each; ``wanted`` names them, the tier, the Landlock ABI to pretend, and whether
#: their controls are run.
ATTACKING = """
import dataclasses, json, sys
import fastness
from fastness.attack import registry, runner
from fastness.attack.model import Effect, Expect, Layer
from fastness.backends import native_launch

wanted = json.loads(sys.argv[1])
if wanted.get("abi"):
    from fastness._linux import landlock

    landlock.abi = lambda: wanted["abi"]
    patch = f"from fastness._linux import landlock;landlock.abi=lambda:{wanted['abi']};"
    native_launch._BOOT = native_launch._BOOT.replace("from fastness._native", patch + "from fastness._native", 1)
told = {}
with fastness.Sandbox(tier=wanted["tier"]) as box:
    told["layers"] = box.run("pass").layers
    for attack in registry.select(tuple(wanted.get("only", ()))):
        if not wanted.get("control", True):
            attack = dataclasses.replace(attack, control=lambda arena: Effect(True, "tried elsewhere"))
        if wanted.get("disk"):
            outcome = runner.judge(attack, Expect(Layer.LIMIT, outcomes=("disk",)), wanted["tier"], box)
            told[attack.id] = [outcome.verdict.value, outcome.detail]
        for outcome in runner.run([attack], wanted["tier"], box):
            told[attack.id] = [outcome.verdict.value, outcome.detail]
    told["after"] = box.run("6 * 7").value
print(json.dumps(told))
"""
#: Attacks whose first wall is Landlock's scopes or its rules for files, where those are there.
BEHIND_LANDLOCK = ("signals", "files", "metadata", "network", "environment", "state")
#: What gets past the limit of bytes in `confined`, where the kernel keeps no count for a folder.
UNCOUNTED = ("limits.disk_without_names",)


def judged(told: dict[str, Any]) -> dict[str, list[str]]:
    """What was neither held nor skipped, nor let through as is said of the tier, with the reason."""
    assert told.pop("after") == 42
    told.pop("layers")
    return {name: found for name, found in told.items() if found[0] not in ("held", "skipped", "allowed")}


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["confined", "isolated"])
def test_as_an_ordinary_user(tier: str, callers: native_hosts.Callers) -> None:
    """No attack needs a sandbox of root's to be held."""
    house.require(f"{tier} tier")
    told = native_hosts.find(callers, "ordinary").run(ATTACKING, {"tier": tier}, timeout=240)
    held = sum(1 for found in told.values() if isinstance(found, list) and found[0] == "held")
    assert judged(told) == {}
    assert held > 100


@pytest.mark.slow
# Namespaces stand before the rules that ABI 5 adds to ABI 2, so in `isolated` the one shows what the other does.
@pytest.mark.parametrize(("tier", "abi"), [("confined", 2), ("confined", 5), ("isolated", 2)])
@pytest.mark.parametrize("name", native_hosts.CALLERS)
def test_behind_an_older_landlock(name: str, tier: str, abi: int, callers: native_hosts.Callers) -> None:
    """
    Without scopes, and without rules for truncation and ports, the other walls hold alone.

    A control has no walls, so it is the same as where the attacks are tried with all of them.
    """
    house.require(f"{tier} tier")
    wanted = {"tier": tier, "abi": abi, "only": BEHIND_LANDLOCK, "control": False}
    told = native_hosts.find(callers, name).run(ATTACKING, wanted, timeout=200)
    assert f"abi {abi}" in told["layers"]["FS_CONFINED"]
    assert judged(told) == {}


@pytest.mark.parametrize("identity", UNCOUNTED)
@pytest.mark.xfail(strict=True, reason="the watch of confined guests sees what has a name")
def test_all_that_a_confined_guest_writes_is_counted(identity: str) -> None:
    """Bytes of files without a name count towards the limit."""
    house.require("confined tier")
    (attack,) = registry.select((identity,))
    with fastness.Sandbox(tier="confined") as box:
        outcome = runner.judge(attack, Expect(Layer.LIMIT, outcomes=("disk",)), "confined", box)
    assert outcome.verdict is Verdict.HELD, outcome.detail


def test_folders_that_cannot_be_listed_are_counted(callers: native_hosts.Callers) -> None:
    """A guest of an ordinary user's is that user, whom the mode of a folder keeps out as well."""
    house.require("confined tier")
    wanted = {"tier": "confined", "only": ["limits.disk_out_of_sight"], "disk": True}
    told = native_hosts.find(callers, "ordinary").run(ATTACKING, wanted)
    assert judged(told) == {}

"""The native tiers under another kernel: control groups of version 2, and a Landlock that knows little yet."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import house

PROGRAM = Path(__file__).parent / "guest_native.py"
PACKAGES = ("msgspec", "anyio", "idna", "typing_extensions", "platformdirs", "packaging")


@pytest.mark.slow
def test_native_tiers_in_a_virtual_machine() -> None:
    """
    Both tiers hold for root and for an ordinary user with a group of its own; guests are born into their groups.

    Nothing of it is left behind in the control group tree.
    """
    house.require("virtual machine")
    import vm

    if vm._python_minor() != sys.version_info[1]:
        # The packages of this environment are copied, and some of them are compiled for its version.
        house.lacks(f"these packages are for Python 3.{sys.version_info[1]}, and {vm.PYTHON} is 3.{vm._python_minor()}")
    status, output = vm.run_in_vm(
        "import runpy, sys\nsys.argv = ['/checks/guest_native.py']\nrunpy.run_path(sys.argv[0])\n",
        {"/checks/guest_native.py": PROGRAM},
        packages=PACKAGES,
        timeout=500,
    )
    print(output)
    assert status == 0, output
    assert "played all" in output
    facts: dict[str, Any] = {}
    for line in output.splitlines():
        if line.startswith("told "):
            one = json.loads(line.removeprefix("told "))
            facts[one.pop("name")] = one
    for who in ("root", "user"):
        for tier in ("confined", "isolated"):
            probe = facts[f"{who} {tier}"]
            assert probe["holds"], probe["failures"]
            assert probe["versions"]["landlock"] == "abi 2"
        layers = facts[f"{who} runs"]["layers"]
        assert layers["TOTAL_MEM_CAP"] == "cgroup2"
        assert layers["DENIALS_RECORDED"] == "all"
        # A Landlock of this age governs no network, and nobody says that it does.
        assert "landlock" not in layers["NET_CONFINED"]
        assert facts[f"{who} runs"]["stdout"] == "1\n"
        shared = facts[f"{who} shared"]
        assert shared["kind"] == "memory" or "Cannot allocate memory" in shared["detail"]
        command = facts[f"{who} command"]
        # From inside, the guest's group is the root of all groups.
        assert command["stdout"].splitlines() == ["0::/", "1000"]
        assert command["files"] == ["made"]
        assert facts[f"{who} hungry"]["kind"] == "memory"
        assert facts[f"{who} session"]["value"] == 42
        seen = facts[f"{who} bomb"]["stdout"].split()
        assert seen and int(seen[0]) < 40
        assert facts[f"{who} left"]["groups"] == []

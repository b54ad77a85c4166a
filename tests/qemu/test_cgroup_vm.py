"""Control group slots under another kernel: version 2 with all its owners, and version 1, both with swap."""

from __future__ import annotations

from pathlib import Path

import pytest

import house

CHECKS = Path(__file__).parents[1] / "security" / "cgroup_checks.py"
PROGRAM = Path(__file__).parent / "guest_cgroup.py"


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2", "1"])
def test_slots_in_a_virtual_machine(version: str) -> None:
    """Every rule holds, for root, for an ordinary user, in a container, and refusals say why."""
    house.require("virtual machine")
    import vm

    mounts = vm.CGROUP2 if version == "2" else vm.CGROUP1
    status, output = vm.run_in_vm(
        PROGRAM.read_text(encoding="utf-8"),
        {"/checks/cgroup_checks.py": CHECKS},
        timeout=400,
        setup=f"{mounts}\nmkswap /dev/ram0\nswapon /dev/ram0\nexport SCENES={version}",
        modules=["brd rd_nr=1 rd_size=131072"],
    )
    print(output)
    failed = [line for line in output.splitlines() if line.startswith("failed ")]
    passed = [line for line in output.splitlines() if line.startswith("ok ")]
    assert not failed, output
    assert status == 0, output
    assert "played all" in output
    assert len(passed) == len(set(passed)) >= (50 if version == "2" else 19)

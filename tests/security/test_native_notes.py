"""
What an ordinary user is told of programs: that they cannot be run for want of control groups, and a fix that works.
"""

from __future__ import annotations

import os
import re
import subprocess

import native_hosts
import pytest

import house

DOCTOR = """
import json
from fastness.cli.doctor import in_lines, probe_tier
from fastness.tier import Tier
probe = probe_tier(Tier.ISOLATED)
print(json.dumps([probe.holds, list(probe.notes), [in_lines(note) for note in probe.notes]]))
"""

EXEC = """
import sys
from fastness.cli.main import main
sys.exit(main(["exec", "--", "/bin/echo", "it", "ran"]))
"""


@pytest.fixture(scope="module")
def found(callers: native_hosts.Callers) -> native_hosts.Callers:
    house.require("isolated tier")
    return callers


def test_whoever_has_groups_is_told_how_programs_are_capped(found: native_hosts.Callers) -> None:
    house.require("control groups")
    holds, notes, _ = found["caller"].run(DOCTOR)
    assert holds
    assert notes[0].startswith("programs (command=, fastness exec) can be run here; what caps a run's processes")


def test_the_fix_that_is_told_lets_programs_run(found: native_hosts.Callers) -> None:
    """Doctor's commands, as root, are all that it takes; the refusal of a program tells the same ones."""
    one = native_hosts.find(found, "ordinary")
    holds, (note,), (shown,) = one.run(DOCTOR)
    assert holds
    assert "programs (command=, fastness exec) cannot be run here: no group can be made in" in note
    commands = re.search(r"for g in (.*); do mkdir .*; done", note)
    if commands is None:
        pytest.skip("this machine has no control groups of version 1")
    assert re.sub(r"\s+", " ", shown) == note
    script = commands[0].replace("NAME", name := f"fastness-tests-{os.getpid()}").replace("PID", "$$")
    ran = [*one.command(EXEC)[: len(one.prefix) + 2], EXEC]
    plain = subprocess.run(ran, env=one.environment, cwd=one.home, capture_output=True, text=True, check=False)
    assert plain.returncode == 3
    assert commands[0] in plain.stderr
    assert "version 2" not in plain.stderr
    try:
        # The shell that is moved goes on as the user.
        given = subprocess.run(
            ["/bin/sh", "-c", f'{script}; exec "$@"', "sh", *ran],
            env=one.environment,
            cwd=one.home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (given.returncode, given.stdout) == (0, "it ran\n"), given.stderr
    finally:
        for folder in commands[1].split():
            for below, _, _ in os.walk(f"{folder}/{name}", topdown=False):
                os.rmdir(below)

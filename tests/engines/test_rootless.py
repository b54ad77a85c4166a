"""
An engine that takes every limit and drops it without a word is refused, before anything runs on it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastness
import house
from engines import NotHere, RootlessPodman
from fastness._container import probe


@pytest.fixture(scope="module")
def rootless() -> Iterator[RootlessPodman]:
    if os.geteuid():
        house.lacks("only root starts an engine as another user")
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        pytest.skip("control groups of this machine are of version 2, which a user may be given a part of")
    one = RootlessPodman()
    try:
        one.start()
    except NotHere as error:
        house.lacks(str(error))
    yield one
    one.stop()


def test_what_it_says_of_itself_is_not_enough(rootless: RootlessPodman) -> None:
    """It says that it has every limit; only that it is rootless tells otherwise."""
    found = probe.reach({}, rootless.host)
    assert (found.kind, found.rootless, found.cgroup_version) == ("podman", True, "1")
    assert found.memory_limit and found.pids_limit


def test_the_tier_refuses_it(rootless: RootlessPodman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTNESS_ENGINE", rootless.host)
    with pytest.raises(fastness.TierUnavailable) as caught:
        fastness.run("print(1)", tier="container")
    assert "ignores every limit" in str(caught.value)
    assert caught.value.failures[0].guarantee == "TOTAL_MEM_CAP"


def test_the_command_line_says_why(rootless: RootlessPodman) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fastness.cli", "run", "--tier", "container", "-c", "1"],
        env={**os.environ, "FASTNESS_ENGINE": rootless.host, "PYTHONPATH": str(house.SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "rootless" in done.stderr
    assert "Fix:" in done.stderr

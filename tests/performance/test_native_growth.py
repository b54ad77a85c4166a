"""What many native runs leave behind, and many at once."""

from __future__ import annotations

import asyncio
import os

import pytest

import house
from fastness.bench import native_scale


@pytest.mark.long
@pytest.mark.parametrize("tier", ["isolated", "confined"])
def test_ten_thousand_runs_cost_no_more_at_their_end(tier: str) -> None:
    """
    Memory, descriptors, control groups and mounts are what they were after the first; so is the time of one.

    Zygotes are replaced on the way.
    """
    house.require(f"{tier} tier")
    times, before, after = native_scale.growth(tier, 10_000)
    assert after.descriptors <= before.descriptors
    # Two slots in four hierarchies: how many guests are being seen to their end at once varies.
    assert after.groups <= before.groups + 8
    assert after.mounts <= before.mounts
    assert after.memory - before.memory < 8
    assert times < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["isolated", "confined"])
def test_many_guests_are_alive_together(tier: str) -> None:
    """All of them end well, and their descriptors are closed."""
    house.require(f"{tier} tier")
    before = len(os.listdir("/proc/self/fd"))
    found = asyncio.run(native_scale.at_once(tier, 50))
    assert (found.good, found.alive) == (50, 50)
    assert len(os.listdir("/proc/self/fd")) <= before

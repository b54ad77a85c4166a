"""Helpers of the functional tests, which look at engine processes from outside, are used here too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastness
import house

sys.path.append(str(Path(__file__).resolve().parents[1] / "functional"))


@pytest.fixture
def own_box() -> Iterator[fastness.Sandbox]:
    """A sandbox of the test's own, whose engines it may count and look at."""
    house.require("python guest")
    with fastness.Sandbox(tier="wasm", engines=2, timeout=20) as sandbox:
        yield sandbox

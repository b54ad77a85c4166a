"""Helpers of the functional tests, which look at engine processes from outside, are used here too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import native_hosts
import pytest

import fastness
import house

sys.path.append(str(Path(__file__).resolve().parents[1] / "functional"))


@pytest.fixture(scope="session")
def callers() -> Iterator[native_hosts.Callers]:
    """Callers that many tests share: a tier that was proven for one of them need not be proven again."""
    with native_hosts.callers() as made:
        yield made


@pytest.fixture
def own_box() -> Iterator[fastness.Sandbox]:
    """A sandbox of the test's own, whose engines it may count and look at."""
    house.require("python guest")
    with fastness.Sandbox(tier="wasm", engines=2, timeout=20) as sandbox:
        yield sandbox

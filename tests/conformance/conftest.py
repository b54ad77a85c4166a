"""One sandbox for all conformance tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fastness
import house


@pytest.fixture(scope="session")
def box() -> Iterator[fastness.Sandbox]:
    house.require("python guest")
    with fastness.Sandbox(tier="wasm", engines=1, timeout=30) as sandbox:
        yield sandbox

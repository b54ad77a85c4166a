"""One sandbox for all conformance tests of a tier."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fastness
import house


@pytest.fixture(scope="session", params=["wasm", "isolated", "confined"])
def tier(request: pytest.FixtureRequest) -> str:
    """The tier that the test runs in."""
    return str(request.param)


@pytest.fixture(scope="session")
def box(tier: str) -> Iterator[fastness.Sandbox]:
    house.require("python guest" if tier == "wasm" else f"{tier} tier")
    # Native guests find what is not preloaded in the caller's own packages.
    options = {"engines": 1} if tier == "wasm" else {}
    with fastness.Sandbox(tier=tier, timeout=30, **options) as sandbox:
        yield sandbox

"""Fixtures of the functional tests: one shared sandbox, made where the guest is built."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import wasm_support

import fastness


@pytest.fixture(scope="session")
def python_guest() -> None:
    """The guest is built, and the tier proven, so that no test meets the engines that the proof leaves waiting."""
    wasm_support.require_python_guest()
    prove()


def prove() -> None:
    """Have the proof made, and recorded, by a sandbox of its own; where it is recorded this costs nothing."""
    with fastness.Sandbox(tier="wasm") as sandbox:
        sandbox.probe()


@pytest.fixture(scope="session")
def box(python_guest: None) -> Iterator[fastness.Sandbox]:
    """A sandbox that many tests share: whatever one of them does, the next must find it working."""
    with fastness.Sandbox(tier="wasm", engines=2, timeout=20) as sandbox:
        yield sandbox


@pytest.fixture
def own_box(python_guest: None) -> Iterator[fastness.Sandbox]:
    """A sandbox of the test's own, whose engines it may count and kill."""
    prove()
    with fastness.Sandbox(tier="wasm", engines=2, timeout=20) as sandbox:
        yield sandbox

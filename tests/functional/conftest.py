"""
Fixtures of the functional tests: sandboxes that many tests share, one for each tier.

A test that uses ``box`` runs in ``wasm``; the mark ``tiers`` names the tiers that it runs in, where they are others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import wasm_support

import fastness
import house


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "tiers(*names): the tiers that a test of the shared sandbox runs in")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that is marked so once for each of its tiers."""
    marks = [mark for mark in metafunc.definition.iter_markers("tiers") if mark.args]
    # The nearest mark counts: a test's own before its module's.
    if marks and marks[0].args != ("wasm",) and "tier" in metafunc.fixturenames:
        metafunc.parametrize("tier", marks[0].args, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what there is not: JavaScript in a native tier."""
    items[:] = [item for item in items if not _is_foreign(getattr(getattr(item, "callspec", None), "params", {}))]


def _is_foreign(params: dict[str, object]) -> bool:
    return params.get("runtime") == "javascript" and params.get("tier", "wasm") != "wasm"


@pytest.fixture
def tier(request: pytest.FixtureRequest) -> str:
    """The tier that the test runs in."""
    return str(getattr(request, "param", "wasm"))


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
def boxes() -> Iterator[Callable[[str], fastness.Sandbox]]:
    """Sandboxes by tier, each made when it is first asked for."""
    made: dict[str, fastness.Sandbox] = {}

    def find(tier: str) -> fastness.Sandbox:
        if tier not in made:
            if tier == "wasm":
                wasm_support.require_python_guest()
                prove()
            else:
                house.require(f"{tier} tier")
            options = {"engines": 2} if tier == "wasm" else {}
            made[tier] = fastness.Sandbox(tier=tier, timeout=20, **options)
        return made[tier]

    yield find
    for sandbox in made.values():
        sandbox.close()


@pytest.fixture
def box(tier: str, boxes: Callable[[str], fastness.Sandbox]) -> fastness.Sandbox:
    """A sandbox that many tests share: whatever one of them does, the next must find it working."""
    return boxes(tier)


@pytest.fixture
def own_box(python_guest: None) -> Iterator[fastness.Sandbox]:
    """A sandbox of the test's own, whose engines it may count and kill."""
    prove()
    with fastness.Sandbox(tier="wasm", engines=2, timeout=20) as sandbox:
        yield sandbox

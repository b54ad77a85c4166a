"""What tests of the JavaScript guest share: a sandbox, and what a result should be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fastness
import house
from fastness.runs import OutcomeKind, RunResult


@pytest.fixture(scope="module")
def box() -> Iterator[fastness.Sandbox]:
    """A sandbox for JavaScript with one engine, so that each run meets what the run before it left."""
    house.require("javascript guest")
    with fastness.Sandbox(tier="wasm", runtime="javascript", engines=1, timeout=20) as sandbox:
        yield sandbox


def ok(result: RunResult) -> RunResult:
    """The result, which must be ok."""
    assert result.outcome.kind is OutcomeKind.OK, (result.outcome, result.stderr)
    return result


def failed(result: RunResult) -> str:
    """The detail of a result, which must be an error of the program's own."""
    assert result.outcome.kind is OutcomeKind.GUEST_ERROR, result.outcome
    return result.outcome.detail

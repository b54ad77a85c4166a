"""What callers of the API are told of mistakes and of outcomes, in the words that they wrote themselves."""

from __future__ import annotations

from typing import Any

import pytest

import fastness
from fastness import Outcome, OutcomeKind, RunResult, Usage
from fastness.limits import in_units, parse_size
from fastness.sync import Sandbox


def told(*code: str, tier: str = "wasm", **options: Any) -> str:
    """The message of a call that is refused."""
    with Sandbox(tier=tier) as box, pytest.raises(fastness.ConfigurationError) as caught:
        box.run(*code, **options)
    return str(caught.value)


def test_nothing_to_run() -> None:
    assert told().endswith("exactly one of code, entry, module and command")


def test_a_command_in_a_tier_without_commands() -> None:
    """Said before the tier is looked at, let alone built."""
    for tier in ("wasm", "confined", "worker"):
        assert told(command=["ls"], tier=tier).endswith(
            f"'{tier}'; allowed: isolated or container; commands need one of these tiers"
        )


def test_sizes_are_told_as_sizes() -> None:
    assert told("1", memory="100G").endswith("allowed: 1M to 64G")
    assert told("1", limits={"file_bytes": 1 << 40}).endswith("allowed: 0 to 4294967296 (0 to 4G)")
    assert told("1", limits={"files": -1}).endswith("allowed: 0 to 1000000")
    assert told("1", limits={"wall_s": -1.0}).endswith("allowed: 0.001 to 86400.0 seconds")


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1 << 20, 3 << 20, 1 << 30, (1 << 30) + 1, 1 << 40])
def test_a_size_in_units_is_read_as_itself(size: int) -> None:
    assert parse_size(in_units(size)) == size


def test_packages_where_there_are_none() -> None:
    from fastness.backends.wasm import _check
    from fastness.runs import RunRequest

    with pytest.raises(fastness.ConfigurationError, match="worker, confined and isolated"):
        _check(RunRequest(code="1", packages=("/usr/lib",)))
    _check(RunRequest(code="1", packages=()))


def test_a_closed_sandbox() -> None:
    box = Sandbox(tier="isolated")
    box.close()
    with pytest.raises(fastness.ConfigurationError, match="sandbox is not accepted: 'closed'"):
        box.run("1")


def test_out_of_time() -> None:
    """How long it was, and what gives it more; a deadline is told as what it is."""
    late = RunResult(outcome=Outcome(OutcomeKind.TIMEOUT), usage=Usage(wall_s=2.004))
    with pytest.raises(fastness.RunTimeout, match=r"as timeout after 2 s. Fix: give it more with timeout=SECONDS"):
        late.raise_for_outcome()
    with pytest.raises(fastness.RunTimeout) as caught:
        RunResult(outcome=Outcome(OutcomeKind.TIMEOUT, "the deadline of 3 s passed")).raise_for_outcome()
    assert str(caught.value) == "the run ended as timeout: the deadline of 3 s passed"


@pytest.mark.parametrize(
    ("kind", "detail", "limit", "used"),
    [
        (OutcomeKind.MEMORY, "MemoryError", "memory", 7),
        (OutcomeKind.CPU, "", "cpu_s", 1.5),
        (OutcomeKind.OUTPUT_LIMIT, "", "output_total_bytes", 5),
        (OutcomeKind.DISK, "exit status 1; it met its limit of 4 files and folders (files)", "files", 4),
        (OutcomeKind.DISK, "exit status 1; its files met their limit of 1M (file_bytes)", "file_bytes", 9),
        (OutcomeKind.DISK, "OSError: [Errno 28] No space left on device", "disk", None),
        (OutcomeKind.CALL_LIMIT, "", "calls", 6),
    ],
)
def test_which_limit_and_how_much(kind: OutcomeKind, detail: str, limit: str, used: object) -> None:
    """The field of Limits and a figure in its unit; never a sentence."""
    usage = Usage(memory=7, cpu_s=1.5, stdout_bytes=2, stderr_bytes=3, files=4, file_bytes=9, calls=6)
    with pytest.raises(fastness.LimitExceeded) as caught:
        RunResult(outcome=Outcome(kind, detail), usage=usage).raise_for_outcome()
    assert (caught.value.limit, caught.value.used) == (limit, used)

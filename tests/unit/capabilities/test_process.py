"""The capability ``process``: what is handed to who runs programs, and what is refused before."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness.capabilities.process import SPEC, Ended, Process, ProcessScope, Wanted
from fastness.capability import CallContext
from fastness.errors import AdapterError, Denied, QuotaExceeded, TierUnavailable
from fastness.runs import DenialCode


class Boxes:
    """Who runs programs, in name."""

    def __init__(self, ended: Any = None) -> None:
        self.wanted: list[Wanted] = []
        self.ended = ended or Ended(outcome="ok", exit_code=0, stdout=b"out", stderr=b"", files={"a": b"1"})

    async def run(self, wanted: Wanted) -> Ended:
        self.wanted.append(wanted)
        if isinstance(self.ended, Exception):
            raise self.ended
        return self.ended


def context(scope: ProcessScope | None = None, **fields: Any) -> CallContext:
    given = {"plugin": "p", "owner": "o", "run": "r", "deadline": time.monotonic() + 60, "spent": {}}
    return CallContext(scope=scope or ProcessScope(runs=2), **{**given, **fields})


def ask(boxes: Boxes, of: CallContext | None = None, **arguments: Any) -> Any:
    operation = SPEC.operation("run")
    assert operation is not None
    decoded = msgspec.convert(arguments, operation.arguments, strict=True, builtin_types=(bytes,))
    return asyncio.run(Process(boxes.run).call("run", decoded, of or context()))


def test_a_program_runs_in_a_box_of_the_granted_tier() -> None:
    boxes = Boxes()
    of = context(ProcessScope(runs=1, seconds=5, memory=64 << 20))
    found = ask(boxes, of, argv=["sort", "a"], files={"a": b"2", "b": "x"}, timeout=100.0)
    assert found == {"outcome": "ok", "exit_code": 0, "stdout": b"out", "stderr": b"", "files": {"a": b"1"}}
    (wanted,) = boxes.wanted
    assert (wanted.argv, wanted.files, wanted.tier, wanted.seconds, wanted.memory) == (
        ("sort", "a"),
        {"a": b"2", "b": b"x"},
        "isolated",
        5.0,
        64 << 20,
    )
    assert (of.bytes_out, of.bytes_in) == (2 + len("sorta"), 4)


def test_the_time_of_the_run_bounds_it() -> None:
    boxes = Boxes()
    ask(boxes, context(deadline=time.monotonic() + 1), argv=["a"])
    assert boxes.wanted[0].seconds <= 1


def test_no_more_programs_than_granted_are_run_in_a_run() -> None:
    boxes, spent = Boxes(), dict[str, int]()
    for _ in range(2):
        ask(boxes, context(spent=spent), argv=["a"])
    with pytest.raises(QuotaExceeded, match="2 programs"):
        ask(boxes, context(spent=spent), argv=["a"])
    assert len(boxes.wanted) == 2


def test_one_that_failed_was_one() -> None:
    boxes, spent = Boxes(TierUnavailable("isolated", reason="/a/path of the host")), dict[str, int]()
    of = context(ProcessScope(runs=1), spent=spent)
    with pytest.raises(AdapterError, match=r"^the program could not be run \(TierUnavailable\)$"):
        ask(boxes, of, argv=["a"])
    with pytest.raises(QuotaExceeded):
        ask(boxes, of, argv=["a"])


def test_the_scope_of_all_defaults_runs_nothing() -> None:
    boxes = Boxes()
    with pytest.raises(Denied) as caught:
        ask(boxes, context(ProcessScope()), argv=["a"])
    assert caught.value.code is DenialCode.NOT_GRANTED
    assert boxes.wanted == []


@pytest.mark.parametrize(
    "arguments",
    [
        {}, {"argv": []}, {"argv": "ls"}, {"argv": [1]}, {"argv": ["a"], "shell": True}, {"argv": ["a"], "timeout": 0},
        {"argv": ["a"], "files": {"a": 1}}, {"argv": ["a"], "files": {"": b""}}, {"argv": ["a"], "tier": "worker"},
        {"argv": ["a"] * 1001}, {"argv": ["a"], "timeout": float("nan")},
    ],
)  # fmt: skip
def test_arguments_of_another_shape(arguments: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        ask(Boxes(), **arguments)


def test_too_much_in_and_out() -> None:
    boxes = Boxes()
    with pytest.raises(Denied) as caught:
        ask(boxes, argv=["a"], files={"a": b"x" * (5 << 20)})
    assert caught.value.code is DenialCode.TOO_LARGE
    assert boxes.wanted == []
    large = Ended(outcome="ok", exit_code=0, stdout=b"x" * (5 << 20), stderr=b"", files={})
    with pytest.raises(AdapterError, match="more than 4 MiB"):
        ask(Boxes(large), argv=["a"])


def test_the_record_names_the_program_alone() -> None:
    operation = SPEC.operation("run")
    assert operation is not None
    assert operation.leaves
    given = msgspec.convert({"argv": ["curl", "--user", "name:password"]}, operation.arguments)
    assert operation.target(given) == "curl"


scopes = st.builds(
    ProcessScope,
    runs=st.integers(0, 5),
    seconds=st.floats(1, 100),
    memory=st.integers(1 << 20, 1 << 30),
    tier=st.sampled_from(["isolated", "container"]),
)


@given(scopes, scopes)
def test_what_is_met_is_within_both(asked: ProcessScope, allowed: ProcessScope) -> None:
    met = SPEC.meet(asked, allowed)
    if met is None:
        assert not asked.runs or not allowed.runs or asked.tier != allowed.tier
        return
    assert SPEC.exceeds(met, asked) == SPEC.exceeds(met, allowed) == []
    assert SPEC.meet(met, allowed) == met
    assert SPEC.meet(allowed, asked) == met
    assert bool(SPEC.exceeds(asked, allowed)) is (met != asked)

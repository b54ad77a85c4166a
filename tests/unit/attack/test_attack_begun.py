"""An attack whose program fell over itself was not tried, and is not held."""

from __future__ import annotations

from typing import Any

import pytest

from fastness.attack import runner
from fastness.attack.arena import Arena
from fastness.attack.begun import fell
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Outcome, Verdict
from fastness.runs import Outcome as RunOutcome
from fastness.runs import OutcomeKind, RunResult
from fastness.tier import Guarantee

_TRACEBACK = b"Traceback (most recent call last):\n  File ...\nNameError: name 'x' is not defined\n"


def ended(detail: str, **more: Any) -> RunResult:
    kind = OutcomeKind.GUEST_ERROR if detail else OutcomeKind.OK
    return RunResult(outcome=RunOutcome(kind, detail), layers={"FS_CONFINED": "mountns"}, **more)


class _Box:
    """Answers each run with the next of these results."""

    def __init__(self, *results: RunResult) -> None:
        self._left = list(results)

    def run(self, *_: Any, **__: Any) -> RunResult:
        return self._left.pop(0)


def judged(layer: Layer, *results: RunResult) -> Outcome:
    def attempt(arena: Arena) -> Effect:
        found = [arena.run("") for _ in results]
        return Effect(False, "nothing happened", found[-1])

    attack = Attack(
        id="family.name",
        claim=Claim(Guarantee.FS_CONFINED, "Nothing happens."),
        tiers={"isolated": Expect(layer)},
        attack=attempt,
        control=lambda arena: Effect(True, "it happened"),
    )
    return next(runner.run([attack], "isolated", _Box(*results)))  # type: ignore[arg-type]  # all that it uses of one


@pytest.mark.parametrize(
    "result",
    [
        ended("NameError: name 'x' is not defined"),
        ended("SyntaxError: invalid syntax"),
        ended("ModuleNotFoundError: No module named 'ctypes'"),
        ended("AttributeError: module 'os' has no attribute 'setxattr'"),
        ended("exit status 1", runtime="command", exit_code=1, stderr_bytes=_TRACEBACK),
        ended("exit status 127", runtime="command", exit_code=127),
    ],
)
def test_what_fell_over_itself_is_not_held(result: RunResult) -> None:
    """Whichever of its programs it was."""
    for results in ((result,), (result, ended(""))):
        outcome = judged(Layer.NAMESPACE, *results)
        assert outcome.verdict is Verdict.UNEXPECTED
        assert "nothing was tried" in outcome.detail


@pytest.mark.parametrize("detail", ["", "FileNotFoundError: [Errno 2]", "PermissionError: [Errno 13]", "exit status 1"])
def test_what_was_refused_is_held(detail: str) -> None:
    """An error of the system is what a wall answers."""
    assert judged(Layer.NAMESPACE, ended(detail)).verdict is Verdict.HELD


def test_what_is_absent_may_be_missed() -> None:
    """Where an attack is said to be stopped by that; a program that is wrong in itself shows nothing there either."""
    missing = ended("ModuleNotFoundError: No module named '_socket'")
    assert not fell([missing], Expect(Layer.ABSENT))
    assert fell([missing], Expect(Layer.FRESH))
    assert fell([ended("NameError: name 'x' is not defined")], Expect(Layer.ABSENT))

"""An attack whose program fell over itself was not tried, and is not held."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastness.attack import asking, brokering, corpus, hosting, lives, runner, schedules
from fastness.attack.arena import Arena
from fastness.attack.begun import fell
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Outcome, Verdict
from fastness.plugins.isolated import IsolatedPlugin
from fastness.runs import Outcome as RunOutcome
from fastness.runs import OutcomeKind, RunResult, Usage
from fastness.tier import Guarantee
from fastness.waiting import drive

_TRACEBACK = b"Traceback (most recent call last):\n  File ...\nNameError: name 'x' is not defined\n"


def ended(detail: str, **more: Any) -> RunResult:
    kind = OutcomeKind.GUEST_ERROR if detail else OutcomeKind.OK
    more = {"usage": Usage(calls=1), "layers": {"FS_CONFINED": "mountns"}, **more}
    return RunResult(outcome=RunOutcome(kind, detail), **more)


class _Box:
    """Answers each run, by whatever way, with the next of these results."""

    def __init__(self, *results: RunResult) -> None:
        self._left = list(results)

    def run(self, *_: Any, **__: Any) -> RunResult:
        return self._left.pop(0)

    @contextlib.contextmanager
    def session(self, **_: Any) -> Iterator[Any]:
        yield SimpleNamespace(execute=self.run)

    def _sandbox(self) -> Any:
        async def run(*_: Any, **__: Any) -> RunResult:
            return self.run()

        return SimpleNamespace(_request=lambda *_: None, _runner=SimpleNamespace(run=run))


Way = Callable[[Arena], RunResult]


def judged(layer: Layer, *results: RunResult, way: Way = lambda arena: arena.run("")) -> Outcome:
    def attempt(arena: Arena) -> Effect:
        found = [way(arena) for _ in results]
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


def _in_a_session(arena: Arena) -> RunResult:
    with arena.session() as session:
        return session.execute("")


def _by_the_broker(arena: Arena) -> RunResult:
    with brokering.Broker(arena) as broker:
        return broker.run("")


def _by_hand(arena: Arena) -> RunResult:
    return asking.ask(arena, "")[0]


def _by_a_host_of_plugins(arena: Arena) -> RunResult:
    return drive(hosting._Runner(arena).run())


def _when_it_is_due(arena: Arena) -> RunResult:
    result = arena.box.run("")
    timed = schedules.Timed(arena)
    with timed:
        timed._told(SimpleNamespace(result=result))  # type: ignore[arg-type]  # all that it looks at
    return result


@pytest.mark.parametrize("way", [_in_a_session, _by_the_broker, _by_hand, _by_a_host_of_plugins, _when_it_is_due])
def test_it_is_so_whatever_way_a_program_is_run(way: Way) -> None:
    outcome = judged(Layer.NAMESPACE, ended("NameError: name 'x' is not defined"), way=way)
    assert outcome.verdict is Verdict.UNEXPECTED
    assert "nothing was tried" in outcome.detail
    assert judged(Layer.NAMESPACE, ended("PermissionError: [Errno 13]"), way=way).verdict is Verdict.HELD


def test_who_asks_a_broker_for_nothing_has_tried_nothing() -> None:
    """Also where what it wrote was caught by the program itself."""
    outcome = judged(Layer.HOST, ended("", usage=Usage()), way=_by_the_broker)
    assert outcome.verdict is Verdict.UNEXPECTED
    assert "no call came to the broker" in outcome.detail


@pytest.mark.parametrize("live", [lambda arena, path: lives.life(arena, path.read_text()), hosting.isolated])
def test_it_is_so_of_plugins_that_live_with_their_host(
    live: Callable[[Arena, Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = {"setup": ended("NameError: name 'x' is not defined")}
    plugin = SimpleNamespace(manifest={"id": "attacker"}, results=results, close=lambda: None)
    monkeypatch.setattr(IsolatedPlugin, "load", lambda *_, **__: plugin)
    (tmp_path / "attacker.py").write_text("")
    with Arena("isolated", _Box()) as arena:  # type: ignore[arg-type]  # none is asked
        with live(arena, tmp_path / "attacker.py"):
            pass
        assert fell(arena.results, Expect(Layer.NAMESPACE))


@pytest.mark.parametrize(("status", "says"), [(127, b""), (1, _TRACEBACK), (1, b"sh: Permission denied"), (0, b"")])
def test_it_is_so_of_programs_that_a_guest_has_run(status: int, says: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    from fastness.capabilities.process import Ended, Wanted
    from fastness.plugins import boxes

    class Boxes:
        def check(self, tier: str) -> None:
            """It is there."""

        async def run(self, wanted: Wanted) -> Ended:
            kind = "guest_error" if status else "ok"
            return Ended(outcome=kind, exit_code=status, stdout=b"", stderr=says, files={})

        def close(self) -> None:
            """Nothing is held."""

    monkeypatch.setattr(boxes, "Boxes", Boxes)
    with Arena("isolated", _Box()) as arena:  # type: ignore[arg-type]  # none is asked
        with brokering.programs(arena) as broker:
            process: Any = broker._adapters["process"]
            drive(process._run(Wanted(argv=("x",), files={}, tier="isolated", seconds=1.0, memory=1 << 20, tenant="t")))
        assert bool(fell(arena.results, Expect(Layer.HOST))) == (status == 127 or says == _TRACEBACK)


def test_what_is_wrong_in_itself_is_not_said_to_be_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs that ask a broker go on where they are refused, and only there."""
    space: dict[str, Any] = {}
    exec(brokering.PRELUDE, space)
    with pytest.raises(NameError):
        eval("attempt(lambda: no_such_name)", space)
    eval("attempt(open, '/no/such/file')", space)
    assert capsys.readouterr().out.startswith("refused: ")


def test_what_is_missing_in_javascript_is_not_there_either() -> None:
    missing = ended("ReferenceError: 'x' is not defined", runtime="javascript")
    assert fell([missing], Expect(Layer.BROKER, "not_granted"))
    assert not fell([missing], Expect(Layer.ABSENT))


def test_no_attack_goes_round_what_takes_note_of_results() -> None:
    """It runs what it runs by its arena, or by what tells the arena of it."""
    ways = {"run", "session", "execute"}
    found = []
    for path in Path(corpus.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in ways and ast.unparse(called.value).endswith(".box"):
                found.append(f"{path.name}:{node.lineno}")
    assert found == []

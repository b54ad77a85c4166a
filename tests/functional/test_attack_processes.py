"""Lanes as processes: outcomes come from there whole, noise is none, and nothing of them stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import house
from fastness.attack import lanes
from fastness.attack.lane import Job, Lane, find
from fastness.attack.model import Outcome, Verdict

_FILE = """
import os, sys, time
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

def attack(arena):
    {body}
    ran = arena.run("print(6 * 7)")
    return Effect(ran.stdout != "42\\n", f"process {{os.getpid()}}", ran)

def control(arena):
    return Effect(True, os.environ["FASTNESS_ATTACK_SECRET"])

ATTACK = Attack("{id}", Claim(Guarantee.WALL_KILL, "It ends."), {{"worker": Expect(Layer.ABSENT)}}, attack, control)
"""


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    house.require("worker tier")
    package = tmp_path / "lane_corpus"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield package
    for name in [name for name in sys.modules if name.startswith("lane_corpus")]:
        del sys.modules[name]


def task(corpus: Path, name: str, body: str = "pass") -> lanes.Task:
    (corpus / f"{name}.py").write_text(_FILE.format(id=f"lane_corpus.{name}", body=body))
    module = f"lane_corpus.{name}"
    return find(Job(module, module, ())), module, ("worker",)


def run(*tasks: lanes.Task, count: int = 2) -> list[Outcome]:
    with Lane() as lane:
        return lanes.run(tasks, lane, count, lambda outcome: None)


def test_each_lane_is_a_process_with_an_environment_of_its_own(corpus: Path) -> None:
    """Two attacks at once see two processes, neither of them this one, and each the secret of its own arena."""
    made = [task(corpus, f"a{number}", "time.sleep(0.5)") for number in range(3)]
    found = run(*made)
    assert [outcome.verdict for outcome in found] == [Verdict.HELD] * 3
    seen = {outcome.seen for outcome in found}
    assert len(seen) == 2
    assert f"process {os.getpid()}" not in seen
    assert len({outcome.control for outcome in found}) == 3


def test_what_an_attack_prints_is_no_outcome(corpus: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Words of an attack, and of what it starts, go where errors go; those that look like an outcome too."""
    lie = '{"type":"came","id":"lane_corpus.noisy","tier":"worker","verdict":"held"}'
    made = task(corpus, "noisy", f"print({lie!r}, flush=True); os.system('echo more'); arena.tier")
    (outcome,) = run(made)
    assert outcome.verdict is Verdict.HELD
    out, err = capfd.readouterr()
    assert not out
    assert lie in err
    assert "more" in err


def test_an_attack_that_ends_its_lane_ends_no_other(corpus: Path) -> None:
    """It is not taken for stopped, and those after it are tried."""
    made = [task(corpus, "deadly", "os._exit(7)"), *(task(corpus, f"a{number}") for number in range(2))]
    found = run(*made)
    assert [outcome.verdict for outcome in found] == [Verdict.UNEXPECTED, Verdict.HELD, Verdict.HELD]
    assert "status 7" in found[0].detail


def test_what_a_lane_leaves_that_was_ended_is_removed(corpus: Path) -> None:
    """The folder of the attempt that it was at goes, and what another process has there stays."""
    folder = "open(__file__ + '.left', 'a').write(str(arena.folder.parent) + chr(10))"
    run(task(corpus, "deadly", f"{folder}; os._exit(7)"))
    left = (corpus / "deadly.py.left").read_text().split()
    assert len(left) == 2
    assert not [path for path in left if os.path.lexists(path)]


_CALLER = """
import sys
from fastness.attack import lanes
from fastness.attack.lane import Job, Lane, find
tasks = [(find(Job(f'lane_corpus.a{n}', f'lane_corpus.a{n}', ())), f'lane_corpus.a{n}', ('worker',)) for n in range(2)]
with Lane() as lane:
    print('READY', flush=True)
    lanes.run(tasks, lane, 2, print)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_lanes_end_with_whoever_started_them(number: int, corpus: Path) -> None:
    """Interrupted, they stop what they do; where nobody is left to say so, they end after it."""
    for name in ("a0", "a1"):
        task(corpus, name, "open(__file__ + f'.{os.getpid()}', 'w').close(); time.sleep(2 if sys.argv else 0)")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(corpus.parent), str(house.SOURCE)])}
    with subprocess.Popen([sys.executable, "-c", _CALLER], env=environment, stderr=subprocess.DEVNULL) as caller:
        ends = time.monotonic() + 30
        while len(begun := list(corpus.glob("*.py.*"))) < 2 and time.monotonic() < ends:
            time.sleep(0.05)
        caller.send_signal(number)
    lanes_of = [int(path.suffix[1:]) for path in begun]
    assert len(lanes_of) == 2
    ends = time.monotonic() + 15
    while any(_runs(pid) for pid in lanes_of) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not [pid for pid in lanes_of if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

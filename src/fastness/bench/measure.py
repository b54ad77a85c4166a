"""
The measurements themselves.  Each takes seconds, cleans up after itself and returns rows.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fastness.bench import broker, container, kernels, native, native_scale
from fastness.bench.ordinary import both
from fastness.bench.rate import rate
from fastness.bench.rows import Row, geometric_mean, interleaved, median, percentile, times
from fastness.sync import Sandbox

_BARE = [sys.executable, "-I", "-S", "-c", "print(1)"]
_NUMPY = [sys.executable, "-c", "import numpy; print(numpy.arange(10).sum())"]
_PRELOAD = ("numpy", "pandas", "matplotlib")


def _process(command: list[str]) -> object:
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def latency(quick: bool) -> Iterator[Row]:
    """One run through the public API with a warm engine, beside bare processes."""
    rounds = 4 if quick else 12
    with Sandbox(preload=_PRELOAD) as box, Sandbox(preload=_PRELOAD, fresh=True) as strict:
        actions = {
            "bare": lambda: _process(_BARE),
            "python": lambda: box.run("print(1)"),
            "fresh": lambda: strict.run("print(1)"),
            "numpy": lambda: box.run("import numpy; print(numpy.arange(10).sum())"),
            "javascript": lambda: box.run("console.log(1)", runtime="javascript"),
        }
        found = interleaved(actions, rounds, 10 if quick else 25)
        bare = median(found["bare"])
        yield Row(name="bare python3 -I -S", value=bare, p99=percentile(found["bare"], 0.99))
        for name, label, promise in (
            ("python", "print(1), Python", 0.15),
            ("fresh", "print(1), Python, fresh=True", 0.25),
            ("javascript", "console.log(1), JavaScript", 0.15),
        ):
            value = median(found[name])
            yield Row(
                name=label, value=value, p99=percentile(found[name], 0.99), against="bare python3 -I -S",
                ratio=value / bare, judged=value / bare, promise=promise,
            )  # fmt: skip
        value = median(found["numpy"])
        row = Row(name="numpy.arange(10).sum()", value=value, p99=percentile(found["numpy"], 0.99), promise=0.015)
        if importlib.util.find_spec("numpy") is None:
            yield replace(row, note="no numpy outside to compare with: pip install numpy")
        else:
            against = median(times(lambda: _process(_NUMPY), 5 if quick else 12, warm=2))
            ratio = value / against
            yield replace(row, against=f"python3 -c 'import numpy' ({against:.0f} ms)", ratio=ratio, judged=ratio)


_SCIENCE = {"preload": ["numpy", "pandas", "matplotlib"]}


def throughput(quick: bool) -> Iterator[Row]:
    """Runs a second, caller and engine together on one core, and the same on two."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    seconds = 1.0 if quick else 3.0
    tries = 1 if quick else 3
    one = median([rate(_SCIENCE, cores[:1], seconds) for _ in range(tries)])
    yield Row(name="runs a second on one core", value=one, unit="/s", judged=one, promise=800, at_least=True)
    if len(cores) < 2:
        yield Row(name="runs a second on two cores", unit="/s", note="this machine has one core")
        return
    two = median([rate(_SCIENCE, cores, seconds) for _ in range(tries)])
    yield Row(
        name="runs a second on two cores", value=two, unit="/s", against="one core", ratio=two / one,
        judged=two / one, promise=1.7, at_least=True,
    )  # fmt: skip


def engines(quick: bool) -> Iterator[Row]:
    """How long an engine takes to start, and whether it grows."""
    started = []
    for _ in range(4 if quick else 12):
        with Sandbox(preload=_PRELOAD) as box:
            box.run("1")
            started += [engine.start_ms for engine in _engines(box)]
    value = median(started)
    yield Row(name="engine start, warm cache", value=value, p99=max(started), judged=value, promise=60)
    with Sandbox(preload=_PRELOAD) as box:
        for _ in range(200):
            box.run("print(1)")
        before = _resident(box)
        for number in range(1000):
            box.run("x = bytearray(3 << 20)" if number % 10 == 0 else "1 / 0" if number % 51 == 0 else "print(1)")
        growth = (_resident(box) - before) / 1024
    yield Row(name="engine memory after 1,000 more runs", value=growth, unit="MiB", judged=growth, promise=4)


def _engines(box: Sandbox) -> list[Any]:
    backend: Any = box._inner._runner._backends["wasm"]
    return [engine for _, pool in backend._pools.values() for engine in pool.waiting]


def _resident(box: Sandbox) -> float:
    """Anonymous memory of the box's engines in KiB."""
    total = 0
    for engine in _engines(box):
        status = Path(f"/proc/{engine.pid}/status").read_text("ascii")
        total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith(("RssAnon", "RssShmem")))
    return float(total)


def speed(quick: bool) -> Iterator[Row]:
    """CPU-bound Python inside, beside the interpreter that runs this."""
    with Sandbox(preload=_PRELOAD, timeout=120) as box:
        ratios = []
        inside = box.run(kernels.SOURCE + "\nresult").raise_for_outcome().value
        outside = _native(kernels.SOURCE)
        for name in kernels.NAMES:
            ratio = inside[name] / outside[name]
            ratios.append(ratio)
            yield Row(name=f"kernel {name}", value=inside[name], against=f"native {outside[name]:.0f} ms", ratio=ratio)
        mean = geometric_mean(ratios)
        yield Row(name="kernels, geometric mean", unit="", ratio=mean, against="native", judged=mean, promise=2.8)
        blas = box.run(kernels.BLAS + "\nresult").raise_for_outcome().value["matmul"]
    if importlib.util.find_spec("numpy") is None:
        yield Row(name="matrix product 400x400 (BLAS)", value=blas, note="no numpy outside to compare with")
        return
    native = _native(kernels.BLAS)["matmul"]
    yield Row(
        name="matrix product 400x400 (BLAS)", value=blas, against=f"native, one thread {native:.1f} ms",
        ratio=blas / native, note="no promise: BLAS has no assembler kernels inside",
    )  # fmt: skip


def _native(source: str) -> dict[str, float]:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", source + "\nimport json; print(json.dumps(result))"],
        stdout=subprocess.PIPE, check=True, env=environment,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout)
    return found


def endings(quick: bool) -> Iterator[Row]:
    """How soon a guest is gone when its time is up, or when its caller says so."""
    count = 20 if quick else 100
    with Sandbox() as box:
        # The first run would count the start of an engine.
        box.run("while True: pass", timeout=0.05)
        over = []
        for _ in range(count):
            began = time.perf_counter()
            box.run("while True: pass", timeout=0.05)
            over.append((time.perf_counter() - began) * 1e3 - 50)
        p99 = percentile(over, 0.99)
        yield Row(name="endless loop past its deadline", value=median(over), p99=p99, judged=p99, promise=20)
        over = []
        for _ in range(max(3, count // 10)):
            began = time.perf_counter()
            box.run("a = bytearray(100 << 20)\nwhile True: b = bytes(a)", timeout=0.4)
            over.append((time.perf_counter() - began) * 1e3 - 400)
        p99 = percentile(over, 0.99)
        yield Row(name="the same inside one huge copy", value=median(over), p99=p99, judged=p99, promise=40)
        taken = [_cancel(box) for _ in range(count // 2)]
        p99 = percentile(taken, 0.99)
        yield Row(name="cancel until the run is over", value=median(taken), p99=p99, judged=median(taken), promise=5)


def _cancel(box: Sandbox) -> float:
    """Milliseconds from asking a running guest to end until its caller has the result."""
    asked = [0.0]
    running = threading.Event()

    def ask() -> None:
        running.wait(10)
        time.sleep(0.01)
        asked[0] = time.perf_counter()
        box.cancel()

    asker = threading.Thread(target=ask)
    asker.start()
    box.run("print(1)\nwhile True: pass", timeout=5, on_event=lambda name, data: running.set())
    done = time.perf_counter()
    asker.join()
    return (done - asked[0]) * 1e3


def starting(quick: bool) -> Iterator[Row]:
    """What a program pays that imports Fastness, and a person who types one command."""
    count = 6 if quick else 20
    found = interleaved(
        {
            "bare": lambda: _process([sys.executable, "-c", "pass"]),
            "import": lambda: _process([sys.executable, "-c", "import fastness"]),
        },
        count,
        1,
    )
    extra = median(found["import"]) - median(found["bare"])
    yield Row(name="import fastness, above a bare interpreter", value=extra, judged=extra, promise=60)
    cold = times(lambda: _process([sys.executable, "-m", "fastness.cli", "run", "-c", "print(1)"]), 4 if quick else 8)
    value = median(cold)
    yield Row(name="fastness run -c 'print(1)', cold", value=value, p99=max(cold), judged=value, promise=800)


PARTS = {
    "latency": latency,
    "throughput": throughput,
    "engines": engines,
    "kernels": speed,
    "endings": endings,
    "starting": starting,
    "native": both(native.latency, "numpy", "pandas"),
    "rivals": native.rivals,
    "rate": both(native_scale.throughput),
    "idle": both(native_scale.idle, "numpy", "pandas"),
    "many": both(native_scale.many),
    "growth": both(native_scale.thousand),
    "commands": both(native_scale.commands),
    "container": container.container,
    "broker": broker.broker,
    "plugins": broker.plugins,
}

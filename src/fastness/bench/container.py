"""
Runs in the tier ``container`` beside the engine's own command with the same flags, in turn, in the same minutes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fastness._container import image, profile
from fastness._container.faults import EngineFault
from fastness.bench.native import missing
from fastness.bench.rows import Row, percentile
from fastness.sync import Sandbox

if TYPE_CHECKING:
    from fastness._container.probe import Engine

#: What ``SPECIFICATION.md`` promises: of the engine's own command, milliseconds, and runs that are right.
COLD = 0.7
POOLED = {"docker": 0.2, "podman": 0.05}
FOUR_MS = 1500
RUNS = 20
_CODE = "print(1)"
_COMMAND_S = 60.0
#: Seconds in which what is removed behind a run is gone, and does not slow the next measurement.
_SETTLE_S = 0.3


def container(quick: bool) -> Iterator[Row]:
    """One run made for itself, one from the pool, and many at once."""
    if reason := missing("container"):
        yield Row(name="container", note=reason)
        return
    from fastness._container.probe import reach

    engine = reach(os.environ)
    name = f"container on {engine.kind}"
    own = _command(engine)
    reason = _works(own)
    count = 5 if quick else 15
    cold: list[float] = []
    theirs: list[float] = []
    pooled: list[float] = []
    with Sandbox(tier="container", pool=0) as box:
        box.run(_CODE)
        for _ in range(count):
            time.sleep(_SETTLE_S)
            cold.append(_took(lambda: box.run(_CODE)))
            if not reason:
                time.sleep(_SETTLE_S)
                theirs.append(_took(own))
        filled = [_took(lambda: box.warm(4))]
        pooled += [_took(lambda: box.run(_CODE)) for _ in range(4)]
        while len(pooled) < count:
            time.sleep(_SETTLE_S)
            filled.append(_took(lambda: box.warm(4)))
            pooled += [_took(lambda: box.run(_CODE)) for _ in range(4)]
    against = f"{engine.kind} run --rm with the same flags"
    base = statistics.median(theirs) if theirs else None
    yield Row(name=f"{name}: {against}", value=base, p99=percentile(theirs, 0.99) if theirs else None, note=reason)
    for label, values, most in (("cold", cold, COLD), ("from the pool", pooled, POOLED[engine.kind])):
        middle = statistics.median(values)
        ratio = middle / base if base else None
        yield Row(
            name=f"{name}, {label}", value=middle, p99=percentile(values, 0.99), ratio=ratio, judged=ratio,
            promise=most, against=against if base else "", note=reason,
        )  # fmt: skip
    middle = statistics.median(filled)
    yield Row(name=f"{name}, a pool of four ready", value=middle, p99=max(filled), judged=middle, promise=FOUR_MS)
    right, took = _many()
    yield Row(
        name=f"{name}, {RUNS} runs, four at a time, all right", value=right, unit="", judged=right, promise=RUNS,
        at_least=True, against=f"each {took / RUNS:.0f} ms",
    )  # fmt: skip


def _many() -> tuple[int, float]:
    """How many of twenty runs, four at a time and each in a container of its own, say what they should; ms in all."""
    found: list[object] = []
    with Sandbox(tier="container", pool=0) as box:
        box.run(_CODE)

        def work(first: int) -> None:
            found.extend((number, box.run(f"{number} * 2").value) for number in range(first, RUNS, 4))

        threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
        began = time.perf_counter()
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        took = (time.perf_counter() - began) * 1e3
    return sum(1 for number in range(RUNS) if (number, number * 2) in found), took


def _command(engine: Engine) -> Callable[[], object]:
    """The engine's own command, with the flags that the tier asks for."""
    tmpfs = "rw,noexec,nosuid,nodev"
    arguments = [
        engine.kind, "run", "--rm", "--pull", "never", "--network", "none", "--cap-drop=ALL",
        "--security-opt=no-new-privileges", "--security-opt", f"seccomp={profile.path()}", "--read-only",
        "--tmpfs", f"/tmp:{tmpfs},size=64m,mode=1777", "--tmpfs", f"/work:{tmpfs},size=256m,mode=1777",  # noqa: S108  # inside
        "--tmpfs", f"/run:{tmpfs},size=64k", "--tmpfs", f"/var/tmp:{tmpfs},size=64k",  # noqa: S108  # inside
        "--ipc", "private", "--shm-size", "16m", "--memory", "900m", "--memory-swap", "900m", "--pids-limit", "65",
        "--cpus", "1", "--ulimit", "nofile=256:256", "--ulimit", "nproc=4096:4096", "--ulimit", "core=0:0",
        "--user", "65532:65532", "--workdir", "/work", "--log-driver", "none",
        os.environ.get("FASTNESS_IMAGE") or image.DEFAULT, "python3", "-c", _CODE,
    ]  # fmt: skip
    environment = {**os.environ, "DOCKER_HOST": str(engine.endpoint)}

    def run() -> object:
        done = subprocess.run(
            arguments, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_S, check=False
        )
        if done.returncode or done.stdout.strip() != b"1":
            words = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"]
            raise EngineFault("broken", words[-1][:200])
        return done

    return run


def _works(action: Callable[[], object]) -> str:
    """Why the engine's own command cannot be compared with; empty where it can."""
    try:
        action()
    except FileNotFoundError:
        return "the engine's own command is not installed, so there is nothing to compare with"
    except (OSError, subprocess.SubprocessError, EngineFault) as error:
        return f"the engine's own command failed: {error}"[:300]
    return ""


def _took(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1e3

"""
Many runs, many callers, few engines: nothing grows, nothing is mixed up, and no more engines run than may.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from direct_engine import idle_engines
from wasm_support import engines_of, eventually, status

import fastness
from fastness import OutcomeKind


def own_kib(pid: int) -> int:
    """KiB that a process has for itself; pages of the shared files that it maps come and go with the system's cache."""
    return int(status(pid)["RssAnon"].split()[0])


def measures(pid: int) -> tuple[int, int, int]:
    """KiB of its own, mappings and open descriptors of a process."""
    return (
        own_kib(pid),
        len(Path(f"/proc/{pid}/maps").read_text().splitlines()),
        len(os.listdir(f"/proc/{pid}/fd")),
    )


_LIGHT = (
    "print(1)",
    "import numpy; numpy.arange(1000).sum()",
    "x = [str(i) for i in range(20_000)]; len(x)",
    "open('f', 'w').write('x' * 10_000)",
    "raise ValueError",
    "import os; os.listdir('/etc')",
)


@pytest.mark.parametrize("fresh", [False, True], ids=["reset", "fresh"])
def test_a_thousand_runs(own_box: fastness.Sandbox, fresh: bool) -> None:
    """After 1,000 runs the engine's memory, mappings and descriptors, and the caller's, are where they were."""
    runs = 1000 if not fresh else 300
    for code in _LIGHT * 30:
        own_box.run(code, fresh=fresh)
    backend: Any = own_box._inner._runner._backends["wasm"]
    (pid,) = [engine.pid for _, pool in backend._pools.values() for engine in pool.waiting if engine.runs >= 180]
    gc.collect()
    before, mine = measures(pid), measures(os.getpid())
    for count in range(runs):
        own_box.run(_LIGHT[count % len(_LIGHT)], fresh=fresh)
    gc.collect()
    after, mine_after = measures(pid), measures(os.getpid())
    # Which pages happen to be private differs from one run to the next; a leak would be many times this.
    assert after[0] - before[0] < 4000, "KiB of the engine"
    assert abs(after[1] - before[1]) <= 8, "mappings of the engine"
    assert after[2] == before[2], "descriptors of the engine"
    assert mine_after[0] - mine[0] < 3000, "KiB of the caller"
    assert mine_after[2] <= mine[2], "descriptors of the caller"


def test_large_runs_give_their_memory_back(own_box: fastness.Sandbox) -> None:
    """Runs that use hundreds of megabytes leave the engine as large as a small run does."""
    own_box.run("1")
    backend: Any = own_box._inner._runner._backends["wasm"]
    (pid,) = [engine.pid for _, pool in backend._pools.values() for engine in pool.waiting if engine.runs]
    sizes = []
    for _ in range(3):
        for code in (
            "x = bytearray(300 << 20); x[::4096] = b'x' * len(x[::4096])",
            "open('big', 'wb').write(bytes(100 << 20)); import os; os.remove('big')",
            "print('x' * 1000)\nimport sys\nfor _ in range(100): sys.stdout.write('y' * 1_000_000)",
        ):
            assert own_box.run(code).ok
        own_box.run("print(1)")
        sizes.append(own_kib(pid))
    assert pid in engines_of(os.getpid())
    assert sizes[-1] < sizes[0] + 2000
    assert sizes[-1] < 100_000


@pytest.mark.parametrize("threads", [2, 16])
def test_many_threads(own_box: fastness.Sandbox, threads: int) -> None:
    """Any number of threads share a sandbox; each gets the answer to its own question, from at most two engines."""
    before = engines_of(os.getpid())
    wrong: list[Any] = []
    most = [0]

    def work(number: int) -> None:
        for step in range(15):
            try:
                result = own_box.run(
                    "import sys; print(sys.argv[1]); open('f', 'w').write(sys.argv[1]); int(sys.stdin.read())",
                    args=[f"{number}.{step}"], stdin=str(number * 1000 + step), tenant=f"t{number % 3}",
                )  # fmt: skip
                right = (result.value, result.stdout, result.files["f"].read())
                if right != (number * 1000 + step, f"{number}.{step}\n", f"{number}.{step}".encode()):
                    wrong.append(result)
            except Exception as error:  # noqa: BLE001  # told by the assertion below
                wrong.append(error)

    def count() -> None:
        while not done.wait(0.02):
            most[0] = max(most[0], len(engines_of(os.getpid()) - before))

    done = threading.Event()
    counter = threading.Thread(target=count)
    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in (counter, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    done.set()
    counter.join()
    assert wrong == []
    # The two that may run, one that a proof of the tier may need beside them, and one that is just ending.
    assert 1 <= most[0] <= 4


def test_bad_neighbours(own_box: fastness.Sandbox) -> None:
    """Runs that loop, crash, flood and exit beside good ones change nothing about the good ones."""
    bad = (
        ("while True: pass", {"timeout": 0.1}),
        ("import os; os._exit(1)", {}),
        ("x = bytearray(1 << 30)", {"memory": "32M"}),
        ("t = ()\nfor _ in range(200_000): t = (t,)\nhash(t)", {}),
        ("while True: print('x' * 1000)", {"limits": {"output_total_bytes": 100_000}}),
    )
    wrong: list[Any] = []
    done = threading.Event()

    def spoil() -> None:
        at = 0
        while not done.is_set():
            code, options = bad[at % len(bad)]
            result = own_box.run(code, **options)
            if result.outcome.kind in (OutcomeKind.OK, OutcomeKind.PROTOCOL):
                wrong.append(result)
            at += 1

    spoilers = [threading.Thread(target=spoil) for _ in range(2)]
    for thread in spoilers:
        thread.start()
    try:
        for number in range(60):
            result = own_box.run(f"print({number}); {number} * 2")
            if (result.value, result.stdout) != (number * 2, f"{number}\n"):
                wrong.append(result)
    finally:
        done.set()
        for thread in spoilers:
            thread.join()
    assert wrong == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_async_under_load(python_guest: None, backend: str) -> None:
    """A hundred runs at once on an event loop, some of them cancelled, through three engines."""
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"optional: there is no {backend} in this environment")
    before = engines_of(os.getpid())
    answers: dict[int, Any] = {}

    async def main() -> None:
        async with fastness.AsyncSandbox(engines=3) as box:

            async def one(number: int) -> None:
                if number % 10 == 9:
                    with anyio.move_on_after(0.05):
                        await box.run("while True: pass", timeout=30)
                    answers[number] = number
                else:
                    answers[number] = (await box.run(f"print({number}); {number}")).value

            async with anyio.create_task_group() as group:
                for number in range(100):
                    group.start_soon(one, number)

    anyio.run(main, backend=backend)
    assert answers == {number: number for number in range(100)}
    assert eventually(lambda: engines_of(os.getpid()) == before, 2)


def test_the_loop_is_not_blocked(python_guest: None) -> None:
    """While a guest computes, the caller's event loop goes on turning."""
    turns = 0

    async def main() -> None:
        nonlocal turns

        async def tick() -> None:
            nonlocal turns
            while True:
                await anyio.sleep(0.01)
                turns += 1

        async with fastness.AsyncSandbox(engines=1) as box, anyio.create_task_group() as group:
            await box.run("1")
            group.start_soon(tick)
            result = await box.run("while True: pass", timeout=1)
            assert result.outcome.kind is OutcomeKind.TIMEOUT
            group.cancel_scope.cancel()

    anyio.run(main)
    assert turns > 20


def test_sandboxes_beside_each_other(python_guest: None) -> None:
    """Sandboxes share nothing: closing one leaves the other's engines alone."""
    with fastness.Sandbox(engines=1) as one, fastness.Sandbox(engines=1) as two:
        one.run("1")
        two.run("1")
        two.close()
        assert one.run("2").value == 2


def test_pool_is_warm(python_guest: None) -> None:
    """``pool`` engines wait when the block is entered, and the first run uses one of them."""
    before = engines_of(os.getpid())
    with fastness.Sandbox(pool=2, engines=2) as box:
        backend: Any = box._inner._runner._backends["wasm"]
        ready = set(backend.engine_pids())
        assert len(ready) >= 2
        assert ready <= engines_of(os.getpid()) - before
        box.run("1")
        assert set(backend.engine_pids()) <= ready


def test_old_engines_are_replaced(own_box: fastness.Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its number of runs an engine makes way for a new one, between runs, unnoticed."""
    from fastness.backends import wasm

    monkeypatch.setattr(wasm, "RECYCLE_RUNS", 5)
    seen: set[int] = set()
    backend: Any = None
    for number in range(23):
        assert own_box.run(f"{number}").value == number
        backend = own_box._inner._runner._backends["wasm"]
        seen |= {engine.pid for _, pool in backend._pools.values() for engine in pool.waiting if engine.runs}
    assert len(seen) >= 4


def test_idle_engines_end(python_guest: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that nobody needs ends by itself; the next run starts another."""
    from fastness.backends import wasm

    monkeypatch.setattr(wasm, "IDLE_S", 0.5)
    with fastness.Sandbox(engines=1) as box:
        for number in range(3):
            assert box.run(f"{number}").value == number
            (engine,) = idle_engines(box)
            assert eventually(lambda engine=engine: not engine.quiet, 5), "the engine did not end"

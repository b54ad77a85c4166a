"""
A native guest from its start to its end: threads, signals, cancelling, many at once, and nothing left.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from wasm_support import eventually

import fastness
import house
from fastness import OutcomeKind, runtime
from fastness._linux import procs

pytestmark = pytest.mark.tiers("isolated", "confined")


def ours(pid: int) -> set[int]:
    """Processes below ``pid`` that belong to native tiers."""
    return {one for one in procs.descendants(pid) if "fastness._native" in house.command_of(one)}


@pytest.fixture
def own(tier: str, box: fastness.Sandbox) -> Iterator[fastness.Sandbox]:
    """A sandbox of the test's own; ``box`` has made sure that the tier holds."""
    with fastness.Sandbox(tier=tier, timeout=20) as sandbox:
        yield sandbox


# threads, exit functions, signals


def test_threads(box: fastness.Sandbox) -> None:
    """Threads that are no daemons are waited for, then exit functions run; daemons end with the guest."""
    code = (
        "import atexit, threading, time\n"
        "atexit.register(print, 'exit')\n"
        "def late(): time.sleep(0.1); print('thread')\n"
        "threading.Thread(target=late).start()\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "print('main')\n"
        "threading.active_count()"
    )
    result = box.run(code)
    assert (result.value, result.stdout) == (3, "main\nthread\nexit\n")
    assert result.usage.wall_s < 5


def test_a_thread_that_never_ends(box: fastness.Sandbox) -> None:
    """As in any program, the run goes on as long as its threads do."""
    result = box.run("import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n5", timeout=0.5)
    assert result.outcome.kind is OutcomeKind.TIMEOUT


@pytest.mark.tiers("isolated")
def test_threads_are_capped(box: fastness.Sandbox) -> None:
    """``pids`` counts threads; one too many is an error that can be caught."""
    code = (
        "import threading\n"
        "done = threading.Event(); started = 0\n"
        "try:\n"
        "    while started < 100: threading.Thread(target=done.wait, daemon=True).start(); started += 1\n"
        "except RuntimeError: pass\n"
        "done.set()\n"
        "started"
    )
    assert 5 <= box.run(code, limits={"pids": 8}).value <= 8


def test_work_in_pools_of_threads(box: fastness.Sandbox) -> None:
    """Executors and asyncio's threads work, and their errors are the run's."""
    code = "import concurrent.futures as f\nwith f.ThreadPoolExecutor(4) as pool: found = list(pool.map(abs, range(-3, 3)))\nfound"
    assert box.run(code).value == [3, 2, 1, 0, 1, 2]
    result = box.run("import asyncio\nasync def f(): await asyncio.to_thread(lambda: 1 / 0)\nasyncio.run(f())")
    assert result.outcome.detail == "ZeroDivisionError: division by zero"


def test_alarms(box: fastness.Sandbox) -> None:
    """A handler of the guest's own is called; what it raises is the run's error."""
    code = (
        "import signal, time\n"
        "def ring(*args): raise TimeoutError('rung')\n"
        "signal.signal(signal.SIGALRM, ring); signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "time.sleep(10)"
    )
    result = box.run(code)
    assert (result.outcome.kind, result.outcome.detail) == (OutcomeKind.GUEST_ERROR, "TimeoutError: rung")
    assert result.usage.wall_s < 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGALRM])
def test_signals_to_itself(number: signal.Signals, box: fastness.Sandbox, tier: str) -> None:
    """
    A guest of ``confined`` may end itself by a signal.

    One of ``isolated`` is the first process of its namespace, to which the kernel passes none that nobody handles.
    """
    result = box.run(f"import os, time; os.kill(os.getpid(), {int(number)}); time.sleep(0.1); 'alive'")
    if tier == "isolated":
        assert result.value == "alive"
    else:
        assert (result.outcome.kind, result.outcome.signal) == (OutcomeKind.CRASHED, number)


@pytest.mark.parametrize(
    ("code", "number"),
    [("import ctypes; ctypes.string_at(0)", signal.SIGSEGV), ("import os; os.abort()", signal.SIGABRT)],
)
def test_crashes(code: str, number: signal.Signals, box: fastness.Sandbox, tier: str) -> None:
    """
    A crash is told with its signal, and what came before it is kept.

    The first process of a namespace cannot end itself by SIGABRT; ``abort`` goes on to an instruction that faults.
    """
    result = box.run("print('before', flush=True); open('f', 'w').write('1')\n" + code)
    assert result.outcome.kind is OutcomeKind.CRASHED
    assert result.outcome.signal == (signal.SIGSEGV if tier == "isolated" else number)
    assert (result.stdout, result.exit_code) == ("before\n", None)
    assert set(result.files) == {"f"}
    assert box.run("1").value == 1


@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_leaving_at_once(status: int, box: fastness.Sandbox) -> None:
    """``os._exit`` skips exit functions and says its status; what was written stays."""
    code = f"import atexit, os; atexit.register(print, 'no'); print('yes', flush=True); open('f', 'w').write('1'); os._exit({status})"
    result = box.run(code)
    assert (result.exit_code, result.stdout) == (status, "yes\n")
    assert result.ok is (status == 0)
    assert box.run("import os; os.fork()").outcome.kind is OutcomeKind.GUEST_ERROR


def test_endless_recursion_in_c(box: fastness.Sandbox) -> None:
    """The stack ends as a crash or an error of the guest; never as anything of ours."""
    for code in (
        "t = ()\nfor _ in range(10**6): t = (t,)\nhash(t)",
        "import json\nx = []\nfor _ in range(10**5): x = [x]\njson.dumps(x)",
        "import sys\nsys.setrecursionlimit(10**8)\nf = lambda: [*map(lambda x: f(), [1])]\nf()",
        "import re\nre.match('(' * 100000, 'x')",
        "class A:\n  def __repr__(self): return repr(self)\nA()",
        "eval('-' * 100000 + '1')",
    ):
        result = box.run(code, timeout=5)
        assert result.outcome.kind in (OutcomeKind.CRASHED, OutcomeKind.GUEST_ERROR, OutcomeKind.OK, OutcomeKind.MEMORY)
    assert box.run("1").value == 1


# cancelling, callbacks, many at once


def test_output_comes_as_it_is_written(box: fastness.Sandbox) -> None:
    """Each piece is heard when it was written, in order, long before the end."""
    heard: list[tuple[float, str, bytes]] = []
    began = time.monotonic()
    code = "import sys, time\nfor i in range(4):\n  print(i, flush=True); print(-i, file=sys.stderr, flush=True); time.sleep(0.15)"
    box.run(code, on_event=lambda name, data: heard.append((time.monotonic() - began, name, data)))
    assert b"".join(data for _, name, data in heard if name == "stdout") == b"0\n1\n2\n3\n"
    assert b"".join(data for _, name, data in heard if name == "stderr") == b"0\n-1\n-2\n-3\n"
    assert heard[-1][0] - heard[0][0] > 0.3


def test_a_callback_that_raises(own: fastness.Sandbox) -> None:
    """The caller's own error comes out, whatever it is, and its guest is ended."""
    for error in (ZeroDivisionError, KeyboardInterrupt, TimeoutError, fastness.BackendError):

        def told(name: str, data: Any, error: type[BaseException] = error) -> None:
            raise error("x", "y", "z") if error is fastness.BackendError else error

        began = time.monotonic()
        with pytest.raises(error):
            own.run("print(1, flush=True)\nimport time; time.sleep(60)", on_event=told, timeout=60)
        assert time.monotonic() - began < 10
    assert own.run("1").value == 1


def test_cancelled_from_another_thread(own: fastness.Sandbox) -> None:
    """All runs that are under way end as ``cancelled`` and tell what they did; a later one is not touched."""
    started = threading.Barrier(3)
    results: list[fastness.RunResult] = []

    def work() -> None:
        once = threading.Event()

        def heard(name: str, data: Any) -> None:
            if not once.is_set():
                once.set()
                started.wait(10)

        results.append(own.run("print('go', flush=True)\nwhile True: pass", timeout=60, on_event=heard))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait(10)
    own.cancel()
    for thread in threads:
        thread.join(10)
    assert [(r.outcome.kind, r.stdout) for r in results] == [(OutcomeKind.CANCELLED, "go\n")] * 2
    assert own.run("1").value == 1


def test_twenty_at_once(own: fastness.Sandbox) -> None:
    """Each of twenty callers gets the answer to its own question."""
    wrong: list[Any] = []

    def work(number: int) -> None:
        try:
            result = own.run(
                "import sys, time; time.sleep(0.1); print(sys.argv[1]); open('f', 'w').write(sys.argv[1]); int(sys.stdin.read())",
                args=[str(number)], stdin=str(number * 7), files={"in": str(number)},
            )  # fmt: skip
            right = (result.value, result.stdout, result.files["f"].read())
            if right != (number * 7, f"{number}\n", str(number).encode()):
                wrong.append(result)
        except Exception as error:  # noqa: BLE001  # told by the assertion below
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_on_an_event_loop(backend: str, tier: str, box: fastness.Sandbox) -> None:
    """Thirty runs at once, some cancelled; the loop goes on turning, and the cancelled ones' guests are gone."""
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"optional: there is no {backend} in this environment")
    turns = 0

    async def main() -> dict[int, Any]:
        answers: dict[int, Any] = {}

        async def tick() -> None:
            nonlocal turns
            while True:
                await anyio.sleep(0.01)
                turns += 1

        async with fastness.AsyncSandbox(tier=tier) as own, anyio.create_task_group() as ticking:
            ticking.start_soon(tick)

            async def one(number: int) -> None:
                if number % 5 == 4:
                    with anyio.move_on_after(0.05):
                        await own.run("while True: pass", timeout=30)
                    answers[number] = number
                else:
                    answers[number] = (await own.run(f"import time; time.sleep(0.05); {number}")).value

            async with anyio.create_task_group() as group:
                for number in range(30):
                    group.start_soon(one, number)
            assert (await own.run("'after'")).value == "after"
            ticking.cancel_scope.cancel()
        return answers

    assert anyio.run(main, backend=backend) == {number: number for number in range(30)}
    assert turns > 5


def test_a_pool_is_warm(tier: str, box: fastness.Sandbox) -> None:
    """``pool`` guests wait when the block is entered, each serves one run, and others take their place."""
    with fastness.Sandbox(tier=tier, pool=2) as own:
        assert len(ours(os.getpid())) >= 3
        assert [own.run(f"{number}").value for number in range(8)] == list(range(8))


def test_a_forked_child_has_its_own(own: fastness.Sandbox) -> None:
    """A child of the caller starts guests of its own and leaves its parent's alone."""
    own.run("1")
    reader, writer = os.pipe()
    with pytest.warns(DeprecationWarning, match="fork") if sys.version_info >= (3, 12) else _nothing():
        child = os.fork()
    if not child:
        try:
            os.write(writer, b"%d" % own.run("6 * 7").value)
            own.close()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        assert stream.read() == b"42"
    os.waitpid(child, 0)
    assert own.run("5").value == 5


def _nothing() -> Any:
    import contextlib

    return contextlib.nullcontext()


# nothing is left

_CALLER = """
import sys
import fastness
box = fastness.Sandbox(tier={tier!r}, pool=1)
box.run("1")
box.run("print(1, flush=True)\\nwhile True: pass", timeout=60, on_event=lambda name, data: print("heard", flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_caller_that_dies(number: signal.Signals, tier: str, box: fastness.Sandbox) -> None:
    """However the caller ends, its zygotes and guests are gone soon after."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_CALLER).format(tier=tier)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(house.SOURCE), *sys.path])},
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == "heard\n"
        family = ours(process.pid)
        assert len(family) >= 3
        process.send_signal(number)
        assert eventually(lambda: all("fastness._native" not in house.command_of(pid) for pid in family), 5)
    finally:
        process.kill()
        process.communicate()
        # Nobody below this home may start after the last of these tests, and a dead caller's groups stay until then.
        runtime.sweep_groups()


def test_many_runs_leave_nothing(own: fastness.Sandbox) -> None:
    """After 90 runs of every kind there are as many descriptors and threads as after 20."""
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (
        ("print(1)", {}),
        ("raise ValueError", {}),
        ("import os; os._exit(3)", {}),
        ("open('f', 'w').write('x')", {"files": {"a": "1"}}),
        ("import sys; sys.stdin.read()", {"stdin": "x" * 100_000}),
        ("while True: pass", {"timeout": 0.02}),
        ("print('x' * 10000)", {"limits": {"output_total_bytes": 100}}),
    )

    def count() -> tuple[int, int]:
        time.sleep(0.3)
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    for code, options in kinds * 3:
        own.run(code, **options)
    before = count()
    for number in range(70):
        code, options = kinds[number % len(kinds)]
        own.run(code, **options)
    after = count()
    assert after[0] <= before[0] + 8
    assert after[1] <= before[1] + 1


def test_closing(tier: str, box: fastness.Sandbox) -> None:
    """Closing under a run ends it; closing twice is fine; a closed sandbox says so; its processes are gone."""
    before = ours(os.getpid())
    own = fastness.Sandbox(tier=tier)
    own.run("1")
    mine = ours(os.getpid()) & house.apart_from(before)
    assert mine
    # Not from the callback itself, which is the run's own thread.
    closer = threading.Thread(target=own.close)
    result = own.run(
        "print('kept', flush=True)\nimport time; time.sleep(60)", timeout=60, on_event=lambda *event: closer.start()
    )
    closer.join(10)
    assert (result.outcome.kind, result.stdout) == (OutcomeKind.CANCELLED, "kept\n")
    assert result.usage.wall_s < 10
    own.close()
    with pytest.raises(fastness.ConfigurationError, match="closed"):
        own.run("1")
    assert eventually(lambda: not (mine & ours(os.getpid())), 3)

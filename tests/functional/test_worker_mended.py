"""
Workers that are made, taken and ended while others are: warmed, refilled, cancelled before they start, and closed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from wasm_support import eventually

import fastness
import house
from fastness import OutcomeKind
from fastness._linux import procs
from fastness.backends import worker_process, worker_stock
from fastness.backends.worker import WorkerBackend


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    house.require("worker tier")
    before = set(procs.descendants(os.getpid()))
    yield
    # Interpreters that were on their way end once they have come so far, on a machine that does much else.
    assert eventually(lambda: not house.apart_from(before), 10), house.apart_from(before)


def backend_of(sandbox: fastness.Sandbox) -> WorkerBackend:
    (found,) = sandbox._inner._runner._backends.values()
    assert isinstance(found, WorkerBackend)
    return found


@pytest.mark.parametrize("count", [None, 0, 2])
def test_warming_any_number(count: int | None) -> None:
    """None at all is a number too."""
    with fastness.Sandbox(tier="worker") as sandbox:
        sandbox.warm(count)
        assert sandbox.run("6 * 7").value == 42


def test_warming_a_sandbox_that_is_closed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was started is ended, and the caller hears why or nothing."""
    sandbox = fastness.Sandbox(tier="worker")
    sandbox.run("0")
    spawn = worker_process.spawn

    def closing(*args: Any) -> Any:
        made = spawn(*args)
        closer = threading.Thread(target=sandbox.close)
        closer.start()
        closer.join()
        return made

    monkeypatch.setattr(worker_stock.worker_process, "spawn", closing)
    with pytest.raises(fastness.FastnessError, match="clos"):
        sandbox.warm(3)


def test_a_refill_that_fails_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that is done tells what came of it; the next one, which needs a worker, tells the fault."""
    with fastness.Sandbox(tier="worker") as sandbox:
        assert [sandbox.run(str(number)).value for number in range(3)] == [0, 1, 2]
        backend = backend_of(sandbox)
        failed = threading.Event()

        def fail(*args: Any) -> Any:
            failed.set()
            raise OSError(28, "No space left on device")

        kind = next(iter(backend._stock._kinds))
        assert eventually(lambda: not backend._stock.is_coming(kind), 20)
        monkeypatch.setattr(worker_stock.worker_process, "spawn", fail)
        assert sandbox.run("6 * 7").value == 42
        assert failed.wait(20)
        monkeypatch.undo()
        assert sandbox.run("6 * 7").value == 42


def test_a_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the machine's fault, and told as that."""
    with fastness.Sandbox(tier="worker") as sandbox:
        sandbox.probe()

        def fail() -> Any:
            raise OSError(28, "No space left on device")

        backend = backend_of(sandbox)
        backend._stock.leave()
        monkeypatch.setattr(worker_stock, "claim", fail)
        with pytest.raises(fastness.BackendError, match="No space left"):
            sandbox.run("1", preload=("json",))


def test_cancelling_reaches_a_run_that_has_no_worker_yet() -> None:
    """It ends as cancelled as soon as it has one."""
    with fastness.Sandbox(tier="worker", engines=1, timeout=60, limits={"grace_s": 0.0}) as sandbox:
        found: list[fastness.RunResult] = []
        begun = threading.Event()
        first = threading.Thread(
            target=lambda: found.append(
                sandbox.run("print('go', flush=True)\nwhile True: pass", on_event=lambda *event: begun.set())
            )
        )
        first.start()
        assert begun.wait(20)
        backend = backend_of(sandbox)
        slots: Any = backend._slots
        waits = threading.Event()
        acquire = slots.acquire

        async def acquired() -> None:
            waits.set()
            await acquire()

        slots.acquire = acquired
        second = threading.Thread(target=lambda: found.append(sandbox.run("while True: pass")))
        second.start()
        assert waits.wait(20)
        sandbox.cancel()
        for thread in (first, second):
            thread.join(40)
        assert [one.outcome.kind for one in found] == [OutcomeKind.CANCELLED] * 2


def test_closing_while_results_are_gathered() -> None:
    """A worker that a caller still reads from is that caller's to close."""
    for _ in range(4):
        sandbox = fastness.Sandbox(tier="worker", limits={"grace_s": 0.0})
        sandbox.run("0")
        backend = backend_of(sandbox)
        found: list[Any] = []

        def told(name: str, data: Any, sandbox: Any = sandbox) -> None:
            closer = threading.Thread(target=sandbox.close)
            closer.start()
            closer.join(20)

        def run(sandbox: Any = sandbox, told: Any = told, found: Any = found) -> None:
            # Written as the last thing, so that it is read once the worker has ended.
            found.append(sandbox.run("import os; os.write(1, b'last'); os._exit(3)", on_event=told))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(60)
        assert len(found) == 1
        assert found[0].stdout == "last"
        assert not backend.guest_pids()
        sandbox.close()

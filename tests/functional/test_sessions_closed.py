"""
Sessions that are closed in the middle of things, left by a forked child, or long: whoever has the guest gives it back.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import anyio
import pytest
from wasm_support import eventually

import fastness
import house
from fastness import OutcomeKind

pytestmark = pytest.mark.tiers("wasm", "worker", "confined", "isolated")

#: Busy until somebody ends it, and shows when it has begun.
BUSY = "print('go', flush=True)\nimport time\nwhile True: time.sleep(0.01)"


def test_closing_it_while_it_executes(box: fastness.Sandbox, tier: str) -> None:
    """The execute ends as cancelled, at once, and the next guest hears nothing of it."""
    for _ in range(3):
        session = box.session()
        session.__enter__()
        begun = threading.Event()
        results: list[fastness.RunResult] = []

        def execute(session: Any = session, begun: Any = begun, results: Any = results) -> None:
            results.append(session.execute(BUSY, timeout=20, on_event=lambda *event: begun.set()))

        thread = threading.Thread(target=execute)
        thread.start()
        assert begun.wait(20)
        session.close()
        other = box.run("print('other')")
        thread.join(20)
        assert not thread.is_alive()
        (result,) = results
        assert (result.outcome.kind, result.outcome.detail) == (OutcomeKind.CANCELLED, "the session was closed")
        assert (result.state, result.stdout) == ("lost", "go\n")
        assert (other.ok, other.stdout) == (True, "other\n")


def test_closing_it_on_an_event_loop(box: fastness.Sandbox, tier: str) -> None:
    """The same for two tasks; to close it once more costs nothing, and it takes no more code."""

    async def main() -> None:
        async with fastness.AsyncSandbox(tier=tier, timeout=20) as sandbox:
            session = await sandbox.session().open()
            begun = anyio.Event()
            found: list[fastness.RunResult] = []

            async def execute() -> None:
                found.append(await session.execute(BUSY, on_event=lambda *event: begun.set()))

            async with anyio.create_task_group() as group:
                group.start_soon(execute)
                await begun.wait()
                inner = session._session
                assert inner is not None
                await inner.aclose()
                await inner.aclose()
            assert found[0].outcome.kind is OutcomeKind.CANCELLED
            with pytest.raises(fastness.BackendError, match="the session is closed"):
                await session.execute("1")
            await session.aclose()
            assert (await sandbox.run("6 * 7")).value == 42

    anyio.run(main)


def test_a_forked_child_leaves_it(box: fastness.Sandbox) -> None:
    """A child that comes to the end of the ``with`` ends nothing of its parent's."""
    with box.session() as session:
        session.execute("kept = 41")
        pid = os.fork()
        if not pid:
            try:
                session.__exit__(None, None, None)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        assert session.execute("kept + 1").value == 42


@pytest.mark.slow
def test_processor_time_is_each_executes_own(box: fastness.Sandbox) -> None:
    """A session may use far more than ``cpu_s`` in its life; one execute may not."""
    work = "import time\nend = time.process_time() + 0.7\nwhile time.process_time() < end: pass"
    with box.session(limits={"cpu_s": 1.0}) as session:
        found = [session.execute(work) for _ in range(3)]
        assert [(one.outcome.kind, one.state) for one in found] == [(OutcomeKind.OK, "kept")] * 3
        last = session.execute("while True: pass", timeout=30)
        assert last.outcome.kind is OutcomeKind.CPU


@pytest.mark.tiers("confined", "isolated")
def test_what_runs_on_between_two_executes_is_bounded(tier: str) -> None:
    """A thread that is left busy uses up what one execute may, and the session's guest is ended for that."""
    house.require(f"{tier} tier")
    with fastness.Sandbox(tier=tier) as sandbox, sandbox.session(limits={"cpu_s": 0.3}) as session:
        code = "import threading\ndef busy():\n    while True: pass\nthreading.Thread(target=busy, daemon=True).start()"
        first = session.execute(code)
        assert (first.outcome.kind, first.state) == (OutcomeKind.OK, "kept")
        guest: Any = session._inner._session
        assert eventually(lambda: not guest._guest.box.alive, 30)
        second = session.execute("1")
        assert (second.outcome.kind, second.state) == (OutcomeKind.CPU, "lost")
        assert "between two runs" in second.outcome.detail


@pytest.mark.tiers("confined", "isolated")
@pytest.mark.slow
def test_a_limit_that_the_kernel_keeps_is_told_as_that(tier: str) -> None:
    """Processor time that is used up before this side has looked is the limit of the run, not a crash."""
    house.require(f"{tier} tier")
    with fastness.Sandbox(tier=tier) as sandbox:
        sandbox.run("0")
        (backend,) = sandbox._inner._runner._backends.values()
        begun = threading.Event()
        found: list[fastness.RunResult] = []

        def run() -> None:
            # A callback that takes its time is a caller that does not look.
            def told(*event: Any) -> None:
                begun.set()
                (talk,) = backend._talks  # type: ignore[attr-defined]  # of this tier
                assert talk.box.wait(30)

            options = {"limits": {"cpu_s": 0.2}, "timeout": 30, "on_event": told}
            found.append(sandbox.run("print('go', flush=True)\nwhile True: pass", **options))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(60)
        assert begun.is_set()
        assert [one.outcome.kind for one in found] == [OutcomeKind.CPU]

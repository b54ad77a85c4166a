"""
Engines, callers and runs that are ended from outside: the run says so, the next one works, nothing stays.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from wasm_support import SOURCE, engines_of, eventually, gone

import fastness
from fastness import OutcomeKind

_SPIN = "open('kept', 'w').write('1')\nprint('started', flush=True)\nwhile True: pass"
_SLEEP = "print('started', flush=True)\nimport time\ntime.sleep(1e6)"


def when_started(act: Callable[[], Any]) -> Callable[[str, Any], None]:
    """A callback that does ``act`` in another thread once the guest has printed."""
    once = threading.Event()

    def on_event(name: str, data: Any) -> None:
        if name == "stdout" and not once.is_set():
            once.set()
            threading.Thread(target=act).start()

    return on_event


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT])
def test_engine_killed_in_mid_run(own_box: fastness.Sandbox, number: signal.Signals) -> None:
    """The run is ``crashed`` and keeps its output; the next one works in another engine; no process is left."""
    before = engines_of(os.getpid())
    own_box.run("1")
    (victim,) = engines_of(os.getpid()) - before

    result = own_box.run(_SPIN, timeout=20, on_event=when_started(lambda: os.kill(victim, number)))
    assert result.outcome.kind is OutcomeKind.CRASHED
    # wasmtime's handler passes a SIGSEGV that is not the guest's on by a call that the filter answers with SIGSYS.
    names = {number.name, "SIGSYS"} if number is signal.SIGSEGV else {number.name}
    assert any(name in result.outcome.detail for name in names)
    assert result.stdout == "started\n"
    assert gone(victim)
    assert not os.path.exists(f"/proc/{victim}"), "it was not reaped"
    assert own_box.run("print(1)").stdout == "1\n"
    own_box.close()
    assert engines_of(os.getpid()) == before


def test_idle_engine_killed(own_box: fastness.Sandbox) -> None:
    """An engine that died between runs is noticed before it is used."""
    before = engines_of(os.getpid())
    own_box.run("1")
    for victim in engines_of(os.getpid()) - before:
        os.kill(victim, signal.SIGKILL)
        assert eventually(lambda pid=victim: gone(pid), 2)
    # The kernel ends threads one by one, and closes what they share with the last.
    time.sleep(0.1)
    assert own_box.run("2").value == 2


def test_stopped_engine(own_box: fastness.Sandbox) -> None:
    """An engine that is frozen cannot keep its own deadline; the caller's side ends it a little later."""
    before = engines_of(os.getpid())
    own_box.run("1")
    (victim,) = engines_of(os.getpid()) - before
    started = time.monotonic()
    result = own_box.run(_SPIN, timeout=1, on_event=when_started(lambda: os.kill(victim, signal.SIGSTOP)))
    assert result.outcome.kind is OutcomeKind.TIMEOUT
    assert result.stdout == "started\n"
    assert time.monotonic() - started < 15
    assert gone(victim)
    assert own_box.run("2").value == 2


_CALLER = """
import sys
sys.path.insert(0, {source!r})
import fastness
def heard(name, data):
    if name == "stdout":
        print("heard", flush=True)
fastness.run({code!r}, timeout=120, on_event=heard)
"""


def caller(code: str) -> subprocess.Popen[str]:
    """A process that runs ``code`` in the default sandbox, after its guest has started."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_CALLER).format(source=str(SOURCE), code=code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "heard\n"
    return process


@pytest.mark.parametrize("code", [_SPIN, _SLEEP], ids=["spinning", "sleeping"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_caller_killed(python_guest: None, code: str, number: signal.Signals) -> None:
    """However the caller dies, its engines are gone within a second."""
    process = caller(code)
    engines = engines_of(process.pid)
    assert len(engines) == 1
    process.send_signal(number)
    try:
        assert eventually(lambda: all(gone(pid) for pid in engines), 1.0)
    finally:
        process.kill()
        process.communicate()


def test_interrupted_caller(python_guest: None) -> None:
    """Ctrl-C in a program that waits for a run raises KeyboardInterrupt there, at once, and ends the guest."""
    process = caller(_SPIN)
    engines = engines_of(process.pid)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors
    assert process.returncode in (130, 1, -signal.SIGINT)
    assert eventually(lambda: all(gone(pid) for pid in engines), 1.0)


def test_interrupt_in_the_blocking_api(own_box: fastness.Sandbox) -> None:
    """KeyboardInterrupt leaves ``run`` as it is; the guest is ended and the sandbox goes on."""
    before = engines_of(os.getpid())
    main = threading.main_thread().ident
    assert main is not None
    with pytest.raises(KeyboardInterrupt):
        own_box.run(_SPIN, timeout=60, on_event=when_started(lambda: signal.pthread_kill(main, signal.SIGINT)))
    assert own_box.run("3").value == 3
    busy = engines_of(os.getpid()) - before
    assert len(busy) == 1, "the interrupted guest's engine is still there"
    own_box.close()
    assert eventually(lambda: engines_of(os.getpid()) == before, 2)


def test_program_that_just_ends(python_guest: None) -> None:
    """A program that neither closes its sandboxes nor waits for its threads ends cleanly and leaves no engine."""
    code = f"""
import sys, threading, os
sys.path[:0] = [{str(SOURCE)!r}, {str(SOURCE.parent / "tests" / "functional")!r}, {str(SOURCE.parent / "tests")!r}]
import fastness, wasm_support
box = fastness.Sandbox(pool=1)
box.run("1")
fastness.run("2")
threading.Thread(target=lambda: box.run("while True: pass", timeout=60), daemon=True).start()
while len(wasm_support.engines_of(os.getpid())) < 2:
    pass
print(*wasm_support.engines_of(os.getpid()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert eventually(lambda: all(gone(int(pid)) for pid in done.stdout.split()), 1.0)


# cancellation


@pytest.mark.parametrize("code", [_SPIN, _SLEEP], ids=["spinning", "sleeping"])
def test_cancel_from_another_thread(own_box: fastness.Sandbox, code: str) -> None:
    """``cancel`` makes the run return with the outcome ``cancelled`` and what came until then."""
    result = own_box.run(code, timeout=60, on_event=when_started(own_box.cancel))
    assert result.outcome.kind is OutcomeKind.CANCELLED
    assert result.stdout == "started\n"
    if code == _SPIN:
        assert result.files["kept"].read() == b"1"
    with pytest.raises(fastness.RunCancelled):
        result.raise_for_outcome()
    assert own_box.run("1").value == 1


def test_cancel_with_nothing_to_cancel(own_box: fastness.Sandbox) -> None:
    """A late or needless cancel reaches no later run."""
    for _ in range(20):
        own_box.cancel()
        assert own_box.run("1").value == 1


@pytest.mark.parametrize("code", [_SPIN, _SLEEP], ids=["spinning", "sleeping"])
def test_cancel_scope(python_guest: None, code: str) -> None:
    """Cancelling the scope around ``run`` ends the guest, not only the waiting for it."""

    async def main() -> None:
        async with fastness.AsyncSandbox(engines=1) as box:
            await box.run("1")
            before = engines_of(os.getpid())
            with anyio.move_on_after(0.3) as scope:
                await box.run(code, timeout=60)
            assert scope.cancelled_caught
            # With one engine only, this would wait for ever if the guest were still there.
            with anyio.fail_after(10):
                assert (await box.run("2")).value == 2
            assert len(engines_of(os.getpid()) - before) <= 1

    anyio.run(main)


def test_cancel_while_queueing(python_guest: None) -> None:
    """A run that is cancelled before it got a guest takes none."""

    async def main() -> None:
        async with fastness.AsyncSandbox(engines=1) as box:
            async with anyio.create_task_group() as group:

                async def long() -> None:
                    assert (await box.run("import time; time.sleep(1); 5")).value == 5

                group.start_soon(long)
                await anyio.sleep(0.2)
                with anyio.move_on_after(0.2) as scope:
                    await box.run("1")
                assert scope.cancelled_caught
            assert (await box.run("2")).value == 2

    anyio.run(main)


def test_cancel_while_starting(python_guest: None) -> None:
    """Cancelling at any moment of an engine's start leaves no process behind."""
    before = engines_of(os.getpid())

    async def main() -> None:
        for step in range(12):
            async with fastness.AsyncSandbox(engines=1) as box:
                with anyio.move_on_after(step * 0.012):
                    await box.run("while True: pass", timeout=30)
                if step % 4 == 0:
                    assert (await box.run("2")).value == 2
            assert engines_of(os.getpid()) == before

    anyio.run(main)


def test_task_group_failure_ends_guests(python_guest: None) -> None:
    """An error beside a run cancels it: structured concurrency reaches into the guest."""
    before = engines_of(os.getpid())

    async def main() -> None:
        async with fastness.AsyncSandbox(engines=2) as box, anyio.create_task_group() as group:
            group.start_soon(lambda: box.run(_SPIN, timeout=60))
            await anyio.sleep(0.5)
            raise ZeroDivisionError

    with pytest.raises(BaseException) as caught:
        anyio.run(main)
    assert isinstance(caught.value, ZeroDivisionError) or caught.value.split(ZeroDivisionError)[0] is not None  # type: ignore[attr-defined]  # an exception group
    assert engines_of(os.getpid()) == before


def test_use_after_close(own_box: fastness.Sandbox) -> None:
    """A closed sandbox says so; closing twice is fine."""
    own_box.run("1")
    own_box.close()
    own_box.close()
    with pytest.raises(fastness.ConfigurationError, match="closed"):
        own_box.run("1")


def test_close_under_a_run(own_box: fastness.Sandbox) -> None:
    """Closing while a run is in progress ends it; the run returns, and nothing is left."""
    before = engines_of(os.getpid())
    result = own_box.run(_SPIN, timeout=60, on_event=when_started(own_box.close))
    assert result.outcome.kind in (OutcomeKind.CRASHED, OutcomeKind.CANCELLED)
    assert eventually(lambda: engines_of(os.getpid()) == before, 2)


def test_fork_of_the_caller(own_box: fastness.Sandbox) -> None:
    """A forked child starts engines of its own and harms neither its parent's engines nor their answers."""
    before = engines_of(os.getpid())
    own_box.run("1")
    ours = engines_of(os.getpid()) - before
    reader, writer = os.pipe()
    with pytest.warns(DeprecationWarning, match="fork") if sys.version_info >= (3, 12) else _nothing():
        child = os.fork()
    if not child:
        try:
            result = own_box.run("6 * 7")
            os.write(writer, b"%d %d" % (result.value, len(engines_of(os.getpid()))))
            own_box.close()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        assert stream.read() == b"42 1"
    os.waitpid(child, 0)
    assert own_box.run("5").value == 5
    assert engines_of(os.getpid()) - before == ours


def _nothing() -> Any:
    import contextlib

    return contextlib.nullcontext()

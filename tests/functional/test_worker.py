"""
The worker tier as its callers see it: outcomes, values, files, limits, sessions, cancelling, many at once.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

import fastness
from fastness.backends.worker import WorkerBackend
from fastness.backends.worker_process import interpreter
from fastness.runs import OutcomeKind
from fastness.waiting import ThreadWaiting, drive

pytestmark = pytest.mark.tiers("worker")


def test_a_value_and_output(box: fastness.Sandbox) -> None:
    result = box.run("import sys; print('out'); print('err', file=sys.stderr); {'a': [1, 2.5, 'x']}")
    assert (result.value, result.stdout, result.stderr) == ({"a": [1, 2.5, "x"]}, "out\n", "err\n")
    assert result.ok
    assert (result.tier, result.backend, result.sandboxed) == ("worker", "worker", True)
    assert set(result.guarantees) == {guarantee.value for guarantee in fastness.Tier.WORKER.guarantees}
    assert result.layers["MODULE_FIREWALL"] == "audit hook"
    assert result.usage.memory > 0
    assert result.usage.cpu_s > 0


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("1 / 0", "guest_error"),
        ("import sys; sys.exit(4)", "guest_error"),
        ("import sys; sys.exit(0)", "ok"),
        ("import os; os._exit(4)", "guest_error"),
        ("import os; os.abort()", "crashed"),
        ("import os; os.kill(os.getpid(), 9)", "crashed"),
        ("import faulthandler; faulthandler._sigsegv()", "crashed"),
        ("while True: pass", "timeout"),
        ("import time; time.sleep(60)", "timeout"),
        ("import signal\nfor n in (15, 2, 1): signal.signal(n, signal.SIG_IGN)\nwhile True: pass", "timeout"),
        ("while True:\n  try:\n    while True: pass\n  except BaseException: pass", "timeout"),
        ("bytearray(1 << 30)", "memory"),
        ("x = []\nwhile True: x.append(bytearray(1 << 16))", "memory"),
        ("while True: print('x' * 1000)", "output_limit"),
        ("def f(): f()\nf()", "guest_error"),
        ("(", "guest_error"),
        ("open('big', 'wb').write(bytes(3 << 20))", "disk"),
        ("import os\nopen('/proc/self/fd/3', 'w')", "guest_error"),
        ("import os\nos.write(3, b'x' * 100)", "protocol"),
        ("import os\nos.close(3)", "guest_error"),
    ],
)
def test_outcomes(code: str, kind: str, box: fastness.Sandbox) -> None:
    limits = {"memory": 64 << 20, "output_total_bytes": 1 << 20, "file_bytes": 2 << 20}
    result = box.run(code, timeout=1.0, limits=limits)
    assert (result.outcome.kind.value) == kind, result.outcome
    assert box.run("6 * 7").value == 42


def test_a_loop_of_processor_time_ends_before_the_clock(box: fastness.Sandbox) -> None:
    result = box.run("while True: pass", timeout=20, limits={"cpu_s": 0.3})
    assert result.outcome.kind is OutcomeKind.CPU
    assert result.usage.wall_s < 5


@pytest.mark.parametrize(
    "code",
    [
        "n = 0\nwhile True:\n  open(str(n), 'w').close()\n  n += 1",
        "n = 0\nwhile True:\n  open(str(n), 'w').write('x' * 500_000)\n  n += 1",
    ],
)
def test_the_folder_is_watched(code: str, box: fastness.Sandbox) -> None:
    """It is on the caller's disk, so a run that fills it is ended."""
    result = box.run(code, timeout=20, limits={"files": 100, "file_bytes": 5 << 20})
    assert result.outcome.kind is OutcomeKind.DISK
    assert result.usage.wall_s < 10


def test_the_environment_holds_nothing_of_the_host(box: fastness.Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_HOST", "1")
    code = "import os; [sorted(os.environ), b'OF_THE_HOST' in open('/proc/self/environ', 'rb').read(), sorted(map(int, os.listdir('/proc/self/fd')))]"
    names, seen, fds = box.run(code, env={"GIVEN": "2"}).value
    assert "GIVEN" in names
    assert "OF_THE_HOST" not in names
    assert "PATH" not in names
    assert not seen
    # Streams, the conversation, and the folder that is being listed.
    assert fds[:4] == [0, 1, 2, 3]
    assert len(fds) == 5


def test_inputs_and_files(box: fastness.Sandbox) -> None:
    code = "import sys, os; os.mkdir('d'); open('d/out', 'w').write(open('in').read() * 2); os.remove('gone'); [sys.stdin.read(), sys.argv[1:], os.environ['A']]"
    result = box.run(code, stdin="typed", args=["x"], env={"A": "1"}, files={"in": b"ab", "gone": b""})
    assert result.value == ["typed", ["x"], "1"]
    assert result.files["d/out"].read() == b"abab"
    assert (result.changes.added, result.changes.deleted) == (("d/out",), ("gone",))


def test_runs_share_nothing(box: fastness.Sandbox) -> None:
    box.run("import builtins, json; builtins.left = json.left = 1; open('left', 'w').close()")
    assert box.run(
        "import builtins, json, os; [hasattr(builtins, 'left'), hasattr(json, 'left'), os.listdir()]"
    ).value == [False, False, []]


def test_hashes_differ_between_runs(box: fastness.Sandbox) -> None:
    """A new interpreter has a seed of its own."""
    assert len({box.run("hash('a')").value for _ in range(3)}) == 3


def test_a_seed_repeats(box: fastness.Sandbox) -> None:
    assert (
        box.run("import random; random.random()", seed=5).value
        == box.run("import random; random.random()", seed=5).value
    )


def test_refusals_are_rows(box: fastness.Sandbox) -> None:
    result = box.run("import os\nfor _ in range(2):\n  try: os.system('true')\n  except PermissionError: pass\n'on'")
    assert result.value == "on"
    (row,) = result.denials
    assert (row.operation, row.target, row.layer, row.claimed, row.count) == ("os.system", "true", "guest", True, 2)
    # They are told as they happen: a run that never answers has them too.
    result = box.run("import os\ntry: os.system('true')\nexcept PermissionError: pass\nwhile True: pass", timeout=0.5)
    assert [row.operation for row in result.denials] == ["os.system"]


def test_a_session_keeps_its_state(box: fastness.Sandbox) -> None:
    with box.session() as session:
        assert session.execute("x = 1").ok
        assert session.execute("x + 1").value == 2
        assert session.execute("import os; os.system('x')").denials[0].count == 1
        assert session.execute("1").denials == ()
        assert session.execute("while True: pass", timeout=0.3).outcome.kind is OutcomeKind.TIMEOUT
        assert session.execute("x").state == "lost"


def test_preload(box: fastness.Sandbox) -> None:
    assert box.run("import sys; 'decimal' in sys.modules", preload=["decimal"]).value is True
    with pytest.raises(fastness.ConfigurationError, match="no_such_module"):
        box.run("1", preload=["no_such_module"])
    with pytest.raises(fastness.ConfigurationError, match="ctypes"):
        box.run("1", preload=["ctypes"])


@pytest.mark.parametrize("options", [{"time": 1}, {"runtime": "javascript"}])
def test_what_it_does_not_have(options: dict[str, object], box: fastness.Sandbox) -> None:
    with pytest.raises(fastness.ConfigurationError):
        box.run("1", **options)


def test_many_at_once(box: fastness.Sandbox) -> None:
    found: list[object] = []
    threads = [threading.Thread(target=lambda n=n: found.append(box.run(f"{n} * 2").value)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 2, 4, 6, 8, 10]  # type: ignore[type-var]


SLEEPS = "print('go', flush=True)\nimport time; time.sleep(30)"


def test_cancelled_from_another_thread(box: fastness.Sandbox) -> None:
    canceller = threading.Thread(target=box.cancel)
    result = box.run(SLEEPS, timeout=60, on_event=lambda *event: canceller.start())
    canceller.join()
    assert (result.outcome.kind, result.stdout) == (OutcomeKind.CANCELLED, "go\n")
    assert result.usage.wall_s < 10


@pytest.mark.usefixtures("box")
def test_closed_while_running() -> None:
    box = fastness.Sandbox(tier="worker")
    closer = threading.Thread(target=box.close)
    result = box.run(SLEEPS, timeout=60, on_event=lambda *event: closer.start())
    closer.join()
    assert (result.outcome.kind, result.stdout) == (OutcomeKind.CANCELLED, "go\n")
    assert result.usage.wall_s < 10


@pytest.mark.usefixtures("box")
def test_on_an_event_loop() -> None:
    async def main() -> None:
        async with fastness.AsyncSandbox(tier="worker") as box:
            results = await asyncio.gather(*(box.run(f"{n}") for n in range(3)))
            assert [result.value for result in results] == [0, 1, 2]
            begun = asyncio.Event()
            task = asyncio.create_task(box.run(SLEEPS, timeout=60, on_event=lambda *event: begun.set()))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await box.run("1 + 1")).value == 2

    asyncio.run(main())


def test_a_callback_that_raises(box: fastness.Sandbox) -> None:
    class Mine(Exception):
        pass

    def told(name: str, data: object) -> None:
        raise Mine

    with pytest.raises(Mine):
        box.run("print(1)\nimport time\ntime.sleep(30)", on_event=told, timeout=60)
    assert box.run("1").value == 1


@pytest.mark.usefixtures("box")
def test_the_probe_fails_where_the_firewall_is_off() -> None:
    """The probe tries what the firewall refuses, so without one the tier is not served."""
    backend = WorkerBackend(waiting=ThreadWaiting(), firewall=False, ready=0)
    try:
        verdict = drive(backend.probe())
    finally:
        drive(backend.aclose())
    assert not verdict.holds
    assert "module firewall" in verdict.failures[0].cause


def test_warm_workers_wait(box: fastness.Sandbox) -> None:
    backend = WorkerBackend(waiting=ThreadWaiting(), ready=0)
    try:
        request = fastness.RunRequest(code="1", runtime="python", tier="worker")
        drive(backend.warm(request, 2))
        assert len(backend.guest_pids()) == 4
    finally:
        drive(backend.aclose())
    assert backend.guest_pids() == []


def test_it_is_this_interpreter(box: fastness.Sandbox) -> None:
    import sys

    assert interpreter()[0] == sys.executable
    assert box.run("import sys; list(sys.version_info)").value == list(sys.version_info)

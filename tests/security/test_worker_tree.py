"""
Nothing that comes of a worker outlives it: whatever it starts, whatever it ignores, and however its host ends.

The module firewall is off here: what is under test is what holds where it was undone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastness import runtime
from fastness._linux import procs
from fastness.backends.base import Report, Staged
from fastness.backends.worker import WorkerBackend
from fastness.limits import Limits
from fastness.looping import LoopWaiting
from fastness.runs import OutcomeKind, RunRequest
from fastness.waiting import ThreadWaiting, drive

#: Each leaves a process that carries the marker in its arguments, and says so when it runs.
LEAVERS = {
    "child": """
subprocess.Popen([sys.executable, "-c", LIVE, MARK])
""",
    "grandchild": """
subprocess.run([sys.executable, "-c", "import subprocess, sys; subprocess.Popen([sys.executable, '-c', *sys.argv[1:]])", LIVE, MARK])
""",
    "daemon": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 100)
        os.execv(sys.executable, [sys.executable, "-c", LIVE, MARK])
    os._exit(0)
os.wait()
""",
    "ignores": """
subprocess.Popen([sys.executable, "-c", "import signal\\nfor n in range(1, 32):\\n  n in (9, 19) or signal.signal(n, signal.SIG_IGN)\\n" + LIVE, MARK])
time.sleep(0.1)
""",
    "stopped": """
child = subprocess.Popen([sys.executable, "-c", LIVE, MARK], start_new_session=True)
os.kill(child.pid, signal.SIGSTOP)
""",
    "many": """
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        os.execv(sys.executable, [sys.executable, "-c", LIVE, MARK])
""",
    "breeds": """
if os.fork() == 0:
    os.execv(sys.executable, [sys.executable, "-c", "import os, sys, time\\nwhile True:\\n  time.sleep(0.005)\\n  if os.fork():\\n    os._exit(0)\\n  os.setsid()", MARK])
""",
}
PREFIX = "import os, signal, subprocess, sys, time\nLIVE = 'import time; time.sleep(300)  # from fastness.tests'\nMARK = {mark!r}\n"
ENDS = {
    "returns": "",
    "raises": "1 / 0\n",
    "crashes": "os.abort()\n",
    "exits": "os._exit(3)\n",
    "runs on": "while True: time.sleep(1)\n",
    "stops itself": "os.kill(os.getpid(), signal.SIGSTOP)\n",
}


@pytest.fixture
def mark() -> str:
    return "worker-tree-" + os.urandom(6).hex()


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerBackend]:
    (tmp_path / "home").mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    made = WorkerBackend(waiting=ThreadWaiting(), firewall=False, ready=0)
    yield made
    drive(made.aclose())


def run(backend: WorkerBackend, code: str, wall_s: float = 1.5, grace_s: float = 0.5) -> Report:
    limits = Limits(wall_s=wall_s, grace_s=grace_s)
    request = RunRequest(code=code, runtime="python", tier="worker", limits=limits)
    return drive(backend.run(request, Staged(), None))


def living(mark: str) -> list[int]:
    return procs.orphans(mark)


def gone_within(mark: str, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while living(mark):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def there_within(mark: str, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not living(mark):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("leaver", LEAVERS)
def test_after_a_run_nothing_of_it_lives(leaver: str, backend: WorkerBackend, mark: str) -> None:
    """When the result is there, all that the run has started has ended."""
    report = run(backend, PREFIX.format(mark=mark) + LEAVERS[leaver], wall_s=20.0)
    assert living(mark) == []
    assert report.outcome.kind is OutcomeKind.OK, report


@pytest.mark.parametrize("ending", ENDS)
def test_however_the_run_ends(ending: str, backend: WorkerBackend, mark: str) -> None:
    report = run(backend, PREFIX.format(mark=mark) + LEAVERS["daemon"] + ENDS[ending])
    assert living(mark) == []
    assert report.outcome.kind.value in ("ok", "guest_error", "crashed", "timeout")


def test_the_processes_were_there(backend: WorkerBackend, mark: str) -> None:
    """The control of the tests above: while the run goes on, what it has started lives."""
    seen: list[int] = []

    def look(name: str, data: object) -> None:
        time.sleep(0.2)
        seen.extend(living(mark))

    request = RunRequest(
        code=PREFIX.format(mark=mark) + LEAVERS["daemon"] + "print('now')\ntime.sleep(1)\n",
        runtime="python", tier="worker", limits=Limits(wall_s=10.0),
    )  # fmt: skip
    drive(backend.run(request, Staged(), look))
    assert seen
    assert living(mark) == []


#: A child that does something when it is asked to end, and says that it is there.
CHILD = """
import os, signal, sys, time
def told(*_):
    time.sleep(0.2)
    print("child asked", flush=True)
    open("child", "w").write("asked")
    os._exit(0)
signal.signal(signal.SIGTERM, told)
open("there", "w").close()
while True: time.sleep(1)
"""
#: What a worker does when it is asked to end.
ANSWERS = {
    "as it is": "",
    "writes": "signal.signal(signal.SIGTERM, lambda *_: (late(), os._exit(0)))",
    "exits": """
import atexit
atexit.register(late)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
""",
    "writes and stays": "signal.signal(signal.SIGTERM, lambda *_: late())",
    "stays": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "much": "signal.signal(signal.SIGTERM, lambda *_: (print('x' * 500_000, flush=True), late(), os._exit(0)))",
}
ASKED = """
def late():
    open('late', 'w').write('in the grace')
    print('late', end='', flush=True)
"""
#: Written past the streams, which a handler cannot write to while they are being written to.
WAIT = """
os.write(1, b'begun\\n')
end = time.monotonic() + 30
while time.monotonic() < end:
    time.sleep(0.02)
"""
AT_ONCE = ("as it is", "writes", "exits", "much")


def run_and_cancel(backend: WorkerBackend, code: str, grace_s: float) -> Report:
    """A run that is cancelled as soon as it says that it has begun."""

    def heard(name: str, data: object) -> None:
        if isinstance(data, bytes) and data.startswith(b"begun"):
            backend.cancel_all()

    limits = Limits(wall_s=20.0, grace_s=grace_s)
    return drive(backend.run(RunRequest(code=code, runtime="python", tier="worker", limits=limits), Staged(), heard))


@pytest.mark.parametrize("how", ["timeout", "cancelled"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_worker_is_asked_to_end_first(answer: str, how: str, backend: WorkerBackend, mark: str) -> None:
    """SIGTERM, then SIGKILL after the grace; what it writes meanwhile counts, and is no way to another outcome."""
    code = PREFIX.format(mark=mark) + ASKED + ANSWERS[answer] + WAIT
    grace = 5.0 if answer in AT_ONCE else 0.3
    if how == "timeout":
        wall, report = 0.5, run(backend, code, 0.5, grace)
    else:
        wall, report = 0.0, run_and_cancel(backend, code, grace)
    assert report.outcome.kind.value == how, report
    assert report.stdout.startswith(b"begun\n")
    assert (b"late" in report.stdout) == ("late" in report.files) == (answer not in ("as it is", "stays"))
    if answer == "much":
        assert len(report.stdout) > 500_000
    assert report.value is None
    if answer in AT_ONCE:
        assert report.usage.wall_s < wall + 3.0
    else:
        assert wall + grace - 0.1 < report.usage.wall_s < wall + grace + 2.0


@pytest.mark.parametrize("streams", ["", ", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"])
@pytest.mark.parametrize("answer", ["as it is", "exits", "stays"])
def test_what_a_worker_started_is_asked_too(answer: str, streams: str, backend: WorkerBackend, mark: str) -> None:
    """Each has the grace, also where the worker itself has ended before."""
    code = (
        PREFIX.format(mark=mark) + ASKED + ANSWERS[answer] + f"\nCHILD = {CHILD!r}\n"
        f"subprocess.Popen([sys.executable, '-c', CHILD, MARK]{streams})\n"
        "while not os.path.exists('there'): time.sleep(0.01)\n" + WAIT
    )
    report = run_and_cancel(backend, code, 1.5)
    assert living(mark) == []
    assert report.outcome.kind is OutcomeKind.CANCELLED
    assert report.files["child"].read() == b"asked"
    assert (b"child asked" in report.stdout) == (not streams)


def test_a_tree_that_is_stopped_is_asked(backend: WorkerBackend, mark: str) -> None:
    """A process that is stopped hears of its end as well, and need not be waited for."""
    code = PREFIX.format(mark=mark) + LEAVERS["stopped"] + "os.kill(os.getpid(), signal.SIGSTOP)\n"
    began = time.monotonic()
    report = run(backend, code, wall_s=0.5, grace_s=20.0)
    assert report.outcome.kind is OutcomeKind.TIMEOUT
    assert living(mark) == []
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("work", "limits"),
    [
        ("while True: print('x' * 1000, flush=True)", {"output_total_bytes": 1 << 16}),
        ("while True: pass", {"cpu_s": 0.7}),
        ("n = 0\nwhile True:\n  n += 1\n  open(str(n), 'w').close()", {"files": 50}),
    ],
)
def test_other_limits_hold_in_the_grace(work: str, limits: dict[str, float], backend: WorkerBackend) -> None:
    """A guest that was asked to end cannot use the grace for what it may not do before."""
    code = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(0.6)\n" + work
    bounds = Limits(wall_s=0.4, grace_s=20.0, **limits)  # type: ignore[arg-type]  # each is of its field's type
    request = RunRequest(code=code, runtime="python", tier="worker", limits=bounds)
    report = drive(backend.run(request, Staged(), None))
    assert report.outcome.kind is OutcomeKind.TIMEOUT
    assert report.usage.wall_s < 10


def test_no_grace(backend: WorkerBackend, mark: str) -> None:
    """With none, nobody is asked."""
    report = run(backend, PREFIX.format(mark=mark) + ASKED + ANSWERS["writes and stays"] + WAIT, 0.5, grace_s=0.0)
    assert report.outcome.kind is OutcomeKind.TIMEOUT
    assert "late" not in report.files


def test_a_caller_who_ignores_the_signal(backend: WorkerBackend, mark: str) -> None:
    """What a caller ignores or holds back is inherited by programs, but not by workers."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    held = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        report = run(backend, PREFIX.format(mark=mark) + WAIT, wall_s=0.3, grace_s=20.0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        signal.signal(signal.SIGTERM, before)
    assert report.outcome.kind is OutcomeKind.TIMEOUT
    assert report.usage.wall_s < 10


def test_a_task_that_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    """The worker is asked to end there too, and has ended when the task has."""
    (tmp_path / "home").mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    sign = tmp_path / "sign"
    late = f"signal.signal(signal.SIGTERM, lambda *_: (open({str(sign)!r}, 'w').close(), os._exit(0)))\n"

    async def main() -> None:
        backend = WorkerBackend(waiting=LoopWaiting(), firewall=False, ready=0)
        begun = asyncio.Event()
        request = RunRequest(
            code=PREFIX.format(mark=mark) + late + LEAVERS["child"] + WAIT,
            runtime="python", tier="worker", limits=Limits(wall_s=60.0, grace_s=10.0),
        )  # fmt: skip
        try:
            task = asyncio.create_task(backend.run(request, Staged(), lambda name, data: begun.set()))
            await begun.wait()
            # A program that has just been started is there for a moment before its arguments are.
            assert there_within(mark, 5.0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert sign.exists()
            assert living(mark) == []
        finally:
            await backend.aclose()

    asyncio.run(main())


def test_a_caller_that_ends_in_the_grace(mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A grace is the caller's to give: with the caller gone, everything ends at once."""
    (tmp_path / "home").mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    ending = "signal.signal(15, lambda *_: print('asked', flush=True))\ntime.sleep(0.3)\n" + WAIT.replace(
        "begun\\n", ""
    )
    script = _HOST.replace("Limits(wall_s=100.0)", "Limits(wall_s=0.3, grace_s=50.0)")
    host, line = start_host(script, PREFIX.format(mark=mark) + LEAVERS["ignores"] + ending, "run", tmp_path)
    try:
        assert host.stdout is not None
        while line and line != "asked\n":
            line = host.stdout.readline()
        assert line
        assert there_within(mark, 5.0)
        os.kill(host.pid, signal.SIGKILL)
        host.wait()
        assert gone_within(mark, 1.0)
    finally:
        host.kill()
        host.wait()
        host.stdout.close()
    runtime.claim().release()


def test_a_keeper_that_was_ended(backend: WorkerBackend, mark: str) -> None:
    """A guest may end its keeper, which is a process of its user: the worker goes with it."""
    report = run(backend, PREFIX.format(mark=mark) + "os.kill(os.getppid(), 9)\ntime.sleep(60)\n")
    assert report.outcome.kind is OutcomeKind.CRASHED


def test_a_keeper_that_was_stopped(backend: WorkerBackend, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keeper that does not answer is ended with everything below it."""
    monkeypatch.setattr("fastness.backends.worker_process._KEEPER_S", 0.5)
    code = PREFIX.format(mark=mark) + LEAVERS["daemon"] + "os.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(60)\n"
    report = run(backend, code)
    assert report.outcome.kind is OutcomeKind.TIMEOUT
    assert gone_within(mark, 1.0)


def test_folders_go_with_their_runs(backend: WorkerBackend) -> None:
    run(backend, "open('left', 'w').write('x'); import os; os.mkdir('d', 0)")
    assert backend._stock.owner is not None
    assert os.listdir(backend._stock.owner.folder) == []


_HOST = """
import sys
from fastness.backends.base import Staged
from fastness.backends.worker import WorkerBackend
from fastness.limits import Limits
from fastness.runs import RunRequest
from fastness.looping import LoopWaiting
from fastness.waiting import ThreadWaiting, drive
backend = WorkerBackend(waiting=ThreadWaiting(), firewall=False, ready=0)
def told(name, data):
    print(data.decode().strip(), flush=True)
how, file = sys.argv[1:]
code = open(file).read()
request = RunRequest(code=code, runtime="python", tier="worker", limits=Limits(wall_s=100.0))
if how == "session":
    session = drive(backend.open_session(request))
    drive(session.execute(request, Staged(), told))
    import time
    time.sleep(100)
if how == "forked":
    import os, time
    def told(name, data):
        if os.fork() == 0:
            # A copy of the host that holds all its descriptors and lives on.
            print("forked", flush=True)
            time.sleep(30)
            os._exit(0)
drive(backend.run(request, Staged(), told))
"""


def start_host(script: str, code: str, how: str, folder: Path) -> tuple[subprocess.Popen[str], str]:
    """A host that runs ``code``, which is not among its arguments: those are what processes are looked for by."""
    (folder / "code").write_text(code)
    host = subprocess.Popen(
        [sys.executable, "-c", script, how, str(folder / "code")],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert host.stdout is not None
    return host, host.stdout.readline()


@pytest.mark.parametrize("how", ["run", "session", "forked"])
@pytest.mark.parametrize("leaver", ["child", "daemon", "stopped", "ignores"])
def test_a_host_that_is_killed(
    how: str, leaver: str, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL to the host, and within a second nothing of it is left; its folders go with the next host."""
    (tmp_path / "home").mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    ending = "print('begun', flush=True)\n" + ("" if how == "session" else "time.sleep(60)\n")
    host, line = start_host(_HOST, PREFIX.format(mark=mark) + LEAVERS[leaver] + ending, how, tmp_path)
    try:
        assert line in ("begun\n", "forked\n")
        assert there_within(mark, 5.0)
        os.kill(host.pid, signal.SIGKILL)
        host.wait()
        assert gone_within(mark, 1.0)
    finally:
        os.killpg(host.pid, signal.SIGKILL) if how == "forked" else host.kill()
        host.wait()
        assert host.stdout is not None
        host.stdout.close()
    assert len(runtime.dead_owners()) == 1
    runtime.claim().release()
    assert list((tmp_path / "home" / "runtime").iterdir()) == []


@pytest.mark.parametrize("after_s", [0.0, 0.03, 0.06, 0.1, 0.15, 0.25])
def test_a_host_that_is_killed_while_a_worker_starts(
    after_s: float, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whatever moment the host ends, the keeper and the worker do too."""
    home = tmp_path / ("home-" + mark)
    home.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(home))
    script = _HOST.replace("request = RunRequest(", "print('ready', flush=True)\nrequest = RunRequest(", 1)
    host, line = start_host(script, PREFIX.format(mark=mark) + "time.sleep(60)\n", "run", tmp_path)
    assert line == "ready\n"
    time.sleep(after_s)
    # Told from others' by the folder in the worker's environment, and by their parent.
    below = procs.descendants(host.pid)
    host.kill()
    host.wait()
    assert host.stdout is not None
    host.stdout.close()
    end = time.monotonic() + 2
    while alive := [pid for pid in below if procs.start_time(pid) is not None and _state(pid) not in "ZX"]:
        assert time.monotonic() < end, alive
        time.sleep(0.02)
    assert gone_within(str(home), 1.0)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"

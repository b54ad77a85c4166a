"""
Nothing that comes of a worker outlives it: whatever it starts, whatever it ignores, and however its host ends.

The module firewall is off here: what is under test is what holds where it was undone.
"""

from __future__ import annotations

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
PREFIX = "import os, signal, subprocess, sys, time\nLIVE = 'import time; time.sleep(300)'\nMARK = {mark!r}\n"
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


def run(backend: WorkerBackend, code: str, wall_s: float = 1.5) -> Report:
    request = RunRequest(code=code, runtime="python", tier="worker", limits=Limits(wall_s=wall_s))
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


@pytest.mark.parametrize("leaver", LEAVERS)
def test_after_a_run_nothing_of_it_lives(leaver: str, backend: WorkerBackend, mark: str) -> None:
    """When the result is there, all that the run has started has ended."""
    report = run(backend, PREFIX.format(mark=mark) + LEAVERS[leaver])
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
    assert backend._owner is not None
    assert os.listdir(backend._owner.folder) == []


_HOST = """
import sys
from fastness.backends.base import Staged
from fastness.backends.worker import WorkerBackend
from fastness.limits import Limits
from fastness.runs import RunRequest
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
        deadline = time.monotonic() + 5
        while not (before := living(mark)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert before
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

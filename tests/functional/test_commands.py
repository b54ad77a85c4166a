"""
Any program in ``isolated``: its input, its ends, its limits, its processes, and what it leaves.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import fastness
import house
from fastness import OutcomeKind

pytestmark = pytest.mark.tiers("isolated")

Run = Callable[..., fastness.RunResult]


@pytest.fixture
def run(box: fastness.Sandbox) -> Run:
    """``run("ls", "-l", timeout=1)``: one program with its arguments."""
    house.require("control groups")

    def one(*command: str, **options: Any) -> fastness.RunResult:
        return box.run(command=list(command), **options)

    return one


def has(program: str) -> bool:
    """Whether the machine has such a program in the folders that guests see."""
    return shutil.which(program, path="/usr/local/bin:/usr/bin:/bin") is not None


# starting and ending


def test_output_and_status(run: Run) -> None:
    """Both streams, the status, and what the run was."""
    result = run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
    assert (result.outcome.kind, result.outcome.detail) == (OutcomeKind.GUEST_ERROR, "exit status 3")
    assert (result.tier, result.runtime, result.value, result.state) == ("isolated", "command", None, "none")
    assert "NO_EXEC" not in result.guarantees and "NO_EXEC" not in result.layers
    assert run("true").ok and not run("false").ok


@pytest.mark.parametrize(
    ("command", "status"),
    [(("no-such-program",), 127), (("/no/such",), 127), (("/",), 126), (("/etc/passwd",), 126), (("./data",), 126)],
)
def test_what_cannot_be_started(command: tuple[str, ...], status: int, run: Run) -> None:
    """127 for what is not there, 126 for what is no program, as a shell says."""
    result = run(*command, files={"data": "x"})
    assert (result.outcome.kind, result.exit_code) == (OutcomeKind.GUEST_ERROR, status)
    assert result.stderr.startswith(command[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGPIPE])
def test_ended_by_a_signal(number: signal.Signals, run: Run) -> None:
    """It is told by number and name."""
    result = run("sh", "-c", f"echo before; kill -{int(number)} $$")
    assert (result.outcome.kind, result.outcome.signal, result.exit_code) == (OutcomeKind.CRASHED, number, None)
    assert number.name in result.outcome.detail
    assert result.stdout == "before\n"


def test_it_starts_clean(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals, descriptors, session, folder and environment are those of a program that somebody has just started."""
    monkeypatch.setenv("OF_THE_HOST", "1")
    result = run("sh", "-c", "env; pwd; echo $(ls /proc/self/fd); umask", env={"GIVEN": "2", "TERM": "mine"})
    lines = result.stdout.splitlines()
    assert {"GIVEN=2", "TERM=mine", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8"} <= set(lines)
    assert "OF_THE_HOST" not in result.stdout
    # The streams, and the folder that is being listed.
    assert lines[-3:] == ["/work", "0 1 2 3", "0022"]
    ignored = run("grep", "-E", "SigIgn|SigBlk", "/proc/self/status").stdout
    assert [int(line.split()[1], 16) for line in ignored.splitlines()] == [0, 0]
    assert run("sh", "-c", "yes | head -1").stdout == "y\n"


def test_input(run: Run) -> None:
    """Input of any size arrives whole; none is an empty one; what is not read does no harm."""
    data = os.urandom(3 << 20)
    assert run("sha256sum", stdin=data).stdout.split()[0] == hashlib.sha256(data).hexdigest()
    assert run("cat").stdout == ""
    assert run("head", "-c", "3", stdin=data).stdout_bytes == data[:3]
    assert run("true", stdin=data).ok
    assert run("sh", "-c", "read a; read b; echo $b$a", stdin="one\ntwo\n").stdout == "twoone\n"


def test_streams_by_name(run: Run) -> None:
    """Scripts write to /dev/stderr and read from /dev/stdin, whether there is any input or none."""
    result = run(
        "sh", "-c", "cat /dev/stdin; echo o > /dev/stdout; echo e > /dev/stderr; echo t | tee /dev/fd/2", stdin="i\n"
    )
    assert (result.stdout, result.stderr) == ("i\no\nt\n", "e\nt\n")
    result = run("sh", "-c", "cat /dev/stdin && exec 2> /dev/stdout && echo x >&2")
    assert (result.stdout, result.stderr, result.ok) == ("x\n", "", True)


def test_scripts(run: Run) -> None:
    """A file of the run's own can be made a program and started, by name and by its first line."""
    code = "printf '#!/bin/sh\\necho script $1\\n' > s; chmod +x s; ./s one; sh s two"
    result = run("sh", "-c", code)
    assert result.stdout == "script one\nscript two\n"
    assert set(result.files) == {"s"}


# processes


def test_it_has_processes_of_its_own(run: Run) -> None:
    """It sees its own processes and no others, and has a name."""
    result = run("sh", "-c", "sleep 5 & ls -d /proc/[0-9]* | wc -l; id -un; echo $PPID")
    count, name, parent = result.stdout.split()
    assert int(count) <= 5
    assert (name, parent) == ("guest", "1")


def test_children_end_with_it(run: Run) -> None:
    """What it leaves running ends with it, at once, whatever session it is in; its output until then is kept."""
    began = time.monotonic()
    result = run(
        "sh", "-c", "setsid sleep 60 & nohup sleep 60 >/dev/null 2>&1 & (trap '' TERM HUP; sleep 60) & echo out"
    )
    assert (result.outcome.kind, result.stdout) == (OutcomeKind.OK, "out\n")
    assert time.monotonic() - began < 5


def test_orphans_are_reaped(run: Run) -> None:
    """Hundreds of orphans, a few at a time, do not fill the table of processes."""
    code = "i=0; while [ $i -lt 150 ]; do (true &); i=$((i + 1)); done; sleep 0.1; echo done"
    assert run("sh", "-c", code, limits={"pids": 20}).stdout == "done\n"


def test_processes_are_capped(run: Run) -> None:
    """A program that starts too many is told so; the next run works."""
    result = run("sh", "-c", "for i in $(seq 100); do sleep 5 & done; wait", limits={"pids": 10}, timeout=5)
    assert result.outcome.kind in (OutcomeKind.GUEST_ERROR, OutcomeKind.TIMEOUT)
    assert "fork" in result.stderr
    assert run("true").ok


def test_shared_memory_and_pipes(run: Run) -> None:
    """Named pipes, process substitution, and semaphores of a pool of processes."""
    if not has("bash"):
        house.lacks("there is no bash here")
    result = run("bash", "-c", "cat <(echo one); mkfifo /tmp/f; (echo two > /tmp/f &); cat /tmp/f")
    assert result.stdout == "one\ntwo\n"
    code = "import multiprocessing as m\nif __name__ == '__main__':\n  with m.Pool(2) as p: print(p.map(abs, [-1, -2]))"
    result = run("python3", "-c", code)
    assert result.stdout == "[1, 2]\n", result.stderr


def test_java(run: Run) -> None:
    """A program whose settings its distribution keeps in /etc, and which starts threads for each processor."""
    if not has("javac"):
        pytest.skip("optional: there is no javac here")
    code = "public class A { public static void main(String[] a) { System.out.println(6 * 7); } }"
    result = run(
        "sh", "-c", "javac A.java && java A", files={"A.java": code}, memory="1G", limits={"pids": 200}, timeout=60
    )
    assert result.stdout == "42\n", result.stderr


# limits


def test_out_of_time(run: Run) -> None:
    """It is asked to end, and what handles that may still write; what does not is ended after the grace."""
    result = run("sh", "-c", "trap 'echo asked; exit 0' TERM; while :; do sleep 0.02; done", timeout=0.4)
    assert (result.outcome.kind, result.stdout, result.exit_code) == (OutcomeKind.TIMEOUT, "asked\n", None)
    assert result.usage.wall_s < 2
    began = time.monotonic()
    result = run("sh", "-c", "trap '' TERM; while :; do sleep 0.02; done", timeout=0.4, limits={"grace_s": 0.3})
    assert result.outcome.kind is OutcomeKind.TIMEOUT
    assert 0.6 < time.monotonic() - began < 4
    result = run("sh", "-c", "echo > kept; trap '' TERM; sleep 60 & sleep 60", timeout=0.4, limits={"grace_s": 0})
    assert (result.outcome.kind, list(result.files)) == (OutcomeKind.TIMEOUT, ["kept"])


def test_memory(run: Run) -> None:
    """Whether one process takes it or many, the whole is capped, and what was used is told."""
    for code in ("x = bytearray(1 << 31)", "x = []\nwhile True: x.append(bytearray(1 << 20))"):
        result = run("python3", "-c", code, memory="64M", limits={"file_bytes": 1 << 20})
        kinds = (OutcomeKind.MEMORY, OutcomeKind.GUEST_ERROR)
        assert result.outcome.kind in kinds and ("MemoryError" in result.stderr or result.outcome.kind is kinds[0])
    result = run("python3", "-c", "x = bytearray(100 << 20)\nx[::4096] = b'1' * len(x[::4096])")
    assert result.usage.memory > 90 << 20


def test_processor_time(run: Run) -> None:
    """It is that of all processes together."""
    result = run("sh", "-c", "(while :; do :; done) & while :; do :; done", limits={"cpu_s": 0.4}, timeout=10)
    assert result.outcome.kind is OutcomeKind.CPU
    assert result.usage.cpu_s >= 0.4
    assert run("sleep", "0.3").usage.cpu_s < 0.2


def test_disk(run: Run) -> None:
    """Its work folder, its temporary folder and its shared memory are one tree with one cap, on bytes and on files."""
    limits = {"file_bytes": 1 << 20, "files": 50}
    for place in ("/work", "/tmp", "/dev/shm"):  # of the guest
        result = run(
            "sh", "-c", f"cat big > {place}/one; echo x > {place}/two", limits=limits, files={"big": bytes(600_000)}
        )
        assert not result.ok
        assert "space" in result.stderr or "large" in result.stderr
    result = run("sh", "-c", "for i in $(seq 100); do : > f$i || exit 9; done", limits=limits)
    assert not result.ok
    assert 40 <= len(result.files) <= 50


def test_output_limits(run: Run) -> None:
    """Head and tail are kept; past the total it is ended."""
    result = run(
        "sh", "-c", "echo HEAD; head -c 5000000 /dev/zero | tr '\\0' x; echo TAIL", limits={"output_bytes": 1000}
    )
    assert result.stdout.startswith("HEAD") and result.stdout.endswith("TAIL\n")
    assert result.outcome.dropped_bytes == 5_000_010 - 1000
    result = run("yes", limits={"output_total_bytes": 10_000})
    assert result.outcome.kind is OutcomeKind.OUTPUT_LIMIT
    assert result.usage.stdout_bytes == len(result.stdout) == 10_000


def test_no_network(run: Run) -> None:
    """There is none, not even to itself, and the attempt is a row."""
    code = "import socket\ntry: socket.create_connection(('127.0.0.1', 9))\nexcept OSError as e: print(e.errno)"
    result = run("python3", "-c", code)
    assert result.stdout == "97\n"
    assert [(row.capability, row.operation, row.claimed) for row in result.denials] == [("net", "socket", False)]


def test_rows_that_are_left_out_are_counted(run: Run) -> None:
    """Refused calls fill the rows that a result has; those of special files are then a number."""
    code = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None)\n"
        "for family in range(2, 200): libc.socket(family, 1, 0)\n"
        "for name in 'abc': os.mkfifo(name)\n"
    )
    result = run("python3", "-c", code)
    assert result.ok, result.stderr
    assert {row.operation for row in result.denials} == {"socket"}
    assert (len(result.denials), result.usage.denials_dropped) == (64, 3)


# events and cancelling


def test_output_comes_as_it_is_written(run: Run) -> None:
    """Each piece is heard while the program runs."""
    heard: list[tuple[float, bytes]] = []
    run(
        "sh",
        "-c",
        "for i in 1 2 3; do echo $i; sleep 0.15; done",
        on_event=lambda n, d: heard.append((time.monotonic(), d)),
    )
    assert b"".join(data for _, data in heard) == b"1\n2\n3\n"
    assert heard[-1][0] - heard[0][0] > 0.2


@pytest.mark.usefixtures("run")
def test_cancelled(box: fastness.Sandbox, tier: str) -> None:
    """From another thread, and with the task that waits for it; the program is not asked but killed at once."""
    canceller = threading.Thread(target=box.cancel)
    result = box.run(
        command=["sh", "-c", "trap 'echo asked' TERM; echo go; while :; do sleep 0.05; done"],
        timeout=100,
        limits={"grace_s": 60},
        on_event=lambda *event: canceller.start(),
    )
    canceller.join()
    assert (result.outcome.kind, result.stdout) == (OutcomeKind.CANCELLED, "go\n")
    assert result.usage.wall_s < 30

    async def main() -> None:
        async with fastness.AsyncSandbox(tier=tier) as own:
            with anyio.CancelScope() as scope:
                command = ["sh", "-c", "echo go; sleep 60"]
                await own.run(command=command, timeout=60, on_event=lambda *event: scope.cancel())
            assert scope.cancelled_caught
            assert (await own.run(command=["echo", "next"])).stdout == "next\n"

    anyio.run(main)


@pytest.mark.usefixtures("run")
def test_many_at_once(box: fastness.Sandbox) -> None:
    """Ten programs beside each other, each with its own files."""
    results: dict[int, str] = {}

    def work(number: int) -> None:
        command = ["sh", "-c", "cat in; sleep 0.1; echo $0", str(number)]
        results[number] = box.run(command=command, files={"in": f"{number}+"}).stdout

    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: f"{number}+{number}\n" for number in range(10)}


# files


def test_changes(run: Run) -> None:
    """Added, changed, deleted, links, and special files, which stay behind as rows."""
    code = (
        "echo more >> a; rm b; mkdir -p d/e; echo new > d/e/f; ln -s a link; mkfifo pipe; mv c d/c; "
        "ln -s /etc/passwd out; chmod 000 d/e/f; echo x > /tmp/not"
    )
    result = run("sh", "-c", code, files={"a": "1\n", "b": "2", "c": "3", "same": "s"})
    assert result.ok, result.stderr
    assert result.changes.added == ("d/c", "d/e/f", "link", "out")
    assert (result.changes.changed, result.changes.deleted) == (("a",), ("b", "c"))
    assert result.changes.links == {"link": "a", "out": "/etc/passwd"}
    assert {path: file.read() for path, file in result.files.items()} == {
        "a": b"1\nmore\n", "d/c": b"3", "d/e/f": b"new\n",
    }  # fmt: skip
    assert [(row.target, row.layer) for row in result.denials] == [("pipe", "collect")]


@pytest.mark.parametrize(
    "options",
    [
        {"command": []},
        {"command": "ls -l"},
        {"command": [""]},
        {"command": ["a\0b"]},
        {"command": ["ls"], "preload": ["json"]},
        {"command": ["ls"], "args": ["x"]},
        {"command": ["ls"], "seed": 1},
        {"command": ["ls"], "time": 1.0},
        {"command": ["ls"], "packages": ["/usr/lib"]},
        {"command": ["ls"], "filename": "x"},
        {"command": ["ls"], "work": "/no/such/folder"},
    ],
)
def test_what_makes_no_sense(options: dict[str, Any], box: fastness.Sandbox) -> None:
    """An option that means nothing to a program is refused, and nothing runs."""
    with pytest.raises((fastness.ConfigurationError, fastness.StagingError)):
        box.run(**options)


def test_a_program_has_no_session(box: fastness.Sandbox) -> None:
    """State that a program keeps is in files."""
    with pytest.raises(fastness.ConfigurationError), box.session(runtime="command"):
        pass


@pytest.mark.usefixtures("run")
def test_a_project_from_its_folder(box: fastness.Sandbox, tmp_path: Path) -> None:
    """The folder is copied, never written, and its secrets stay outside."""
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    (project / "sub/a").write_text("1")
    (project / ".env").write_text("SECRET=1")
    (project / "tool").write_text("#!/bin/sh\necho $0 ran\n")
    (project / "tool").chmod(0o755)
    result = box.run(command=["sh", "-c", "./tool; ls -A; echo 2 > sub/a; rm tool"], work=project, files={"extra": "x"})
    assert result.stdout == "./tool ran\nextra\nsub\ntool\n", result.stderr
    assert (result.changes.changed, result.changes.deleted) == (("sub/a",), ("tool",))
    assert list(result.changes.left_out) == [".env"]
    assert (project / "sub/a").read_text() == "1"
    assert sorted(os.listdir(project)) == [".env", "sub", "tool"]
    applied = result.apply()
    assert (applied.changed, applied.deleted) == (("sub/a",), ("tool",))
    assert (project / "sub/a").read_text() == "2\n"
    assert sorted(os.listdir(project)) == [".env", "sub"]

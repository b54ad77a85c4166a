"""
What a native guest may use and what it used: memory, processor time, output, and the rows of what it was refused.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time

import pytest

import fastness
import house
from fastness import OutcomeKind

pytestmark = pytest.mark.tiers("isolated", "confined")


# limits and what was used


def test_memory(box: fastness.Sandbox) -> None:
    """Uncaught it is the outcome, caught it is nothing; slowly or at once, in Python or in a library."""
    for code in (
        "bytearray(1 << 40)",
        "x = bytearray(200 << 20)",
        "x = []\nwhile True: x.append(bytearray(1 << 16))",
        "x = {}\nwhile True: x[len(x)] = str(len(x)) * 10",
        "import mmap; m = mmap.mmap(-1, 200 << 20); m[::4096] = b'x' * len(m[::4096]); x = bytearray(200 << 20)",
        "raise MemoryError",
    ):
        result = box.run(code, memory="64M", timeout=10)
        assert result.outcome.kind is OutcomeKind.MEMORY, (code, result.outcome)
        with pytest.raises(fastness.LimitExceeded):
            result.raise_for_outcome()
    result = box.run(
        "try: bytearray(200 << 20)\nexcept MemoryError: print('caught')\nlen(bytearray(20 << 20))", memory="64M"
    )
    assert (result.stdout, result.value) == ("caught\n", 20 << 20)


def test_usage(box: fastness.Sandbox) -> None:
    """Memory at its most, processor time and time are the kernel's figures."""
    idle = box.run("import time; time.sleep(0.3)").usage
    assert idle.cpu_s < 0.2
    assert 0.3 <= idle.wall_s < 2
    busy = box.run(
        "x = bytearray(100 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\ndel x\nsum(range(3_000_000))"
    ).usage
    assert busy.memory - idle.memory > 90 << 20
    assert 0.03 < busy.cpu_s <= busy.wall_s * 2
    ended = box.run(
        "x = bytearray(100 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nwhile True: pass", timeout=1
    ).usage
    assert ended.memory > 90 << 20
    assert 0.05 < ended.cpu_s < 3


@pytest.mark.parametrize(("limits", "code", "kind"), [
    ({"cpu_s": 0.05, "wall_s": 5}, "import time\nwhile time.process_time() < 0.15: pass", OutcomeKind.CPU),
    ({"wall_s": 0.05}, "import time; time.sleep(0.15)", OutcomeKind.TIMEOUT),
])  # fmt: skip
def test_a_caller_that_looks_late(
    limits: dict[str, float], code: str, kind: OutcomeKind, box: fastness.Sandbox
) -> None:
    """Its loop is held up while the guest goes on past its time and answers: the time was over all the same."""
    tier = box.run("1").tier

    async def main() -> None:
        async with fastness.AsyncSandbox(tier=tier, pool=0) as own:
            await own.run("1")
            for pause in (0.0, 0.0005, 0.001, 0.0015, 0.002, 0.003):
                run = asyncio.ensure_future(own.run(code, limits=fastness.Limits(**limits)))  # type: ignore[arg-type]
                await asyncio.sleep(pause)
                time.sleep(0.2)  # noqa: ASYNC251  # the loop is held up
                result = await run
                # Where it had not been asked for before the pause, it had all its time after it.
                assert result.outcome.kind in (kind, OutcomeKind.OK)
                if result.outcome.ok:
                    assert result.usage.cpu_s < 0.05 or kind is not OutcomeKind.CPU
                    assert result.usage.wall_s < 0.05 or kind is not OutcomeKind.TIMEOUT
                seen.append(result.outcome.kind)

    seen: list[OutcomeKind] = []
    asyncio.run(main())
    assert kind in seen


def test_processor_time_is_never_nothing(box: fastness.Sandbox) -> None:
    """A guest that had not begun when it was told its work had used nothing then, which is a figure too."""
    with fastness.Sandbox(tier=box.run("1").tier, pool=0) as own:
        for _ in range(60):
            assert own.run("sum(range(200_000))").usage.cpu_s > 0.001


def test_processor_time_of_all_threads(box: fastness.Sandbox) -> None:
    """Time asleep costs none, and threads count together."""
    code = "import hashlib, threading\ndef f():\n  while True: hashlib.sha256(bytes(1 << 20)).digest()\nfor _ in range(2): threading.Thread(target=f).start()"
    result = box.run(code, limits={"cpu_s": 0.5}, timeout=10)
    assert result.outcome.kind is OutcomeKind.CPU
    assert result.usage.cpu_s >= 0.5
    assert result.usage.wall_s < 5


def test_output_that_is_not_kept(box: fastness.Sandbox) -> None:
    """Of 64 MB the head and the tail are kept, the rest is counted."""
    code = "import os\nsum(os.write(1, piece) for piece in (b'HEAD', *[b'x' * (1 << 20)] * 64, b'TAIL'))"
    total = (64 << 20) + 8
    result = box.run(code, limits={"output_bytes": 10_000})
    assert (result.value, result.usage.stdout_bytes) == (total, total)
    assert result.outcome.dropped_bytes == total - 10_000
    assert result.stdout.startswith("HEADxx") and result.stdout.endswith("xxTAIL")


@pytest.mark.tiers("isolated")
def test_the_limit_that_was_met_is_named(box: fastness.Sandbox) -> None:
    """Files or their bytes, or threads; an error of the program's own making gets no such words."""
    full = box.run("for i in range(100): open(f'{i}', 'w').close()", limits={"files": 20}).outcome
    assert (full.kind, full.detail.endswith("; it met its limit of 20 files and folders (files)")) == ("disk", True)
    large = box.run("open('big', 'wb').write(bytes(1 << 21))", limits={"file_bytes": 1 << 20}).outcome
    assert (large.kind, large.detail.endswith("; its files met their limit of 1M (file_bytes)")) == ("disk", True)
    start = "import threading, time\nfor _ in range(40): threading.Thread(target=time.sleep, args=(5,), daemon=True).start()"
    many = box.run(start, limits={"pids": 20}).outcome
    assert many.detail == "RuntimeError: can't start new thread; it met its limit of 20 processes and threads (pids)"
    assert box.run("raise OSError(28, 'mine')").outcome.detail == "OSError: [Errno 28] mine"


@pytest.mark.tiers("confined")
def test_what_is_written_between_two_executes(box: fastness.Sandbox) -> None:
    """Nobody looks then, so a thread may write past its limit; the next execute ends for it, as ``disk``."""
    if os.geteuid():
        pytest.skip("only root sees which folder another user's process works in")
    code = (
        "import os, threading\n"
        "def work():\n"
        "    begin.wait()\n"
        "    for name in 'abc':\n"
        "        with open(name, 'wb') as file: file.write(bytes(900_000))\n"
        "begin = threading.Event()\n"
        "threading.Timer(0.1, begin.set).start()\n"
        "threading.Thread(target=work).start()\n"
        "os.getpid()"
    )
    with box.session(limits={"file_bytes": 1 << 20}) as session:
        pid = session.execute(code).value
        end = time.monotonic() + 10
        while written(pid) < 2_700_000 and time.monotonic() < end:
            time.sleep(0.02)
        assert written(pid) == 2_700_000
        result = session.execute("1")
        assert (result.outcome.kind, result.state) == (OutcomeKind.DISK, "lost")


def written(pid: int) -> int:
    """Bytes of the files in the folder that a guest works in."""
    with os.scandir(f"/proc/{pid}/cwd") as entries:
        return sum(entry.stat().st_size for entry in entries)


# what the kernel counts, and locks


def test_signals_that_wait_are_counted(box: fastness.Sandbox) -> None:
    """A guest can have no more than 256 wait; the kernel keeps one more of each kind without an account of it."""
    code = (
        "import os, signal\n"
        "number = signal.SIGRTMIN\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [number])\n"
        "for _ in range(1000): os.kill(os.getpid(), number)\n"
        "waited = 0\n"
        "while signal.sigtimedwait([number], 0): waited += 1\n"
        "waited"
    )
    assert 1 <= box.run(code).value <= 257


def test_a_lock_of_a_python_guest_does_nothing(box: fastness.Sandbox) -> None:
    """``flock`` of a file that guests and the host can read keeps nobody from it while the guest runs."""
    code = (
        "import fcntl, os, time\n"
        "file = os.open(os.__file__, os.O_RDONLY)\n"
        "try: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError: pass\n"
        "print(os.fstat(file).st_ino, flush=True)\n"
        "time.sleep(0.3)\n"
    )
    taken = []

    def go(name: str, data: object) -> None:
        # Raises where somebody has it, and ends the run with that.
        with open(os.__file__, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken.append(os.fstat(file.fileno()).st_ino)

    result = box.run(code, on_event=go)
    assert taken == [int(result.stdout)], result.stderr


@pytest.mark.tiers("isolated")
def test_programs_watch_no_files(box: fastness.Sandbox) -> None:
    """The system's folders are the machine's own, so a watch would tell which programs others start."""
    house.require("control groups")
    code = "import ctypes; print(ctypes.CDLL(None).inotify_init())"
    result = box.run(command=["python3", "-c", code])
    assert result.stdout == "-1\n", result.stderr
    assert [row.operation for row in result.denials] == ["inotify_init"]


# refusals


def test_refusals_are_rows(box: fastness.Sandbox) -> None:
    """A refused system call is a row of the host's, by name, kind and detail; equal ones are one row with a count."""
    code = (
        "import os, socket\n"
        "for _ in range(3):\n"
        "    for act in (lambda: socket.socket(), os.fork, lambda: os.execv('/bin/true', ['true'])):\n"
        "        try: act()\n"
        "        except OSError as error: assert error.errno == 1\n"
    )
    result = box.run(code)
    assert result.ok, result.stderr
    rows = {(row.capability, row.operation, row.target, row.count) for row in result.denials}
    assert rows == {("net", "socket", "AF_INET", 3), ("process", "clone", "process", 3), ("process", "execve", "", 3)}
    assert all(
        (row.code, row.layer, row.claimed) == (fastness.DenialCode.SYSCALL, "seccomp", False) for row in result.denials
    )
    assert box.run("1").denials == ()
    # What a run did before it was ended is told as well.
    assert box.run("import socket\ntry: socket.socket()\nexcept OSError: pass\nwhile True: pass", timeout=0.3).denials


def test_rows_are_capped(box: fastness.Sandbox) -> None:
    """Refusals past the last row are still refusals, and the result says that not all were recorded."""
    code = "import ctypes\nlibc = ctypes.CDLL(None)\n{libc.socket(family, 1, 0) for family in range(2, 200)}"
    result = box.run(code)
    assert result.value_repr == "{-1}"
    assert len(result.denials) == 64
    assert result.layers["DENIALS_RECORDED"] == "partial"


def test_refusals_of_a_session(box: fastness.Sandbox) -> None:
    """They are told by the execute that met them."""
    code = "import socket\ntry: socket.socket()\nexcept OSError: pass"
    with box.session() as session:
        assert [row.count for row in session.execute(code).denials] == [1]
        assert session.execute("1").denials == ()
        assert [row.count for row in session.execute(code + "\n" + code).denials] == [2]

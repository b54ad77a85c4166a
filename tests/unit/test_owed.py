"""What a process owes its records is written by the next that looks, once, by whoever made it, and waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from fastness import owed
from fastness.audit import reading
from fastness.audit.log import AuditLog


def test_in_order_and_once() -> None:
    found: list[int] = []
    for number in range(5):
        owed.owe(lambda number=number: found.append(number))  # type: ignore[misc]  # mypy infers no default of a lambda
    owed.settle()
    owed.settle()
    assert found == [0, 1, 2, 3, 4]


def test_waits_for_another_thread() -> None:
    """What is off the list and not done yet is waited for."""
    begun, go = threading.Event(), threading.Event()
    found: list[str] = []

    def work() -> None:
        begun.set()
        go.wait(30)
        found.append("done")

    owed.owe(work)
    other = threading.Thread(target=owed.settle)
    other.start()
    assert begun.wait(30)
    threading.Timer(0.2, go.set).start()
    owed.settle()
    assert found == ["done"]
    other.join()


def test_one_that_owes_more() -> None:
    found: list[str] = []
    owed.owe(lambda: owed.owe(lambda: found.append("second")))
    owed.settle()
    assert found == ["second"]


def test_is_written_by_itself() -> None:
    """Whoever owes need not come back, again and again, also after a rest."""
    for pause in (0.0, 0.2):
        time.sleep(pause)
        done = threading.Event()
        owed.owe(done.set)
        assert done.wait(30)


def test_is_not_a_child_s() -> None:
    """A child has not done what its parent did, and writes nothing of it."""
    reader, writer = os.pipe()
    try:
        owed.owe(lambda: os.write(writer, b"%d\n" % os.getpid()))
        child = os.fork()
        if child == 0:
            owed.settle()
            os._exit(0)
        os.waitpid(child, 0)
        owed.settle()
        assert os.read(reader, 100) == b"%d\n" % os.getpid()
    finally:
        os.close(reader)
        os.close(writer)


def test_a_reader_misses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "trail"
    folder.mkdir(mode=0o700)
    log = AuditLog(str(folder / "audit.db"), str(folder / "audit.key"))
    try:
        owed.owe(lambda: log.event(op="end", code="ok"))
        assert [record.op for record in reading.records(log.path)] == ["end"]
        owed.owe(lambda: log.event(op="end", code="ok"))
        assert len(reading.last(log.path, count=5)) == 2
    finally:
        log.close()


def test_the_end_of_the_process(tmp_path: Path) -> None:
    """Nobody settled: it is written all the same."""
    place = tmp_path / "written"
    code = f"from fastness import owed; owed.owe(lambda: open({str(place)!r}, 'w').write('x'))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, env=environment, timeout=60)
    for _ in range(50):
        if place.exists():
            break
        time.sleep(0.1)
    assert place.read_text() == "x"

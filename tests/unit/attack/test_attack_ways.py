"""What attacks of a family share: their ways, the files and sockets that they are after, and who serves the next run."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from fastness.attack import library, serving, survivors, ways
from fastness.attack.arena import Arena
from fastness.attack.model import Effect
from fastness.attack.outside import Bare
from fastness.runs import Outcome, OutcomeKind, RunResult

THREE = """
def tries():
    yield lambda: print('FIRST')
    yield lambda: open('/no/such/file')
    yield lambda: print('THIRD')
"""


def arena(box: Any = None) -> Arena:
    return Arena("isolated", box)


def test_every_way_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    """One that fails does not keep the others from being tried."""
    with arena() as made:
        bare = made.outside.run(ways.every(THREE))
    assert [line for line in bare.stdout_bytes.split() if line.isupper()] == [b"WAYS", b"FIRST", b"THIRD"]
    assert bare.status == 0


def test_a_control_is_by_each_way() -> None:
    """One way that does nothing makes the control fail, and is named."""
    seen: list[bytes] = []

    def attempt(text: str) -> tuple[Bare, Effect]:
        with arena() as made:
            bare = made.outside.run(text)
        seen.append(bare.stdout_bytes)
        return bare, Effect(bool(re.search(rb"FIRST|THIRD|No such", bare.stdout_bytes)), "it spoke")

    assert ways.each(THREE, attempt) == Effect(True, "by each of its 3 ways: it spoke")
    assert [len(re.findall(rb"FIRST|THIRD|No such", said)) for said in seen] == [1, 1, 1]
    silent = THREE.replace("print('THIRD')", "None")
    assert ways.each(silent, attempt) == Effect(False, "by its way 2: it spoke")
    assert not ways.each("pass", attempt).happened


def test_a_file_is_changed_by_each_way() -> None:
    """Each has a file of its own, so that what one did is not taken for the work of another."""
    body = "def tries():\n    yield lambda: open(TARGET, 'a').write('x')\n    yield lambda: WHAT"

    def state(target: Path) -> object:
        return target.read_text()

    with arena() as made:
        assert library.outside(made, body.replace("WHAT", "__import__('os').truncate(TARGET, 0)"), state).happened
        assert not library.outside(made, body.replace("WHAT", "None"), state).happened


def test_a_guest_that_has_not_found_the_file_proves_nothing() -> None:
    """It cannot be told from one that was kept from changing it."""

    class Box:
        def run(self, code: str, **options: Any) -> RunResult:
            return RunResult(outcome=Outcome(OutcomeKind.GUEST_ERROR))

    with arena(Box()) as made, pytest.raises(LookupError):
        library.tried(made, "def tries(): yield", lambda target: 1)


def test_doors_note_who_comes() -> None:
    """A door says whether it was knocked at, and is closed with its arena."""
    with arena() as made:
        doors = [made.listen(), made.listen_locally("path")]
        bare = made.outside.run("pass")
        assert [door.knocked(bare).happened for door in doors] == [False, False]
    assert not os.path.exists(doors[1].address)  # type: ignore[attr-defined]  # the local one
    with arena() as made:
        door = made.listen_locally("name")
        knock = f"import socket; socket.socket(socket.AF_UNIX).connect({door.address!r})"
        assert door.knocked(made.outside.run(knock)) == Effect(True, "somebody knocked")
    with socket.socket(socket.AF_UNIX) as late, pytest.raises(ConnectionRefusedError):
        late.connect(door.address)


def test_who_serves_the_next_program() -> None:
    """An executor that ended, and one that goes on."""
    with arena() as made:
        assert serving.in_process(made, "import os; os._exit(0)").happened
        assert not serving.in_process(made, "1 / 0").happened


def test_what_lives_on_is_ended() -> None:
    """A control leaves nothing behind."""
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(8)', MARK])"
    with arena() as made:
        assert survivors.outside(made, made.python(code, MARK=made.token)).happened
        assert survivors._alive(made.token) == []
        assert not survivors.outside(made, "pass").happened

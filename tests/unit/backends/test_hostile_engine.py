"""
An engine that a guest has taken over can lie about its own guest and nothing else.

A program that speaks the protocol, or does not, stands in for the engine: whatever it sends, the caller gets a bounded
report or an error of ours, the process is gone, and what had come is kept.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

import house
from fastness.backends import conversation, engine_process
from fastness.backends.base import Staged
from fastness.backends.engine_process import EngineProcess
from fastness.errors import BackendError, FastnessError
from fastness.runner import request as requests
from fastness.runs import OutcomeKind
from fastness.waiting import ThreadWaiting, drive

#: Speaks as an engine does until the invoke has come, then runs the test's own lines.
_STAND_IN = f"""
import json, os, sys, time
sys.path.insert(0, {str(house.SOURCE)!r})
import _socket
from fastness.wire import frames as f
sock = _socket.socket(fileno=0)
parser = f.from_host()
def raw(data): sock.sendall(data)
def send(kind, head, blob=b""): raw(f.encode(kind, json.dumps(head).encode() if not isinstance(head, bytes) else head, blob))
def receive():
    while (frame := parser.next()) is None:
        data = sock.recv(1 << 16)
        if not data: os._exit(0)
        parser.feed(data)
    return frame
RESULT = dict(id=1, ending="returned", exit_code=None, trap="", usage={{}}, denials=[], denials_dropped=0, deleted=[],
              changes_dropped=0, stdout_len=0, stderr_len=0, payload_len=0, session_state="none")
def result(blob=b"", **fields): send(f.RESULT, {{**RESULT, "payload_len": len(blob), **fields}}, blob)
GOOD = b'{{"kind":"ok","value":1}}'
HELLO = dict(protocol=f.VERSION, guest="engine", pid=1)
READY = dict(layers={{}}, gaps=[], timings={{}})
"""
_GREETING = "send(f.HELLO, HELLO); receive(); send(f.READY, READY)\n"


class Met:
    """What a conversation came to."""

    def __init__(self, engine: EngineProcess) -> None:
        self.engine = engine
        self.report: Any = None
        self.reusable: bool | None = None
        self.error: BaseException | None = None
        self.heard: list[tuple[str, bytes]] = []


def meet(monkeypatch: pytest.MonkeyPatch, lines: str, *, greeting: str = _GREETING, **options: Any) -> Met:
    """Start a stand-in, send it one request and see what comes of it."""
    monkeypatch.setattr(engine_process, "_BOOT", _STAND_IN + greeting + "receive()\n" + lines + "\nos._exit(0)\n")
    waiting = ThreadWaiting()
    engine = EngineProcess.spawn([], waiting)
    met = Met(engine)

    async def main() -> None:
        await engine.start("python", {})
        made = requests.make("1", {"timeout": 5, **options}, {})
        talk = await conversation.converse(
            engine, waiting, engine.next_id(), made, Staged(), lambda *event: met.heard.append(event), "run"
        )
        met.report, met.reusable = talk.report, talk.reusable

    try:
        drive(main())
    except FastnessError as error:
        met.error = error
    finally:
        engine.close()
    assert not os.path.exists(f"/proc/{engine.pid}"), "the process was not reaped"
    return met


def test_the_stand_in_is_believable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a stand-in that behaves gives a good report, so what follows fails for its own reasons."""
    met = meet(monkeypatch, "send(f.EVENT, {'name': 'stdout'}, b'hi'); result(GOOD); receive()")
    assert (met.report.outcome.kind, met.report.value, met.report.stdout) == (OutcomeKind.OK, 1, b"hi")
    assert met.reusable is True
    assert met.heard == [("stdout", b"hi")]


_BROKEN = {
    "not a frame": "raw(b'\\xff' * 64)",
    "another version": "raw(b'\\x02' + f.encode(f.RESULT, b'{}', b'')[1:])",
    "a type of the host": "raw(bytes([1, 1]) + f.encode(f.RESULT, b'{}', b'')[2:])",
    "an unknown type": "raw(bytes([1, 0x7f]) + f.encode(f.RESULT, b'{}', b'')[2:])",
    "a head over the cap": "raw(f.encode(f.RESULT, b'x', b'')[:4] + (1 << 30).to_bytes(4, 'big') + bytes(4))",
    "a blob over the cap": "raw(f.encode(f.EVENT, b'x', b'')[:4] + (2).to_bytes(4, 'big') + b'\\xff' * 4)",
    "a head that is no JSON": "send(f.RESULT, b'{')",
    "a head nested deep": "send(f.RESULT, b'[' * 60000)",
    "a head of another shape": "send(f.RESULT, {'id': 1})",
    "an unknown field": "result(GOOD, extra=1)",
    "an unknown ending": "result(GOOD, ending='fine')",
    "a result for another run": "result(GOOD, id=2)",
    "a negative length": "result(GOOD, stdout_len=-1)",
    "lengths past the blob": "result(b'', stdout_len=1000)",
    "hello again": "send(f.HELLO, HELLO)",
    "ready again": "send(f.READY, READY)",
    "goodbye without a result": "send(f.BYE, {})",
    "a call": "send(f.CALL, {'id': 1, 'capability': 'fs', 'method': 'read'})",
    "a log line": "send(f.LOG, {'level': 'info', 'text': 'x'}) if hasattr(f, 'LOG') else raw(b'x' * 12)",
    "a path that leads out": "send(f.ARTEFACT, dict(id=1, path='../x', size=1, more=False, change='added'), b'x')",
    "an absolute path": "send(f.ARTEFACT, dict(id=1, path='/etc/x', size=1, more=False, change='added'), b'x')",
    "a path with NUL": "send(f.ARTEFACT, dict(id=1, path='a\\0b', size=1, more=False, change='added'), b'x')",
    "an empty path": "send(f.ARTEFACT, dict(id=1, path='', size=1, more=False, change='added'), b'x')",
    "an unknown change": "send(f.ARTEFACT, dict(id=1, path='x', size=1, more=False, change='made'), b'x')",
    "a file of another run": "send(f.ARTEFACT, dict(id=9, path='x', size=1, more=False, change='added'), b'x')",
    "too many files": "[send(f.ARTEFACT, dict(id=1, path=f'{i}', size=0, more=False, change='added')) for i in range(20)]",
    "too large files": "[send(f.ARTEFACT, dict(id=1, path='x', size=9 << 20, more=True, change='added'), b'x' * (1 << 20)) for i in range(9)]",
    "too much output": "[send(f.EVENT, {'name': 'stdout'}, b'x' * (1 << 20)) for i in range(9)]",
    "a number that is none": "result(GOOD, usage={'wall_us': 'x'})",
    "a denial of an unknown code": "result(GOOD, denials=[dict(operation='x', target='y', code='z', layer='w', count=1)])",
}  # fmt: skip


@pytest.mark.parametrize("what", list(_BROKEN))
def test_what_breaks_the_protocol(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output until then is kept; the run is ``protocol``, and the process is never used again."""
    before = "send(f.EVENT, {'name': 'stdout'}, b'before')\n"
    lines = f"{before}try:\n    {_BROKEN[what]}\n    time.sleep(10)\nexcept OSError: pass"
    limits = {"files": 10, "file_bytes": 4 << 20, "output_total_bytes": 1 << 20}
    met = meet(monkeypatch, lines, limits=limits)
    assert met.error is None
    assert met.report.outcome.kind is OutcomeKind.PROTOCOL, met.report.outcome
    assert met.report.outcome.detail and len(met.report.outcome.detail) <= 2000
    assert met.report.stdout.startswith(b"before")
    assert met.report.value is None
    assert met.reusable is False
    assert len(met.report.files) <= 10


#: As the stand-in writes them.
_BAD_ANSWERS = [
    'b"{"',
    'b"[]"',
    'b"\\xff"',
    'b"{}"',
    'b\'{"kind":"fine"}\'',
    'b\'{"kind":"ok","value":{"$":["int","xyz"]}}\'',
    'b\'{"kind":"ok","value":\' + b"[" * 100_000 + b"]" * 100_000 + b"}"',
    'b\'{"kind":"ok","value":1e999}\'',
    'b\'{"kind":"ok","unknown":1}\'',
    'b\'{"kind":"exception","error_type":5}\'',
    'b\'{"kind":"exit","exit_code":1e99}\'',
    'b\'{"kind":"ok","claims":[\' + b",".join([b\'{"operation":"x","target":"y","count":1}\'] * 5000) + b"]}"',
]


@pytest.mark.parametrize("answer", _BAD_ANSWERS, ids=range(len(_BAD_ANSWERS)))
def test_answers_of_a_guest(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is no answer makes the run ``protocol``; the engine itself did nothing wrong and may serve on."""
    met = meet(monkeypatch, f"result({answer}); receive()")
    assert met.error is None
    assert met.report.outcome.kind is OutcomeKind.PROTOCOL
    assert met.report.value is None


def test_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that says nothing is ended a little past the run's own time."""
    began = time.monotonic()
    met = meet(monkeypatch, "time.sleep(60)", timeout=0.3)
    assert met.report.outcome.kind is OutcomeKind.TIMEOUT
    assert met.reusable is False
    assert time.monotonic() - began < 20


def test_drip(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that keeps talking gets no more time for it."""
    met = meet(monkeypatch, "while True: send(f.EVENT, {'name': 'stdout'}, b'.'); time.sleep(0.02)", timeout=0.5)
    assert met.report.outcome.kind is OutcomeKind.TIMEOUT
    assert met.report.stdout.startswith(b"...")


def test_half_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that never ends counts as silence."""
    met = meet(monkeypatch, "raw(f.encode(f.RESULT, b'{}', b'')[:7]); time.sleep(60)", timeout=0.3)
    assert met.report.outcome.kind is OutcomeKind.TIMEOUT


@pytest.mark.parametrize(
    ("lines", "word"),
    [("os._exit(0)", "status 0"), ("os._exit(70)", "status 70"), ("os.kill(os.getpid(), 9)", "SIGKILL")],
)
def test_death(lines: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that ends is ``crashed``, with how it ended; its output until then is kept."""
    met = meet(monkeypatch, "send(f.EVENT, {'name': 'stderr'}, b'partial')\n" + lines)
    assert met.report.outcome.kind is OutcomeKind.CRASHED
    assert word in met.report.outcome.detail
    assert met.report.stderr == b"partial"
    assert met.reusable is False


def test_last_words_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it leaves on its standard error is shown in part; a megabyte of it blocks nobody."""
    met = meet(monkeypatch, "os.set_blocking(2, False)\nos.write(2, b'w' * (1 << 20))\nos._exit(3)")
    assert met.report.outcome.kind is OutcomeKind.CRASHED
    assert len(met.report.outcome.detail) < 2000


def test_descriptors_that_it_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptors attached to a frame are dropped by the way it is read: none appears in the caller."""
    lines = (
        "data = f.encode(f.EVENT, b'{\"name\":\"stdout\"}', b'x')\n"
        "for _ in range(20): sock.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, (2).to_bytes(4, 'little'))])\n"
        "result(GOOD); receive()"
    )
    before = len(os.listdir("/proc/self/fd"))
    met = meet(monkeypatch, lines)
    assert met.report.outcome.kind is OutcomeKind.OK
    assert met.report.stdout == b"x" * 20
    assert len(os.listdir("/proc/self/fd")) <= before


_BAD_STARTS = {
    "nothing": "time.sleep(0)\nos._exit(0)\n",
    "garbage": "raw(b'x' * 100); time.sleep(5)\n",
    "another protocol": "send(f.HELLO, {**HELLO, 'protocol': 99}); time.sleep(5)\n",
    "ready at once": "send(f.READY, READY); time.sleep(5)\n",
    "output before ready": "send(f.HELLO, HELLO); receive(); send(f.EVENT, {'name': 'stdout'}, b'x'); time.sleep(5)\n",
    "a result before ready": "send(f.HELLO, HELLO); receive(); result(GOOD); time.sleep(5)\n",
    "an error": "send(f.HELLO, HELLO); receive(); send(f.ERROR, {'id': 0, 'where': 'start', 'message': 'no memory'}); time.sleep(5)\n",
    "death": "send(f.HELLO, HELLO); receive(); os._exit(5)\n",
}  # fmt: skip


@pytest.mark.parametrize("what", list(_BAD_STARTS))
def test_starts_that_fail(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No guest has run by then, so it is the machinery's error, with the reason; the process is gone."""
    met = meet(monkeypatch, "", greeting=_BAD_STARTS[what])
    assert isinstance(met.error, BackendError), met.error
    assert met.error.step == "starting an engine"
    if what == "an error":
        assert "no memory" in str(met.error)


def test_a_start_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start has its own time, too."""
    monkeypatch.setattr(engine_process, "START_S", 0.5)
    met = meet(monkeypatch, "", greeting="time.sleep(60)\n")
    assert isinstance(met.error, BackendError)
    assert "not ready" in str(met.error)


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an engine could not do for a reason of its own raises; it is not passed off as the guest's outcome."""
    met = meet(monkeypatch, "result(ending='refused', trap='host call failed'); receive()")
    assert isinstance(met.error, BackendError)
    assert "host call failed" in str(met.error)


def test_a_report_is_what_json_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of an engine are bounded and printable as JSON, whatever is in them."""
    rows = [{"operation": "o\u0007", "target": "t\u2028\\", "code": "absent", "layer": "wasi", "count": 2}]
    met = meet(monkeypatch, f"result(GOOD, denials={rows!r}); receive()")
    assert met.report.outcome.kind is OutcomeKind.OK
    (row,) = met.report.denials
    json.dumps([row.operation, row.target])

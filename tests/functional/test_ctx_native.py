"""The ctx of guests in native tiers: calls that reach the broker and come back, whatever a guest does with them."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import house
from fastness.backends import registry
from fastness.backends.base import Backend, Report, Staged
from fastness.broker.calls import RunCalls
from fastness.broker.functions import Functions
from fastness.broker.gate import Gate
from fastness.broker.trail import Intent
from fastness.capability import CallContext, Operation, Scope, Spec
from fastness.errors import ConfigurationError
from fastness.limits import Limits
from fastness.runs import OutcomeKind, PluginCall, RunRequest
from fastness.tier import Tier
from fastness.waiting import ThreadWaiting, drive

TIERS = ("worker", "confined", "isolated")


class NoteScope(Scope, frozen=True, tag="notes"):
    pass


class Put(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    value: Any = None


SPEC = Spec(
    kind="notes",
    scope=NoteScope,
    operations=(
        Operation(name="put", arguments=Put, target=lambda given: given.key, summary="Keep a value."),
        Operation(name="wait", arguments=Put, target=lambda given: given.key, summary="Wait for ever."),
    ),
    meet=lambda asked, allowed: asked,
    exceeds=lambda asked, allowed: [],
    risk=lambda scope: "",
    enforced=(),
)


class Notes:
    spec = SPEC

    def __init__(self) -> None:
        self.kept: list[tuple[str, Any]] = []
        self.ended: list[str] = []
        self.begun = threading.Event()

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        self.begun.set()
        if operation == "wait":
            try:
                await asyncio.sleep(60)
            finally:
                self.ended.append(arguments.key)
        self.kept.append((arguments.key, arguments.value))
        return arguments.value

    async def aclose(self) -> None:
        pass


class Paper:
    def __init__(self) -> None:
        self.rows: list[str] = []

    def intend(self, intent: Intent) -> int:
        self.rows.append(f"intent {intent.operation} {intent.target}")
        return len(self.rows)

    def done(
        self,
        number: int,
        intent: Intent,
        *,
        code: str,
        micros: int,
        bytes_in: int,
        bytes_out: int,
        cost: int = 0,
        dropped: int = 0,
    ) -> None:
        self.rows.append(f"outcome {number} {code}".strip())

    def refused(self, intent: Intent, *, code: str) -> None:
        self.rows.append(f"refused {intent.capability}.{intent.operation} {code}")


class Scene:
    """A backend, and what its guests call."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.notes = Notes()
        self.paper = Paper()
        self.revision = 1
        self.events: list[tuple[str, Any]] = []

    def calls(self, *, calls: int = 1000, functions: dict[str, Callable[..., Any]] | None = None) -> RunCalls:
        host = Functions(functions or {})
        scopes: dict[str, Scope] = {"notes": NoteScope()}
        if functions:
            scopes["host"] = host.spec.scope(names=tuple(functions))
        gate = Gate(
            scopes,
            {"notes": SPEC, "host": host.spec},
            {"notes": self.notes, "host": host},
            made_at=1,
            revision=lambda: self.revision,
        )
        named = {"run": "r", "plugin": "p", "owner": "o"}
        return RunCalls(gate, self.paper, **named, calls=calls, value_bytes=4 << 20, deadline=time.monotonic() + 30)

    def run(
        self, code: str = "", *, calls: RunCalls | None = None, files: dict[str, bytes] | None = None, **more: Any
    ) -> Report:
        request = RunRequest(code=code, tier=self.backend.tier.value, on_event=None, **more)
        sink = lambda name, data: self.events.append((name, data))  # noqa: E731  # one line
        return drive(self.backend.run(request, Staged(files=files or {}), sink, calls or self.calls()))


@pytest.fixture(scope="module", params=TIERS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    house.require(f"{request.param} tier")
    made = registry.make(Tier(request.param), waiting=ThreadWaiting())
    yield made
    drive(made.aclose())


@pytest.fixture
def scene(backend: Backend) -> Scene:
    return Scene(backend)


def value(report: Report) -> Any:
    assert report.outcome.kind is OutcomeKind.OK, (report.outcome, report.stderr)
    return report.value


def test_what_is_granted_is_there_and_the_rest_is_absent(scene: Scene) -> None:
    code = "[getattr(ctx, 'fs', None), sorted(vars(ctx)), ctx.notes.put('a', {'b': [1, 2.5, b'x', None]})]"
    report = scene.run(code)
    assert value(report) == [None, ["log", "notes"], {"b": [1, 2.5, b"x", None]}]
    assert scene.notes.kept == [("a", {"b": [1, 2.5, b"x", None]})]
    assert scene.paper.rows == ["intent put a", "outcome 1"]
    assert report.usage.calls == 1


def test_without_calls_there_is_no_ctx(scene: Scene) -> None:
    request = RunRequest(code="'ctx' in globals()", tier=scene.backend.tier.value)
    assert value(drive(scene.backend.run(request, Staged(), None))) is False


def test_functions_of_the_host_are_names_of_the_program(scene: Scene) -> None:
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    report = scene.run(
        "[add(1), add(b=5, a=1), add.__doc__, ctx.host.add(2)]", calls=scene.calls(functions={"add": add})
    )
    assert value(report) == [3, 6, "Add.", 4]


def test_a_refusal_is_an_exception_with_a_code(scene: Scene) -> None:
    scene.revision = 2
    report = scene.run("try:\n    ctx.notes.put('a')\nexcept ctx.Refused as e:\n    print(e.code)\n")
    assert report.stdout == b"revoked\n"
    assert [(row.capability, row.operation, row.code.value, row.layer) for row in report.denials] == [
        ("notes", "put", "revoked", "broker")
    ]
    assert scene.notes.kept == []


def test_a_plugins_method_is_called(scene: Scene) -> None:
    text = b"async def greet(ctx, name, times=1):\n    return [await ctx.notes.put('k', name)] * times\n"
    plugin = PluginCall(module="hello", method="greet", arguments={"name": "x", "times": 2})
    assert value(scene.run(files={"hello.py": text}, plugin=plugin)) == ["x", "x"]


def test_many_calls_at_once_from_an_event_loop_and_from_threads(scene: Scene) -> None:
    code = """
import asyncio, threading
async def main():
    return await asyncio.gather(*(ctx.notes.put(str(n), n) for n in range(100)))
found = asyncio.run(main())
def ask(first):
    found.extend(ctx.notes.put('t', n) for n in range(first, first + 50))
threads = [threading.Thread(target=ask, args=(n * 50,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
[found[:100] == list(range(100)), sorted(found[100:]) == list(range(200))]
"""
    assert value(scene.run(code)) == [True, True]


def test_large_values_both_ways(scene: Scene) -> None:
    assert value(scene.run("big = b'x' * (2 << 20); ctx.notes.put('a', big) == big")) is True


def test_lines_of_the_log_are_events_up_to_a_cap(scene: Scene) -> None:
    limits = Limits(log_bytes=1000)
    value(scene.run("for n in range(100): ctx.log('info', f'line {n}')", limits=limits))
    lines = [data for name, data in scene.events if name == "log"]
    assert lines[0] == {"level": "info", "text": "line 0"}
    assert 5 < len(lines) < 100


def test_more_calls_than_a_run_may(scene: Scene) -> None:
    report = scene.run("for n in range(100): ctx.notes.put('a')", calls=scene.calls(calls=5))
    assert report.outcome.kind is OutcomeKind.CALL_LIMIT
    assert len(scene.notes.kept) == 5


def test_a_deadline_during_a_call(scene: Scene) -> None:
    report = scene.run("print('go', flush=True); ctx.notes.wait('a')", limits=Limits(wall_s=1.0))
    assert report.outcome.kind is OutcomeKind.TIMEOUT
    assert scene.notes.ended == ["a"]
    assert scene.paper.rows == ["intent wait a", "outcome 1 answer_cancelled"]


def test_a_guest_that_ends_during_a_call(scene: Scene) -> None:
    code = "import os, threading, time\nthreading.Thread(target=lambda: ctx.notes.wait('a'), daemon=True).start()\ntime.sleep(0.5)\nos._exit(3)"
    report = scene.run(code)
    assert report.exit_code == 3
    assert scene.notes.ended == ["a"]


_RAW = """
import json, os, struct
def frame(kind, head, blob=b''):
    text = json.dumps(head).encode()
    data = struct.pack('>BBHII', 1, kind, 0, len(text), len(blob)) + text + blob
    view = memoryview(data)
    while view:
        view = view[os.write(3, view):]
def call(id, blob=b'{"key":"a"}', capability='notes', operation='put'):
    frame(0x43, {'id': id, 'capability': capability, 'operation': operation}, blob)
"""


@pytest.mark.parametrize(
    "attempt",
    [
        "call(1); call(1)", "call(2); call(1)", "call(0)", "call(-1)", "call(2**70)", "call('1')",
        "frame(0x43, {'id': 1})", "frame(0x43, {'id': 1, 'capability': 'x' * 10000, 'operation': 'y'})",
        "frame(0x43, {'id': 1, 'capability': 'notes', 'operation': 'put', 'plugin': 'other', 'owner': 'root'})",
        "frame(0x44, {'id': 7})", "frame(0x04, {'id': 1})", "frame(0x45, {'level': 'loud', 'text': ''})",
    ],
)  # fmt: skip
def test_words_that_break_the_protocol_end_the_guest(scene: Scene, attempt: str) -> None:
    report = scene.run(_RAW + attempt + "\nimport time; time.sleep(5)")
    assert report.outcome.kind is OutcomeKind.PROTOCOL
    assert value(scene.run("ctx.notes.put('next', 1)")) == 1


@pytest.mark.parametrize(
    "blob",
    [
        "b'[' * 1000 + b']' * 1000", "b'{'", "b'NaN'", "b'{\"key\": \"\\\\ud800\"}'", "b'{\"key\": 1}'",
        "b'{\"key\":\"a\",\"key\":2}'", "b'\\xff'", "b'{\"key\":\"a\",\"plugin\":\"other\"}'", "b'1' * 100000",
    ],
)  # fmt: skip
def test_arguments_that_mean_nothing_do_nothing(scene: Scene, blob: str) -> None:
    report = scene.run(_RAW + f"call(1, {blob})\nimport time; time.sleep(0.3)")
    assert report.outcome.kind in (OutcomeKind.OK, OutcomeKind.PROTOCOL)
    assert scene.notes.kept in ([], [("\ud800", None)])


def test_answers_that_a_guest_never_reads_do_not_pile_up_here(scene: Scene) -> None:
    """The host stops to listen: it keeps no more than a few answers."""
    code = _RAW + (
        "import threading\n"
        "value = json.dumps({'key': 'a', 'value': 'x' * (1 << 20)}).encode()\n"
        "for n in range(1, 300): call(n, value)\n"
    )
    report = scene.run(code, limits=Limits(wall_s=3.0, memory=512 << 20))
    assert report.outcome.kind is OutcomeKind.TIMEOUT
    assert len(scene.notes.kept) < 40


def test_calls_over_the_limit_in_flight_wait(scene: Scene) -> None:
    code = _RAW + "for n in range(1, 200): call(n, b'{\"key\":\"a\"}', 'notes', 'wait')\nimport time; time.sleep(1)"
    scene.run(code, limits=Limits(wall_s=2.0, calls_in_flight=4))
    assert len([row for row in scene.paper.rows if row.startswith("intent")]) == 4


def test_a_session_makes_calls_in_each_of_its_executes(scene: Scene) -> None:
    calls = scene.calls()
    request = RunRequest(code="", tier=scene.backend.tier.value)
    session = drive(scene.backend.open_session(request, calls))
    try:
        for number in range(3):
            code = f"ctx.notes.put('k', {number})"
            report = drive(session.execute(msgspec.structs.replace(request, code=code), Staged(), None))
            assert value(report) == number
            assert report.usage.calls == 1
        # A thread that waits when its execute ends hears nothing, and the next execute goes on.
        left = "import threading\nthreading.Thread(target=lambda: ctx.notes.wait('late'), daemon=True).start()\nimport time; time.sleep(0.3)"
        drive(session.execute(msgspec.structs.replace(request, code=left), Staged(), None))
        for number in range(3):
            code = f"ctx.notes.put('after', {number})"
            report = drive(session.execute(msgspec.structs.replace(request, code=code), Staged(), None))
            assert value(report) == number
    finally:
        drive(session.aclose())
    assert scene.notes.ended == ["late"]


def test_calls_of_a_run_in_an_event_loop(backend: Backend) -> None:
    made = registry.make(backend.tier)
    scene = Scene(made)

    async def main() -> Report:
        request = RunRequest(code="ctx.notes.put('a', 5)", tier=made.tier.value)
        try:
            return await made.run(request, Staged(), None, scene.calls())
        finally:
            await made.aclose()

    assert value(asyncio.run(main())) == 5


def test_programs_get_no_ctx(scene: Scene) -> None:
    if "command" not in scene.backend.runtimes:
        pytest.skip("this tier runs no programs")
    calls = scene.calls()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ConfigurationError):
        scene.run("", calls=calls, runtime="command", command=("/bin/true",))
    # What was made for the run is closed all the same.
    assert len(os.listdir("/proc/self/fd")) < before


def test_a_call_that_is_revoked_while_it_is_made(scene: Scene) -> None:
    calls = scene.calls()

    def revoke() -> None:
        scene.notes.begun.wait(10)
        scene.revision = 2
        calls.revoke()

    thread = threading.Thread(target=revoke)
    thread.start()
    code = "try:\n    ctx.notes.wait('a')\nexcept ctx.Refused as e:\n    print(e.code)\ntry:\n    ctx.notes.put('b')\nexcept ctx.Refused as e:\n    print(e.code)"
    report = scene.run(code, calls=calls)
    thread.join()
    assert report.stdout == b"revoked\nrevoked\n"
    assert scene.notes.kept == []


def test_context_is_json_of_what_is_granted(scene: Scene) -> None:
    """The host tells names and words of its own, and nothing of a scope."""
    report = scene.run("import sys; __import__('json').dumps(sorted(vars(ctx.notes)))")
    assert json.loads(value(report)) == ["put", "wait"]

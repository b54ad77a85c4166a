"""
Sessions: what stays from one execute to the next, what does not, and what becomes of a session whose guest ended.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from typing import Any

import anyio
import pytest
from wasm_support import engines_of, eventually, gone

import fastness
from fastness import OutcomeKind

pytestmark = pytest.mark.tiers("wasm", "isolated", "confined")

# State.


def test_state_is_kept(box: fastness.Sandbox) -> None:
    """Names, imports, functions, files, the current folder, variables and random state go on."""
    with box.session() as session:
        first = session.execute("import json, os\nx = [1]\ndef f(n): return n + len(x)\nos.mkdir('d'); os.chdir('d')")
        assert (first.outcome.kind, first.state, first.value) == (OutcomeKind.OK, "kept", None)
        session.execute("x.append(2); open('g', 'w').write('kept'); os.environ['V'] = '1'")
        second = session.execute(
            "(f(1), json.dumps(x), os.path.basename(os.getcwd()), open('g').read(), os.environ['V'])"
        )
        assert second.value == [3, "[1, 2]", "d", "kept", "1"]
        assert second.state == "kept"
    assert box.run("'x' in globals()").value is False


@pytest.mark.tiers("wasm")
def test_state_is_kept_in_javascript(box: fastness.Sandbox) -> None:
    """``var``, ``let``, ``const``, functions, classes and the global object go on."""
    with box.session(runtime="javascript") as session:
        session.execute("var a = 1; let b = 2; const c = 3; function f() { return a + b + c } class K {}")
        session.execute("globalThis.d = 4; a = 10")
        assert session.execute("[f(), d, typeof K]").value == [15, 4, "function"]
        assert session.execute("b += 1; f()").value == 16
    assert box.run("typeof a + typeof d", runtime="javascript").value == "undefinedundefined"


@pytest.mark.parametrize(
    ("runtime", "cases"),
    [
        (
            "python",
            [
                ("1 + 1", 2),
                ("x = 5", None),
                ("x", 5),
                ("x;", 5),
                ("x\n# a comment", 5),
                ("", None),
                ("(1, {'a': b'b'})", [1, {"a": b"b"}]),
                ("float('nan')", math.nan),
                ("10**30", 10**30),
                ("if True:\n  7", None),
                ("'\\ud800'", "\ud800"),
            ],
        ),
        (
            "javascript",
            [
                ("1 + 1", 2),
                ("var x = 5", None),
                ("x", 5),
                ("await Promise.resolve(x + 1)", 6),
                ("Promise.resolve('p')", "p"),
                ("({a: [1, null, 'x', true]})", {"a": [1, None, "x", True]}),
                ("", None),
                ("NaN", math.nan),
                ("2n ** 100n", 2**100),
            ],
        ),
    ],
)
def test_values(runtime: str, cases: list[tuple[str, Any]], box: fastness.Sandbox) -> None:
    """The value of each execute is that of its own last expression, as in ``run``."""
    with box.session(runtime=runtime) as session:
        for code, value in cases:
            result = session.execute(code)
            assert result.outcome.kind is OutcomeKind.OK, (code, result.stderr)
            if isinstance(value, float) and math.isnan(value):
                assert math.isnan(result.value), code
            else:
                assert result.value == value, code
                assert type(result.value) is type(value), code


# Errors.

_ERRORS = {
    "python": [
        ("raise ValueError('x')", "ValueError"),
        ("1 +", "SyntaxError"),
        ("undefined", "NameError"),
        ("def f(): f()\nf()", "RecursionError"),
        ("import sys; sys.exit(3)", "exit status 3"),
        ("exit('words')", "exit status 1"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import socket; socket.create_connection(('192.0.2.1', 1))", "rror"),
    ],
    "javascript": [
        ("throw new TypeError('x')", "TypeError"),
        ("1 +", "SyntaxError"),
        ("undefined_name", "ReferenceError"),
        ("function r() { r() } r()", ""),
        ("await Promise.reject(new RangeError('x'))", "RangeError"),
    ],
}


@pytest.mark.parametrize(("runtime", "code", "detail"), [(r, *case) for r, cases in _ERRORS.items() for case in cases])
def test_errors_keep_the_state(runtime: str, code: str, detail: str, box: fastness.Sandbox) -> None:
    """An error ends the execute, not the session: names set before it and in it are there."""
    set_it, look = ("kept = 1", "kept") if runtime == "python" else ("var kept = 1", "kept")
    with box.session(runtime=runtime) as session:
        session.execute(set_it)
        result = session.execute(code)
        assert result.outcome.kind is OutcomeKind.GUEST_ERROR
        assert detail in result.outcome.detail
        assert result.state == "kept"
        assert session.execute(look).value == 1


def test_a_caught_memory_error_keeps_the_state(box: fastness.Sandbox) -> None:
    """Python survives an allocation that was refused, and so does the session, caught or not."""
    with box.session(memory="64M") as session:
        session.execute("kept = 1")
        result = session.execute("x = bytearray(1 << 30)")
        assert (result.outcome.kind, result.state) == (OutcomeKind.MEMORY, "kept")
        assert session.execute("try: bytearray(1 << 30)\nexcept MemoryError: kept += 1\nkept").value == 2


# Ends of guests.

_ENDS: list[tuple[str, str, dict[str, Any], OutcomeKind]] = [
    ("python", "while True: pass", {"timeout": 0.1}, OutcomeKind.TIMEOUT),
    ("python", "import time; time.sleep(1e6)", {"timeout": 0.1}, OutcomeKind.TIMEOUT),
    ("python", "import os; os._exit(0)", {}, OutcomeKind.OK),
    ("python", "import os; os._exit(5)", {}, OutcomeKind.GUEST_ERROR),
    ("python", "import os; os.abort()", {}, OutcomeKind.CRASHED),
    ("python", "print('x' * 100_000)", {"limits": {"output_total_bytes": 10}}, OutcomeKind.OUTPUT_LIMIT),
    ("javascript", "for (;;);", {"timeout": 0.1}, OutcomeKind.TIMEOUT),
    ("javascript", "await new Promise(r => setTimeout(r, 1e6))", {"timeout": 0.1}, OutcomeKind.TIMEOUT),
]


@pytest.mark.parametrize(("runtime", "code", "options", "kind"), _ENDS)
def test_a_lost_guest(
    runtime: str, code: str, options: dict[str, Any], kind: OutcomeKind, box: fastness.Sandbox
) -> None:
    """Where the guest had to be ended, this result and every later one say ``lost``, and nothing more runs."""
    own = {name: options[name] for name in options if name == "timeout"}
    whole = {name: options[name] for name in options if name not in own}
    with box.session(runtime=runtime, **whole) as session:
        assert session.execute("1").state == "kept"
        result = session.execute(code, **own)
        assert (result.outcome.kind, result.state) == (kind, "lost")
        for _ in range(2):
            after = session.execute("print('ran')" if runtime == "python" else "console.log('ran')")
            assert (after.outcome.kind, after.state) == (OutcomeKind.CRASHED, "lost")
            assert "lost" in after.outcome.detail
            assert after.stdout == ""
    assert box.run("1").value == 1


@pytest.mark.tiers("wasm")
def test_a_killed_engine(box: fastness.Sandbox) -> None:
    """A session whose process dies is lost; what it had printed is told."""
    before = engines_of(os.getpid())
    with box.session(tenant="killed") as session:
        session.execute("x = 1")
        # The shared sandbox has other engines; this session's is the one that serves its tenant.
        victims = engines_of(os.getpid()) - before or before

        def heard(name: str, data: Any) -> None:
            if name == "stdout":
                for pid in victims:
                    os.kill(pid, signal.SIGKILL)

        result = session.execute("print('out', flush=True)\nwhile True: pass", on_event=heard, timeout=20)
        assert (result.outcome.kind, result.state, result.stdout) == (OutcomeKind.CRASHED, "lost", "out\n")
        assert session.execute("x").state == "lost"
    assert box.run("1").value == 1


# What is given to each execute.


@pytest.mark.parametrize("runtime", ["python"])
def test_standard_input_for_each_execute(runtime: str, box: fastness.Sandbox) -> None:
    """Each execute has its own standard input, from its start, and none where none is given."""
    with box.session(runtime=runtime) as session:
        assert session.execute("import sys; sys.stdin.read()", stdin="first\n").value == "first\n"
        assert session.execute("input()", stdin="second\nthird\n").value == "second"
        assert session.execute("sys.stdin.read()").value == ""
        assert session.execute("sys.stdin.read()", stdin="fourth").value == "fourth"


def test_files_for_each_execute(box: fastness.Sandbox) -> None:
    """Files are put in before each execute that names some; changes are told against the start of each execute."""
    with box.session() as session:
        first = session.execute("open('out', 'w').write(open('a').read())", files={"a": "1"})
        assert set(first.files) == {"out"}
        second = session.execute("open('a').read() + open('d/b').read()", files={"a": "2", "d/b": "3"})
        assert second.value == "23"
        assert not second.files
        assert not second.changes.added + second.changes.changed + second.changes.deleted
        third = session.execute("import os; os.remove('out'); open('a', 'a').write('+')")
        assert (third.changes.changed, third.changes.deleted) == (("a",), ("out",))
        assert third.files["a"].read() == b"2+"


def test_files_of_the_session_are_put_in_once(box: fastness.Sandbox) -> None:
    """Files given to ``session`` are there from the start, and what the guest makes of them stays."""
    with box.session(files={"a": "1"}) as session:
        assert session.execute("open('a', 'a').write('2'); open('a').read()").value == "12"
        assert session.execute("open('a').read()").value == "12"
        assert session.execute("open('a').read()", files={"a": "new"}).value == "new"


def test_files_that_cannot_be_put_in(box: fastness.Sandbox) -> None:
    """A file that does not fit raises; nothing ran, and the session goes on as it was."""
    with box.session(limits={"file_bytes": 1000}) as session:
        session.execute("x = 1; open('big', 'wb').write(bytes(900))")
        with pytest.raises(fastness.StagingError):
            session.execute("x = 2", files={"more": b"x" * 500})
        with pytest.raises(fastness.StagingError):
            session.execute("x = 2", files={"../more": b"x"})
        with pytest.raises(fastness.ConfigurationError):
            session.execute("x = 2", nonsense=1)
        result = session.execute("x")
        assert (result.value, result.state) == (1, "kept")


@pytest.mark.parametrize("options", [{"memory": "1M"}, {"limits": {"files": 1}}, {"env": {"A": "1"}}, {"seed": 1}])
def test_what_the_guest_was_made_with_stays(options: dict[str, Any], box: fastness.Sandbox) -> None:
    """An option that decided how the guest was made is refused for one execute; nothing ran and the state is kept."""
    with box.session() as session:
        session.execute("x = 1")
        with pytest.raises(fastness.ConfigurationError):
            session.execute("x = 2", **options)
        assert session.execute("x").value == 1


def test_events(box: fastness.Sandbox) -> None:
    """``on_event`` may be given for the session or for one execute, and hears only of its own."""
    heard: list[tuple[str, bytes]] = []
    with box.session(on_event=lambda name, data: heard.append((name, data))) as session:
        session.execute("print('one', flush=True)")
        other: list[bytes] = []
        session.execute("print('two', flush=True)", on_event=lambda name, data: other.append(data))
        session.execute("import sys; sys.stderr.write('three')")
    assert b"".join(data for name, data in heard if name == "stdout") == b"one\n"
    assert b"".join(data for name, data in heard if name == "stderr") == b"three"
    assert b"".join(other) == b"two\n"


def test_limits_for_each_execute(box: fastness.Sandbox) -> None:
    """Each execute starts its own time, and output caps are counted anew."""
    with box.session(timeout=1, limits={"output_total_bytes": 1000}) as session:
        for _ in range(4):
            result = session.execute("import time; time.sleep(0.3); print('x' * 900)")
            assert (result.outcome.kind, result.state) == (OutcomeKind.OK, "kept")
        assert session.execute("time.sleep(5)").outcome.kind is OutcomeKind.TIMEOUT


@pytest.mark.tiers("wasm")
def test_denials_of_each_execute(box: fastness.Sandbox) -> None:
    """Refusals are told by the execute that met them."""
    code = "import os\ntry: os.symlink('a', 'b')\nexcept OSError: pass"
    with box.session() as session:
        assert [d.operation for d in session.execute(code).denials] == ["path_symlink"]
        assert session.execute("1").denials == ()


# Several sessions, and ends of sessions.


def test_two_sessions_are_apart(box: fastness.Sandbox) -> None:
    """Neither sees the other's names or files, nor does a run between them."""
    with box.session() as one, box.session() as two:
        one.execute("x = 'one'; open('f', 'w').write(x)")
        two.execute("x = 'two'; open('f', 'w').write(x)")
        assert one.execute("x + open('f').read()").value == "oneone"
        assert two.execute("x + open('f').read()").value == "twotwo"


def test_the_engine_goes_with_the_session(own_box: fastness.Sandbox) -> None:
    """A session's process serves nobody else, and is gone once the session is closed."""
    before = engines_of(os.getpid())
    with own_box.session() as session:
        session.execute("x = 1")
        (mine,) = engines_of(os.getpid()) - before
        own_box.run("1")
        assert len(engines_of(os.getpid()) - before) == 2
    assert eventually(lambda: gone(mine), 2)
    with own_box.session():
        pass
    own_box.close()
    assert engines_of(os.getpid()) == before


def test_use_after_close(box: fastness.Sandbox) -> None:
    """A closed session refuses, closing again is harmless, and one that was never opened refuses too."""
    session = box.session()
    with pytest.raises(fastness.ConfigurationError):
        session.execute("1")
    with session:
        session.execute("1")
    with pytest.raises(fastness.FastnessError):
        session.execute("1")
    session.close()


def test_mistakes_are_told_on_opening(box: fastness.Sandbox) -> None:
    """An option that means nothing, and a runtime that has no sessions, are told before anything starts."""
    with pytest.raises(fastness.ConfigurationError), box.session(nonsense=1):
        pass
    with pytest.raises(fastness.ConfigurationError), box.session(runtime="wasi"):
        pass


def test_cancel_from_another_thread(box: fastness.Sandbox) -> None:
    """A cancelled execute ends as ``cancelled``, and its session is lost."""
    with box.session() as session:
        session.execute("x = 1")

        def heard(name: str, data: Any) -> None:
            threading.Thread(target=box.cancel).start()

        result = session.execute("print('go', flush=True)\nwhile True: pass", on_event=heard, timeout=20)
        assert (result.outcome.kind, result.state) == (OutcomeKind.CANCELLED, "lost")
        assert session.execute("x").state == "lost"


def test_async_session(python_guest: None) -> None:
    """The asynchronous form keeps state in the same way, and several may be used at once."""

    async def main() -> list[Any]:
        async with fastness.AsyncSandbox(tier="wasm", engines=3) as box:
            values: list[Any] = [None] * 3

            async def use(number: int) -> None:
                async with box.session() as session:
                    await session.execute(f"x = {number}")
                    await session.execute("x *= 10")
                    values[number] = (await session.execute("x")).value

            async with anyio.create_task_group() as group:
                for number in range(3):
                    group.start_soon(use, number)
            return values

    assert anyio.run(main) == [0, 10, 20]


def test_async_cancellation(python_guest: None) -> None:
    """Cancelling the task ends the guest; the session is lost, its engine goes, the sandbox works on."""
    before = engines_of(os.getpid())

    async def main() -> None:
        async with fastness.AsyncSandbox(tier="wasm", engines=2) as box:
            async with box.session() as session:
                await session.execute("x = 1")
                with anyio.move_on_after(0.2) as scope:
                    await session.execute("while True: pass", timeout=60)
                assert scope.cancelled_caught
                after = await session.execute("x")
                assert (after.outcome.kind, after.state) == (OutcomeKind.CRASHED, "lost")
            assert (await box.run("1")).value == 1

    anyio.run(main)
    assert eventually(lambda: engines_of(os.getpid()) == before, 2)


def test_leaving_the_block_by_an_error(own_box: fastness.Sandbox) -> None:
    """However the block is left, the engine goes."""
    before = engines_of(os.getpid())
    with pytest.raises(ZeroDivisionError), own_box.session() as session:
        session.execute("x = 1")
        raise ZeroDivisionError
    assert eventually(lambda: engines_of(os.getpid()) == before, 2)


def test_a_waiting_sandbox_is_not_starved(own_box: fastness.Sandbox) -> None:
    """Sessions hold slots; a run that gets none ends at its deadline, and the next one that gets one works."""
    with own_box.session(), own_box.session():
        result = own_box.run("1", deadline=0.3)
        assert result.outcome.kind is OutcomeKind.TIMEOUT
    assert own_box.run("2").value == 2


def test_closing_the_sandbox_under_a_session(own_box: fastness.Sandbox) -> None:
    """Closing ends every engine, a session's too; the session says that it is lost."""
    before = engines_of(os.getpid())
    with own_box.session() as session:
        session.execute("x = 1")
        own_box.close()
        assert eventually(lambda: all(gone(pid) for pid in engines_of(os.getpid()) - before), 2)
        try:
            assert session.execute("x").state == "lost"
        except fastness.FastnessError:
            pass
    assert engines_of(os.getpid()) <= before


def test_engines_of_sessions_count(python_guest: None) -> None:
    """A session that does nothing still has its engine, so that other tenants' idle ones make room beside it."""
    before = engines_of(os.getpid())
    with fastness.Sandbox(tier="wasm", engines=2) as box, box.session() as session:
        for tenant in ("ann", "bob", "eve"):
            assert box.run("1", tenant=tenant).outcome.ok
            assert len(engines_of(os.getpid()) - before) <= 2
        assert session.execute("2").value == 2


def test_more_warm_than_may_be(python_guest: None) -> None:
    """A pool larger than the number of engines is as many as there may be, and does not wait for ever."""
    with fastness.Sandbox(tier="wasm", pool=8, engines=2) as box:
        assert box.run("1").value == 1

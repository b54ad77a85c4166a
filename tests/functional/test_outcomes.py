"""
How a run ended is one of a closed set of words, it is true, and what had come until then is kept.
"""

from __future__ import annotations

import time

import pytest

import fastness
from fastness import OutcomeKind
from fastness.runs import Outcome, RunResult

pytestmark = pytest.mark.tiers("wasm", "isolated", "confined")

_MARKS = (
    "import os\n"
    "print('partial')\n"
    "open('kept.txt', 'w').write('kept')\n"
    "os.remove('gone.txt')\n"
    "try: os.symlink('a', 'b')\n"
    "except OSError: pass\n"
    "print('later', flush=True)\n"
)
_DEEP = "t = ()\nfor _ in range(10**6): t = (t,)\nhash(t)\n"


@pytest.mark.parametrize(
    ("code", "options", "kind"),
    [
        ("while True: pass", {"timeout": 0.3}, OutcomeKind.TIMEOUT),
        ("import time; time.sleep(1e9)", {"timeout": 0.3}, OutcomeKind.TIMEOUT),
        ("while True:\n try:\n  while True: pass\n except BaseException: pass", {"timeout": 0.3}, OutcomeKind.TIMEOUT),
        ("while True: pass", {"limits": {"cpu_s": 0.2}}, OutcomeKind.CPU),
        ("x = []\nwhile True: x.append(bytearray(1 << 20))", {"memory": "64M"}, OutcomeKind.MEMORY),
        ("bytearray((1 << 31) - 64)", {"memory": "64M"}, OutcomeKind.MEMORY),
        (
            "import os\nwhile True: os.write(1, b'x' * 999)",
            {"limits": {"output_total_bytes": 5000}},
            OutcomeKind.OUTPUT_LIMIT,
        ),
        ("open('big', 'wb').write(bytes(1 << 21))", {"limits": {"file_bytes": 1 << 20}}, OutcomeKind.DISK),
        ("for i in range(100): open(f'{i}', 'w').close()", {"limits": {"files": 20}}, OutcomeKind.DISK),
        (_DEEP, {}, OutcomeKind.CRASHED),
        ("raise KeyError('k')", {}, OutcomeKind.GUEST_ERROR),
        ("import sys; sys.exit(3)", {}, OutcomeKind.GUEST_ERROR),
        ("os._exit(9)", {}, OutcomeKind.GUEST_ERROR),
        ("os.abort()", {}, OutcomeKind.CRASHED),
        ("def f(): f()\nf()", {}, OutcomeKind.GUEST_ERROR),
    ],
    ids=["loop", "sleep", "stubborn loop", "cpu", "memory", "one large object", "output", "disk", "files", "trap",
         "exception", "exit", "_exit", "abort", "recursion"],
)  # fmt: skip
def test_what_came_survives_every_ending(
    box: fastness.Sandbox, tier: str, code: str, options: dict[str, object], kind: OutcomeKind
) -> None:
    """Output, files, changes and denials until the end are in the result, however the run ended."""
    result = box.run(_MARKS + code, files={"gone.txt": b"x", "same.txt": b"y"}, **options)
    assert result.outcome.kind is kind, (result.outcome, result.stderr)
    assert result.stdout.startswith("partial\nlater\n")
    # There a tree may hold more than was allowed, and what is past it is not read.
    whole = tier != "confined" or kind is not OutcomeKind.DISK
    if whole:
        assert result.files["kept.txt"].read() == b"kept"
        assert "kept.txt" in result.changes.added
    if tier == "confined" and "files" in options.get("limits", {}):
        # Nor is anything called gone where not all was looked at.
        assert result.changes.deleted == ()
    else:
        assert result.changes.deleted == ("gone.txt",)
    assert "same.txt" not in result.files
    if tier == "wasm":
        assert any(row.operation == "path_symlink" and not row.claimed for row in result.denials)
    elif whole:
        assert result.changes.links == {"b": "a"}
    assert result.value is None and result.value_repr is None
    assert result.usage.wall_s > 0
    assert result.usage.files >= (2 if whole else 1)
    assert result.sandboxed
    assert box.run("print(1)").stdout == "1\n"


@pytest.mark.parametrize(
    ("code", "exit_code", "detail"),
    [
        ("import sys; sys.exit(3)", 3, "exit status 3"),
        ("import sys; sys.exit(-1)", 255, "exit status 255"),
        ("import sys; sys.exit('text')", 1, "exit status 1"),
        ("import sys; sys.exit([1])", 1, "exit status 1"),
        ("raise SystemExit(7)", 7, "exit status 7"),
        ("import os; os._exit(4)", 4, "exit status 4"),
        ("exit(5)", 5, "exit status 5"),
        ("try: quit(6)\nexcept SystemExit as e: raise", 6, "exit status 6"),
        ("raise ValueError('broken')", 1, "ValueError: broken"),
        ("raise ValueError", 1, "ValueError"),
        ("raise ValueError('x' * 100_000)", 1, "ValueError: xxx"),
        ("raise KeyboardInterrupt", 1, "KeyboardInterrupt"),
        ("raise GeneratorExit", 1, "GeneratorExit"),
        ("class Odd(Exception):\n  def __str__(self): raise RuntimeError\nraise Odd", 1, "Odd"),
        ("class Odd(Exception):\n  def __str__(self): return 5\nraise Odd", 1, "Odd"),
        ("class Odd(BaseException): pass\nraise Odd('\\ud800')", 1, "Odd: \\ud800"),
        ("raise type('N' * 5000, (Exception,), {})", 1, "NNN"),
        ("raise ExceptionGroup('g', [ValueError(1), TypeError(2)])", 1, "ExceptionGroup: g (2 sub-exceptions)"),
        (
            "import asyncio, errno\nasync def f(): raise OSError(errno.ENOENT, 'no')\nasyncio.run(f())",
            1,
            "FileNotFoundError",
        ),
    ],
)
def test_guest_errors(box: fastness.Sandbox, code: str, exit_code: int, detail: str) -> None:
    """Exits and exceptions are the guest's error, with its status or its last line."""
    result = box.run(code)
    assert result.outcome.kind is OutcomeKind.GUEST_ERROR
    assert result.exit_code == exit_code
    assert result.outcome.detail.startswith(detail)
    assert len(result.outcome.detail) <= 2300
    with pytest.raises(fastness.GuestError) as caught:
        result.raise_for_outcome()
    assert caught.value.result is result
    result.to_json()


@pytest.mark.parametrize(
    "code",
    ["import sys; sys.exit()", "import sys; sys.exit(0)", "import os; os._exit(0)", "raise SystemExit", "exit()"],
)
def test_good_exits(box: fastness.Sandbox, code: str) -> None:
    """Leaving with status 0 is a good end."""
    result = box.run("print('x')\n" + code)
    assert (result.outcome.kind, result.exit_code, result.stdout) == (OutcomeKind.OK, 0, "x\n")
    assert result.raise_for_outcome() is result


def test_traceback_is_the_guests_own(box: fastness.Sandbox) -> None:
    """The traceback starts in the user's code, shows its lines and names no path of the host and no code of ours."""
    result = box.run("def f(x):\n    return 1 / x\n\nf(0)\n")
    # Which parts are underlined depends on the interpreter's version.
    assert [line for line in result.stderr.splitlines() if line.strip(" ~^")] == [
        "Traceback (most recent call last):",
        '  File "<run>", line 4, in <module>',
        "    f(0)",
        '  File "<run>", line 2, in f',
        "    return 1 / x",
        "ZeroDivisionError: division by zero",
    ]


def test_exit_message_is_on_stderr(box: fastness.Sandbox) -> None:
    """``sys.exit(text)`` prints the text, as CPython does."""
    assert box.run("import sys; sys.exit('bye')").stderr == "bye\n"


@pytest.mark.parametrize(
    "code",
    [
        "t = ()\nfor _ in range(10**6): t = (t,)\nhash(t)",
        "x = []\nfor _ in range(10**6): x = [x]\nrepr(x)",
        "x = {}\nfor _ in range(10**6): x = {1: x}\nx == dict(x)",
        "class A:\n  def __getattr__(self, n): return getattr(self, n + 'x')\nA().y",
        "class A:\n  def __getattribute__(self, n): return getattr(self, n)\nA().y",
        "class A:\n  __call__ = None\nA.__call__ = A()\nA()()",
        "class A:\n  def __repr__(self): return repr(self)\nA()",
        "class A:\n  def __eq__(self, o): return self == o\nA() == A()",
        "class A:\n  def __hash__(self): return hash(self)\nhash(A())",
        "import json\nx = []\nfor _ in range(10**6): x = [x]\njson.dumps(x)",
        "import json\njson.loads('[' * 10**6)",
        "import re\nre.match('(' * 100000, 'x')",
        "import re\nre.compile('(a?)' * 50 + 'a' * 50).match('a' * 50)",
        "import pickle\nx = []\nfor _ in range(10**5): x = [x]\npickle.dumps(x)",
        "import copy\nx = []\nfor _ in range(10**5): x = [x]\ncopy.deepcopy(x)",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(): return f()\nf()",
        "import sys\nsys.setrecursionlimit(10**9)\nf = lambda: [*map(lambda x: f(), [1])]\nf()",
        "x = iter([1])\nfor _ in range(10**6): x = map(abs, x)\nnext(x)",
        "x = None\nfor _ in range(10**6): x = (x,)\ndel x",
        "from functools import partial\nf = abs\nfor _ in range(10**5): f = partial(partial, f)\nrepr(f)",
        "import ast; ast.literal_eval('(' * 100000 + ')' * 100000)",
        "compile('(' * 100000 + ')' * 100000, 'x', 'eval')",
        "eval('-' * 100000 + '1')",
    ],
    ids=range(23),
)
@pytest.mark.tiers("wasm")
def test_stack_exhaustion_of_every_kind(box: fastness.Sandbox, code: str) -> None:
    """Recursion in Python or in C ends as an error of the guest, a trap, a lack of memory or at the deadline."""
    result = box.run(code, timeout=5)
    assert result.outcome.kind in (
        OutcomeKind.OK,
        OutcomeKind.GUEST_ERROR,
        OutcomeKind.CRASHED,
        OutcomeKind.MEMORY,
        OutcomeKind.TIMEOUT,
    )
    if result.outcome.kind is OutcomeKind.CRASHED:
        assert result.outcome.detail in ("stack_overflow", "unreachable", "memory_out_of_bounds")
    assert box.run("print(1)").stdout == "1\n"


def test_memory_caught_is_no_outcome(box: fastness.Sandbox) -> None:
    """A guest that handles its MemoryError goes on well."""
    code = "try:\n  x = bytearray((1 << 31) - 64)\nexcept MemoryError:\n  print('handled')\n'well'"
    result = box.run(code, memory="64M")
    assert (result.outcome.kind, result.stdout, result.value) == (OutcomeKind.OK, "handled\n", "well")


def test_memory_is_on_top_of_the_warm_guest(box: fastness.Sandbox) -> None:
    """``memory`` is what the run may add: half of it is always to be had, twice of it never."""
    assert box.run("len(bytearray(100 << 20))", memory="256M").value == 100 << 20
    for code in ("bytearray(512 << 20)", "x = bytearray(300 << 20)"):
        assert box.run(code, memory="256M").outcome.kind is OutcomeKind.MEMORY


def test_a_guest_made_ahead_has_the_limits_of_its_own_run(box: fastness.Sandbox, tier: str) -> None:
    """The run before decides nothing: more than it had can be had, where nobody may raise a limit again too."""
    for _ in range(4):
        box.run("1", limits={"memory": 64 << 20, "fds": 16, "pids": 1})
        # Another guest is made ahead meanwhile.
        time.sleep(0.1)
        assert box.run("len(bytearray(100 << 20))", memory="256M").value == 100 << 20
        time.sleep(0.1)
        assert box.run("bytearray(512 << 20)", memory="64M").outcome.kind is OutcomeKind.MEMORY


def test_smallest_limits_still_run(box: fastness.Sandbox) -> None:
    """A smallest program needs next to nothing on top of a warm guest."""
    limits = {"memory": 1 << 20, "files": 0, "file_bytes": 0, "fds": 16, "frame_bytes": 1024}
    assert box.run("print(1)", limits=limits).stdout == "1\n"


def test_descriptor_limit(box: fastness.Sandbox) -> None:
    """Open files have a cap of their own, which a guest meets as an ordinary error."""
    result = box.run("x = [open('f', 'w') for _ in range(100_000)]", limits={"fds": 40})
    assert result.outcome.kind is OutcomeKind.GUEST_ERROR
    assert "file descriptors" in result.outcome.detail or "Too many open files" in result.outcome.detail


def test_disk_error_caught_is_no_outcome(box: fastness.Sandbox, tier: str) -> None:
    """A guest that makes room after a full disk goes on; the refusal is still recorded."""
    code = (
        "import errno, os\n"
        "try: open('a', 'wb').write(bytes(2 << 20))\n"
        "except OSError as error: assert error.errno in (errno.ENOSPC, errno.EFBIG)\n"
        "os.remove('a')\n"
        "open('b', 'wb').write(bytes(1 << 19))\n"
    )
    result = box.run(code, limits={"file_bytes": 1 << 20})
    assert result.outcome.kind is OutcomeKind.OK, result.stderr
    assert result.value == 1 << 19
    if tier == "wasm":
        assert any(row.code is fastness.DenialCode.QUOTA for row in result.denials)
    assert list(result.files) == ["b"]


def test_deadline_covers_queueing(own_box: fastness.Sandbox) -> None:
    """``deadline`` also counts waiting for a free guest; a run that never started is a timeout, not an error."""
    import threading

    started = threading.Barrier(3)

    def block() -> None:
        started.wait()
        own_box.run("while True: pass", timeout=2)

    threads = [threading.Thread(target=block) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait()
    result = own_box.run("import time; time.sleep(60)", deadline=0.7)
    assert result.outcome.kind is OutcomeKind.TIMEOUT
    assert "deadline" in result.outcome.detail
    for thread in threads:
        thread.join()
    assert own_box.run("1").value == 1


def test_deadline_keeps_what_came(box: fastness.Sandbox) -> None:
    """A run that was under way when the deadline came tells what it had done."""
    result = box.run("print('partial', flush=True)\nwhile True: pass", deadline=0.7)
    assert result.outcome.kind is OutcomeKind.TIMEOUT
    assert result.stdout == "partial\n"


@pytest.mark.parametrize("kind", list(OutcomeKind))
def test_raise_for_outcome(kind: OutcomeKind) -> None:
    """Every outcome has its exception, all of which are RunFailed and carry the result."""
    expected = {
        OutcomeKind.GUEST_ERROR: fastness.GuestError,
        OutcomeKind.CRASHED: fastness.GuestError,
        OutcomeKind.TIMEOUT: fastness.RunTimeout,
        OutcomeKind.CANCELLED: fastness.RunCancelled,
        OutcomeKind.MEMORY: fastness.LimitExceeded,
        OutcomeKind.CPU: fastness.LimitExceeded,
        OutcomeKind.OUTPUT_LIMIT: fastness.LimitExceeded,
        OutcomeKind.CALL_LIMIT: fastness.LimitExceeded,
        OutcomeKind.DISK: fastness.LimitExceeded,
        OutcomeKind.PROTOCOL: fastness.GuestProtocolError,
    }
    result = RunResult(outcome=Outcome(kind, "why"))
    if kind is OutcomeKind.OK:
        assert result.raise_for_outcome() is result
        assert result.ok
        return
    assert not result.ok
    with pytest.raises(expected[kind]) as caught:
        result.raise_for_outcome()
    assert isinstance(caught.value, fastness.RunFailed)
    assert caught.value.result is result
    assert kind.value in str(caught.value)


@pytest.mark.tiers("wasm")
def test_fake_answers_are_no_protocol_trick(box: fastness.Sandbox) -> None:
    """What a guest writes on its answer channel is checked like everything else it says."""
    for data in (
        b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"kind":"ok","value":{"$":["int","zz"]}}',
        b'{"kind":"ok","extra":1}', b'{"kind":"nonsense"}', b'{"kind":"ok"}{"kind":"ok"}', b'{"kind":"exit"}',
        b'{"kind":"exit","exit_code":-5}', b'{"kind":"ok","value":{"$":["bytes","!"]}}', b"x" * 100_000,
    ):  # fmt: skip
        code = f"import os; os.write(1000, {data!r}); os._exit(0)"
        result = box.run(code)
        assert result.outcome.kind in (OutcomeKind.PROTOCOL, OutcomeKind.OK, OutcomeKind.GUEST_ERROR), data
        assert box.run("2").value == 2


@pytest.mark.tiers("wasm")
def test_an_answer_too_large_is_bounded(box: fastness.Sandbox) -> None:
    """The answer channel has a cap; a guest that floods it is ended."""
    result = box.run("import os\nwhile True: os.write(1000, b'x' * 65536)")
    assert result.outcome.kind is OutcomeKind.PROTOCOL
    assert box.run("1").value == 1

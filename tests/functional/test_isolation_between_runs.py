"""
Nothing of a run is there in the next, though the instance is the same and was only given its image's bytes again.

Each case leaves something and then looks for it: in the same run, where it must be found, or the case would show
nothing, and in the next run, which must see what a run in a new instance sees.
"""

from __future__ import annotations

import ctypes
import os
import random
import types
from collections.abc import Iterator
from typing import Any

import pytest
from direct_engine import ask, idle_engines, is_the_image, lone_engine
from wasm_support import engines_of, status

import fastness
from fastness import OutcomeKind
from fastness._wasi import image as images

#: What is left, and an expression that shows whether it is there.
_LEFT: dict[str, tuple[str, str]] = {
    "a name in builtins": ("import builtins; builtins.leak = 1", "hasattr(__import__('builtins'), 'leak')"),
    "a replaced builtin": ("import builtins; builtins.len = lambda x: 42", "len('')"),
    "a global": ("leak = 1", "'leak' in globals()"),
    "an attribute of __main__": ("import __main__; __main__.leak = 1", "sorted(vars(__import__('__main__')))"),
    "a module": ("import sys, types; sys.modules['leak'] = types.ModuleType('leak')", "'leak' in sys.modules"),
    "an imported module": ("import sqlite3", "'sqlite3' in sys.modules"),
    "a removed module": ("import sys; del sys.modules['json']", "'json' in sys.modules"),
    "an attribute of numpy": ("import numpy; numpy.leak = 1", "hasattr(__import__('numpy'), 'leak')"),
    "a replaced function of numpy": (
        "import numpy; numpy.sum = lambda *a, **k: 'mine'",
        "str(__import__('numpy').sum([1, 2]))",
    ),
    "numpy's error state": (
        "import numpy; numpy.seterr(all='raise')",
        "__import__('numpy').geterr()",
    ),
    "numpy's print options": (
        "import numpy; numpy.set_printoptions(precision=1)",
        "repr(__import__('numpy').array([1.23456]))",
    ),
    "a pandas option": (
        "import pandas; pandas.set_option('display.max_rows', 3)",
        "__import__('pandas').get_option('display.max_rows')",
    ),
    "matplotlib settings": (
        "import matplotlib; matplotlib.rcParams['lines.linewidth'] = 99",
        "__import__('matplotlib').rcParams['lines.linewidth']",
    ),
    "an open figure": (
        "import matplotlib.pyplot as plt; plt.figure()",
        "__import__('matplotlib.pyplot', fromlist=['x']).get_fignums()",
    ),
    "an open file": (
        "import builtins; builtins.f = open('leak', 'w')",
        "[n for n in range(3, 40) if n not in (1000, 1001) and is_open(n)]",
    ),
    "a closed descriptor": ("import os; os.close(0)", "[is_open(n) for n in (0, 1, 2)]"),
    "a variable": ("import os; os.environ['LEAK'] = '1'", "sorted(os.environ)"),
    "a removed variable": ("import os; os.environ.clear()", "sorted(os.environ)"),
    "the current folder": ("import os; os.mkdir('d'); os.chdir('d')", "os.getcwd()"),
    "sys.path": ("import sys; sys.path.insert(0, '/leak')", "sys.path"),
    "sys.meta_path": ("import sys; sys.meta_path.clear()", "len(sys.meta_path)"),
    "sys.argv": ("import sys; sys.argv.append('leak')", "sys.argv"),
    "sys.stdout": ("import sys, io; sys.stdout = io.StringIO()", "type(sys.stdout).__name__"),
    "sys.excepthook": ("import sys; sys.excepthook = None", "sys.excepthook is sys.__excepthook__"),
    "sys.displayhook": ("import sys; sys.displayhook = None", "sys.displayhook is None"),
    "a file in /work": ("open('/work/leak', 'w').write('1')", "sorted(os.listdir('/work'))"),
    "a folder in /tmp": ("import os; os.mkdir('/tmp/leak')", "sorted(os.listdir('/tmp'))"),
    "a warnings filter": (
        "import warnings; warnings.simplefilter('error')",
        "[str(f) for f in __import__('warnings').filters]",
    ),
    "the recursion limit": ("import sys; sys.setrecursionlimit(77)", "sys.getrecursionlimit()"),
    "garbage collection": (
        "import gc; gc.disable(); gc.set_threshold(1)",
        "(__import__('gc').isenabled(), __import__('gc').get_threshold())",
    ),
    "a callback of the collector": ("import gc; gc.callbacks.append(print)", "len(__import__('gc').callbacks)"),
    "an audit hook": (
        "import sys\ndef hook(event, args):\n  if event == 'leak': args[0].append(1)\nsys.addaudithook(hook)",
        "(lambda heard: (sys.audit('leak', heard), heard)[1])([])",
    ),
    "a trace function": ("import sys; sys.settrace(lambda *a: None)", "sys.gettrace() is None"),
    "a profile function": ("import sys; sys.setprofile(lambda *a: None)", "sys.getprofile() is None"),
    "a line in linecache": (
        "import linecache; linecache.cache['leak'] = (1, None, ['x'], 'leak')",
        "'leak' in __import__('linecache').cache",
    ),
    "an exit function": (
        "import atexit; atexit.register(print, 'LEAK')",
        "__import__('atexit')._ncallbacks()",
    ),
    "the random state": (
        "import random; random.seed(1); random.random()",
        "__import__('random').random() == 0.8474337369372327",
    ),
    "an interned text": (
        "import sys; sys.leak = sys.intern('a text that only one run has')",
        "hasattr(sys, 'leak')",
    ),
    "the decimal context": (
        "import decimal; decimal.getcontext().prec = 3",
        "str(__import__('decimal').Decimal(1) / 3)",
    ),
    "a locale or codec": (
        "import codecs; codecs.register(lambda name: codecs.lookup('utf-8') if name == 'leak' else None)",
        "has_codec('leak')",
    ),
    "a logging handler": (
        "import logging; logging.basicConfig(level=1)",
        "(len(__import__('logging').root.handlers), __import__('logging').root.level)",
    ),
    "a signal handler": (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "str(__import__('signal').getsignal(2))",
    ),
    "an attribute of a class": (
        "import json; json.JSONEncoder.leak = 1",
        "hasattr(__import__('json').JSONEncoder, 'leak')",
    ),
    "the boot code": (
        "import _fastness as boot; boot.VALUE_CAP = 0; boot._encode = lambda v: (None, 'forged')",
        "__import__('_fastness').VALUE_CAP",
    ),
    "standard input": ("import sys; sys.stdin.read(3)", "sys.stdin.read()"),
}
_LOOK = """
import os, sys
def is_open(n):
    try:
        os.fstat(n)
    except OSError:
        return False
    return True
def has_codec(name):
    import codecs
    try:
        codecs.lookup(name)
    except LookupError:
        return False
    return True
"""


@pytest.fixture(scope="module")
def single(python_guest: None) -> Iterator[fastness.Sandbox]:
    """One engine, so that the next run meets the instance of the one before."""
    with fastness.Sandbox(tier="wasm", engines=1, timeout=20) as sandbox:
        yield sandbox


def seen(box: fastness.Sandbox, code: str, **options: Any) -> str:
    """What ``code`` shows as its value, or as an error."""
    result = box.run(code, stdin="abcdef", **options)
    if result.outcome.kind is not OutcomeKind.OK:
        return f"{result.outcome.kind.value}: {result.outcome.detail}"
    return repr(result.value) if result.value is not None else str(result.value_repr)


@pytest.mark.parametrize("name", list(_LEFT))
def test_nothing_is_left(name: str, single: fastness.Sandbox) -> None:
    """What one run leaves is there in that run and gone in the next."""
    leave, look = _LEFT[name]
    clean = seen(single, _LOOK + look, fresh=True)
    there = seen(single, f"{leave}\n{_LOOK}{look}")
    assert there != clean, "the case leaves nothing"
    pids = [engine.pid for engine in idle_engines(single)]
    assert seen(single, _LOOK + look) == clean
    assert seen(single, _LOOK + look, fresh=True) == clean
    assert [engine.pid for engine in idle_engines(single)] == pids, "another engine served, so nothing was tried"
    assert is_the_image(single)


#: Runs of every kind: small and large, good and bad, those after which an instance is reset and those after which it
#: is not.
_MIXED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("print(1)", {}),
    ("import numpy; numpy.arange(10).sum()", {}),
    ("import pandas; pandas.DataFrame({'a': range(100)}).describe()", {}),
    ("x = bytearray(3 << 20); x[:] = b'canary-' * (len(x) // 7) + x[len(x) // 7 * 7:]", {}),
    ("x = [object() for _ in range(200_000)]", {}),
    ("raise ValueError('x')", {}),
    ("def f(): f()\nf()", {}),
    ("1 +", {}),
    ("import sys; sys.exit(3)", {}),
    ("import os; os._exit(4)", {}),
    ("while True: pass", {"timeout": 0.02}),
    ("x = bytearray(1 << 30)", {"memory": "64M"}),
    ("x = bytearray(200 << 20)", {}),
    ("print('x' * 500_000)", {"limits": {"output_total_bytes": 1000}}),
    ("import sqlite3; c = sqlite3.connect(':memory:'); c.execute('create table t (a)')", {}),
    ("import json, re, decimal, asyncio; asyncio.run(asyncio.sleep(0))", {}),
    ("import socket; socket.socket()", {}),
    ("open('a', 'w').write('x' * 100_000); import os; os.mkdir('d')", {}),
    ("import builtins, sys; builtins.__dict__.clear()", {}),
    ("import sys; sys.modules.clear()", {}),
    ("open('in').read()", {"files": {"in": "x" * 1000}}),
    ("import gc; gc.collect(); gc.freeze()", {}),
    ("input()", {"stdin": "line\n"}),
    ("import random; random.random()", {"seed": 3, "time": 0.0}),
    ("print(1)", {"fresh": True}),
)


def test_hundreds_of_mixed_runs_leave_the_image(single: fastness.Sandbox) -> None:
    """After 300 runs of every kind the waiting instance is byte for byte the image that it started from."""
    order = random.Random(1)
    single.run("1")
    pids = [engine.pid for engine in idle_engines(single)]
    for count in range(300):
        code, options = order.choice(_MIXED)
        single.run(code, **options)
        if count % 50 == 49:
            assert is_the_image(single)
    assert [engine.pid for engine in idle_engines(single)] == pids
    assert single.run("print(6 * 7)").stdout == "42\n"
    assert is_the_image(single)


@pytest.mark.parametrize(("code", "options"), _MIXED, ids=[code[:30] for code, _ in _MIXED])
def test_every_kind_of_run_leaves_the_image(code: str, options: dict[str, Any], single: fastness.Sandbox) -> None:
    """Twice the same run, then a comparison: whichever way the next instance was made."""
    single.run(code, **options)
    single.run(code, **options)
    assert is_the_image(single)


@pytest.mark.parametrize("at", [0, 1, 4095, (1 << 20) - 1, 1 << 20, (3 << 20) + 99])
def test_comparison_notices_a_difference(at: int) -> None:
    """The comparison of these tests is no formality: one bit anywhere is seen."""
    size = (3 << 20) + 100
    ours, theirs = (ctypes.create_string_buffer(size) for _ in range(2))

    class Memory:
        def base(self) -> int:
            return ctypes.addressof(ours)

        def size(self) -> int:
            return size

    one: Any = Memory()
    other: Any = types.SimpleNamespace(size=size, read_only=ctypes.addressof(theirs))
    assert images.same(one, other)
    ours[at] = 1
    assert not images.same(one, other)


def test_how_instances_are_made(own_box: fastness.Sandbox) -> None:
    """Reset where the last call returned; made anew where it did not, or where ``fresh`` asks for it."""
    with lone_engine(own_box) as engine:

        def reset(code: str = "print(1)", **options: Any) -> bool:
            result = ask(engine, "run", code, **options)
            return result.usage.reset

        reset()
        assert reset(), "an instance whose call returned is used again"
        assert reset("raise ValueError"), "an exception is a return too"
        assert not reset(fresh=True)
        assert not reset(), "what a fresh run leaves is used for nothing"
        assert reset()
        for code in ("import os; os._exit(1)", "x = bytearray(200 << 20)", "while True: pass"):
            assert reset(code, timeout=0.05 if "while" in code else 20)
            assert not reset(), f"after {code!r} an instance was used again"
            assert reset()
        assert not any(reset(fresh=True) for _ in range(10))


def test_memory_of_earlier_runs_is_not_found(single: fastness.Sandbox) -> None:
    """A text that one run held in a hundred places is nowhere in the memory that the next one gets."""
    leave = "x = [b'canary-' + str(i).encode() * 50 for i in range(100_000)]\ny = b'canary-' * 1_000_000\nlen(y)"
    look = """
import numpy, gc
raw = numpy.empty(64 << 20, dtype='u1')
found = bytes(raw.data).find(b'can' + b'ary-')
small = [bytes(numpy.empty(size, dtype='u1').data) for size in (64, 512, 4096, 65536) for _ in range(2000)]
(found, sum(b'can' + b'ary-' in s for s in small))
"""
    assert single.run(leave).outcome.ok
    assert single.run(look).value == [-1, 0]
    there = single.run(leave + "\ndel x, y\n" + look).value
    assert there != [-1, 0], "the search finds nothing at all"


def test_denials_and_claims_stay_with_their_run(single: fastness.Sandbox) -> None:
    """The rows of one run are not told of another."""
    code = "import socket\ntry: socket.socket()\nexcept OSError: pass\ntry: open('/etc/passwd')\nexcept OSError: pass"
    assert single.run(code).denials
    assert single.run("1").denials == ()


def test_inputs_stay_with_their_run(single: fastness.Sandbox) -> None:
    """Arguments, variables, standard input and files of one run are not there in the next."""
    first = single.run(
        "import sys, os; (sys.argv[1:], os.environ['ONLY_ONCE'], sys.stdin.read(), open('f').read())",
        args=["a"],
        env={"ONLY_ONCE": "s"},
        stdin="in",
        files={"f": "file"},
    )
    assert first.value == [["a"], "s", "in", "file"]
    second = single.run("import sys, os; (sys.argv[1:], os.environ.get('ONLY_ONCE'), sys.stdin.read(), os.listdir())")
    assert second.value == [[], None, "", []]


def test_exit_functions_run_once(single: fastness.Sandbox) -> None:
    """A function registered for the end of a run is called at that end, and at no other."""
    assert single.run("import atexit; atexit.register(print, 'bye')").stdout == "bye\n"
    assert single.run("print(1)").stdout == "1\n"


def test_tenants_never_share_an_engine(python_guest: None) -> None:
    """Each tenant's runs are served by processes that serve nobody else, however often tenants take turns."""
    before = engines_of(os.getpid())
    served: dict[str, set[int]] = {}
    with fastness.Sandbox(tier="wasm", engines=8, timeout=20) as box:
        for turn in range(3):
            for tenant in ("ann", "bob", "eve"):
                known = set().union(*served.values()) if served else set()
                box.run("1", tenant=tenant)
                backend: Any = box._inner._runner._backends["wasm"]
                mine = {
                    engine.pid
                    for key, (_, pool) in backend._pools.items()
                    if key[-1] == tenant
                    for engine in pool.waiting
                }
                assert mine
                served.setdefault(tenant, set()).update(mine)
                if turn == 0:
                    assert not mine & known
        assert set.union(*served.values()) == engines_of(os.getpid()) - before
    pids = [pid for group in served.values() for pid in group]
    assert len(pids) == len(set(pids)) == 3


def test_tenants_take_turns_in_one_slot(python_guest: None) -> None:
    """Where only one engine may live, each change of tenant ends it and starts another."""
    before = engines_of(os.getpid())
    seen_pids: list[int] = []
    with fastness.Sandbox(tier="wasm", engines=1, timeout=20) as box:
        for tenant in ("ann", "bob", "ann"):
            assert box.run("1", tenant=tenant).outcome.ok
            (pid,) = engines_of(os.getpid()) - before
            seen_pids.append(pid)
    assert len(set(seen_pids)) == 3
    assert engines_of(os.getpid()) == before


def test_javascript_runs_share_nothing(single: fastness.Sandbox) -> None:
    """Globals, prototypes, modules and timers of one run are gone in the next."""
    leave = (
        "globalThis.leak = 1; Object.prototype.leak = 1; Array.prototype.map = null; JSON.parse = null; "
        "Math.random = () => 4; console.log = null; setTimeout(() => {}, 1)"
    )
    look = "[typeof leak, ({}).leak, typeof [].map, typeof JSON.parse, Math.random() === 4, typeof console.log].join()"
    clean = single.run(look, runtime="javascript", fresh=True).value
    assert single.run(f"{leave}; {look}", runtime="javascript").value != clean
    assert single.run(look, runtime="javascript").value == clean
    assert is_the_image(single)


def test_engines_keep_their_confinement(single: fastness.Sandbox) -> None:
    """Whatever ran, the process that serves is still filtered and without privileges."""
    single.run("1")
    for engine in idle_engines(single):
        shown = status(engine.pid)
        assert (shown["Seccomp"], shown["NoNewPrivs"], int(shown["CapEff"], 16)) == ("2", "1", 0)

"""
The module firewall in an interpreter of its own: what it lets through, and that what it refuses is told.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import house

_BEFORE = """
import json, os, sys, types
module = types.ModuleType("_fastness_firewall")
exec(compile(open({path!r}).read(), "<_fastness_firewall>", "exec"), module.__dict__)
told = []
import subprocess, signal
folders = [p for p in sys.path if p]
module.install(folders, lambda operation, target: told.append([operation, target]))
import atexit
atexit.register(lambda: print(json.dumps([told, *module.claims()])))
"""


def run_judged(code: str) -> subprocess.CompletedProcess[str]:
    """The code in an interpreter with the firewall, to its end."""
    before = _BEFORE.format(path=str(house.SOURCE / "fastness" / "guest" / "firewall.py"))
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", before + code], capture_output=True, text=True, timeout=60, check=False
    )


def judged(code: str) -> tuple[list[list[str]], list[dict[str, object]], int, str]:
    """What was told at once, the claims, how many were dropped, and what the code printed."""
    ran = run_judged(code)
    lines = ran.stdout.splitlines()
    assert lines, ran.stderr
    told, claims, dropped = json.loads(lines[-1])
    return told, claims, dropped, "\n".join(lines[:-1]) + ran.stderr


ALLOWED = {
    "an event loop": "import asyncio\nprint(asyncio.run(asyncio.sleep(0, 7)))",
    "threads": "import threading\nt = threading.Thread(target=print, args=(7,))\nt.start()\nt.join()",
    "a pool of threads": "from concurrent.futures import ThreadPoolExecutor as P\nprint(sum(P(2).map(int, '34')))",
    "pairs of sockets": "import socket\na, b = socket.socketpair()\na.send(b'7')\nprint(b.recv(1).decode())",
    "extension modules of the library": "import importlib, _zoneinfo, _json\nimportlib.import_module('_queue')\nprint(7)",
    "modules that import what is refused": "import multiprocessing, uuid, platform, subprocess, tempfile\nprint(7)",
    "modules of the interpreter's own": "import sys\nfor n in ('time', 'errno', 'itertools', 'marshal'):\n  sys.modules.pop(n)\n  __import__(n)\nprint(7)",
    "signals to itself": "import os, signal\nsignal.signal(10, lambda *a: print(7))\nos.kill(os.getpid(), 10)",
    "files": "import os, tempfile\nf = tempfile.NamedTemporaryFile('w+')\nf.write('7')\nf.seek(0)\nprint(f.read())",
    "a file called mem": "import os, tempfile\nos.chdir(tempfile.mkdtemp())\nopen('mem', 'w').write('7')\nprint(open('mem', 'r+').read())\nos.remove('mem')\nos.rmdir(os.getcwd())",
    "what the kernel says of itself and of this process": "open('/proc/meminfo').read()\nopen('/proc/self/status').read()\nopen('/proc/thread-self/stat').read()\nprint(7)",
    "variables": "import os\nos.environ['A'] = '7'\nprint(os.environ['A'])",
    "databases": "import sqlite3\nprint(sqlite3.connect(':memory:').execute('select 7').fetchone()[0])",
    "descriptor flags": "import fcntl, os\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETFL, os.O_NONBLOCK)\nprint(7)",
    "the collector itself": "import gc\ngc.collect()\ngc.freeze()\nprint(7)",
    "hooks of its own": "import sys\nsys.addaudithook(lambda *a: None)\nprint(7)",
    "paths of kinds of their own": "class S(str): pass\nclass B(bytes): pass\nimport os\nopen(S('/dev/null')).close()\nopen(B(b'/dev/null')).close()\nos.close(os.open(S('/dev/null'), 0))\nprint(7)",
    "path objects": "import pathlib, tempfile, shutil\np = pathlib.Path(tempfile.mkdtemp())\n(p / 'a').touch()\n(p / 'b').write_text('x')\nprint(len(list(p.iterdir())) + len(list(p.glob('*'))) + len(list(p.rglob('*'))) + len((p / 'b').read_text()))\nshutil.rmtree(p)",
    "descriptors of kinds of their own": "import enum, os\nclass N(enum.IntEnum): A = 0\nopen(N.A, closefd=False)\nprint(7)",
    "lists of folders": "import os\nfd = os.open('/', os.O_RDONLY)\nassert os.listdir(fd) == os.listdir('/')\nos.listdir(), os.listdir(b'/'), os.listdir('/proc'), os.listdir('/proc/self/fd'), list(os.scandir()), list(os.scandir(fd))\nprint(7)",
    "code objects": "import types\nprint(eval(compile('3 + 4', 'x', 'eval').replace(co_name='y')))",
    "packages": "import json.tool, xml.etree.ElementTree, decimal, hashlib, zipfile, csv\nprint(7)",
}


@pytest.mark.parametrize("what", ALLOWED)
def test_ordinary_work_goes_through(what: str) -> None:
    told, claims, dropped, printed = judged(ALLOWED[what])
    assert printed.strip() == "7"
    assert (told, claims, dropped) == ([], [], 0)


REFUSED = {
    "os.system": "import os\nos.system('true')",
    "os.fork": "import os\nos.fork()",
    "os.posix_spawn": "import os\nos.posix_spawn('/bin/true', ['true'], {})",
    "os.exec": "import os\nos.execv('/bin/true', ['true'])",
    "subprocess.Popen": "import subprocess\nsubprocess.run(['true'])",
    "subprocess.fork_exec": "import _posixsubprocess\n_posixsubprocess.fork_exec()",
    "os.kill": "import os\nos.kill(1, 0)",
    "os.killpg": "import os\nos.killpg(1, 0)",
    "os.pidfd_open": "import os\nos.pidfd_open(1)",
    "signal.pidfd_send_signal": "import signal\nsignal.pidfd_send_signal(0, 0)",
    "os.setuid": "import os\nos.setuid(os.getuid())",
    "os.sched_setaffinity": "import os\nos.sched_setaffinity(0, {0})",
    "socket.__new__": "import socket\nsocket.socket()",
    "socket.getaddrinfo": "import socket\nsocket.getaddrinfo('localhost', 1)",
    "socket.connect": "import socket\nsocket.socket(socket.AF_UNIX).connect('/x')",
    "socket.bind": "import socket\nsocket.socket(socket.AF_UNIX).bind('/nowhere/x')",
    "socket.sendto": "import socket\nsocket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', '/x')",
    "socket.sendmsg": "import socket\nsocket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, '/x')",
    "gc.get_referents": "import gc\ngc.get_referents([])",
    "resource.setrlimit": "import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
    "resource.prlimit": "import os, resource\nresource.prlimit(0, resource.RLIMIT_CORE)",
    "fcntl.ioctl": "import fcntl\nfcntl.ioctl(0, 0x5412, b'x')",
    "fcntl.fcntl": "import fcntl\nfcntl.fcntl(0, 10, 9)",
    "open": "open('/proc/thread-self/mem', 'r+b', 0)",
    "os.putenv": "import os\nos.environ['LD_PRELOAD'] = '/x.so'",
    "sys._current_frames": "import sys\nsys._current_frames()",
}


#: Paths that say what they say only when they are asked, or that are of a kind of their own, and who takes them.
ODD = {
    "a text": "open(type('S', (str,), {})('/proc/1/environ'))",
    "bytes": "open(type('B', (bytes,), {})(b'/proc/1/environ'))",
    "a text for a descriptor": "os.open(type('S', (str,), {})('/proc/1/environ'), 0)",
    "a path object": "io.FileIO(pathlib.Path('/dev/null'))",
    "a number that is a path too": "open(type('N', (int,), {'__fspath__': lambda self: '/dev/null'})(1 << 80))",
    "a path that is a number too": "open(type('N', (), {'__fspath__': lambda self: '/dev/null', '__index__': lambda self: 1 << 80})())",
    "a text that hides its kind": "open(type('M', (type,), {'mro': lambda self: [self, object]})('S', (str,), {})('/proc/1/environ'))",
    "a folder": "os.listdir('/proc/1')",
    "a folder by a descriptor": "os.listdir(os.open('/proc/1', os.O_PATH))",
    "a folder that is walked": "os.scandir('/proc/1/fd')",
    "the folder that is current": "os.chdir('/proc/1'), os.listdir()",
    "its own memory": "os.open(type('S', (str,), {})('/proc/self/mem'), os.O_RDWR)",
}


@pytest.mark.parametrize("what", ODD)
def test_paths_of_any_kind_are_judged(what: str) -> None:
    """No spelling of a path opens what its text may not, and none is asked for what it says."""
    _, claims, _, printed = judged(
        f"import io, os, pathlib\ntry:\n  {ODD[what]}\nexcept PermissionError as error:\n  print(error)\n"
    )
    assert "the module firewall of this tier refuses" in printed
    assert next(row["operation"] for row in claims) in ("open", "os.listdir", "os.scandir")


def test_buffers_are_no_paths() -> None:
    code = "import os, warnings\nwarnings.simplefilter('ignore')\ntry:\n  os.open(memoryview(b'/dev/null'), 0)\nexcept (PermissionError, TypeError):\n  print(7)"
    assert judged(code)[3].strip() == "7"


def test_nothing_of_user_code_runs_while_the_hook_judges() -> None:
    """What would be asked is refused instead, and types are compared without their own comparison."""
    code = """
import io
class Meta(type):
    def __eq__(self, other): print('asked'); return False
    __hash__ = type.__hash__
    def __instancecheck__(self, other): print('asked'); return True
class Path(metaclass=Meta):
    __class__ = property(lambda self: print('asked') or str)
    def __format__(self, how): print('asked'); return ''
    __str__ = __repr__ = __getattr__ = __format__
    def __fspath__(self): return '/dev/null'
try:
    io.FileIO(Path())
except PermissionError:
    print('refused')
"""
    assert judged(code)[3].split() == ["refused"]


@pytest.mark.parametrize("name", ["_ctypes", "ctypes", "_posixsubprocess"])
def test_names_of_any_kind_are_judged(name: str) -> None:
    code = f"class Name(str): pass\nimport sys\nsys.modules.pop({name!r}, None)\ntry:\n  __import__(Name({name!r}))\nexcept ImportError as error:\n  print(error)"
    _, claims, _, printed = judged(code)
    assert "refuses to load" in printed
    assert [row["operation"] for row in claims] == ["import"]


def test_names_of_any_kind_load_what_they_may() -> None:
    told, _, _, printed = judged("class Name(str): pass\nprint(__import__(Name('colorsys')).__name__)")
    assert (printed.strip(), told) == ("colorsys", [])


def test_an_extension_module_is_not_loaded_by_a_way_that_may_change(tmp_path: Path) -> None:
    """A link that leads to where it may be loaded from may lead elsewhere a moment later."""
    origin = (importlib.util.find_spec("_zoneinfo") or pytest.fail("no such module")).origin
    if not origin or not os.path.isabs(origin):
        pytest.skip("this interpreter has its extension modules built in")
    (tmp_path / "link").symlink_to(os.path.dirname(origin))
    code = "import sys\ntry:\n  import _zoneinfo\nexcept ImportError as error:\n  print(error)"
    assert judged(code)[3] == ""
    _, _, _, printed = judged(f"import sys\nsys.path.insert(0, {str(tmp_path / 'link')!r})\n{code}")
    assert "refuses to load" in printed


def test_the_hook_stays_until_the_process_is_gone() -> None:
    """Not even what an interpreter destroys after its hooks is left to act."""
    last = "import codecs, os\nclass Last:\n  def __del__(self, system=os.system):\n    try: system('echo escaped')\n    except PermissionError: pass\n  def __call__(self, error): pass\ncodecs.register_error('last', Last())\n"
    bare = subprocess.run([sys.executable, "-I", "-S", "-c", last], capture_output=True, text=True, check=False)
    assert bare.stdout == "escaped\n"
    assert "escaped" not in run_judged(last).stdout


@pytest.mark.parametrize(
    "code",
    [
        "for value in vars(module).values():\n  if isinstance(value, types.FunctionType): value.__code__ = (lambda *a, **b: None).__code__.replace(co_freevars=value.__code__.co_freevars)\n",
        "module.__dict__.clear()\n",
    ],
)
def test_functions_in_reach_may_change(code: str) -> None:
    """The one that judges is not among them."""
    ran = run_judged(code + "import os\ntry:\n  os.system('echo escaped')\nfinally:\n  print('after')\n")
    assert ran.stdout.split()[:1] == ["after"]


def test_the_hook_holds_nothing_where_it_is_asked_wrongly() -> None:
    code = """
import sys
for arguments in ((), ('posix',), ('posix', None), ('time', None), ('no such module', []), ('time', 1, 2)):
    try:
        sys.audit('fastness.create_builtin', *arguments)
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None:
            assert trace.tb_frame.f_locals.get('build') is None
            trace = trace.tb_next
print(7)
"""
    assert judged(code)[3].strip() == "7"


def test_the_hook_holds_nothing_while_it_makes_a_module() -> None:
    """A module may import others while it is made, by whatever user code has put in the place of the statement."""
    code = """
import builtins
found = []
original = builtins.__import__
def spy(*args, **named):
    frame = sys._getframe()
    while frame is not None:
        found.append(frame.f_locals.get('build'))
        frame = frame.f_back
    return original(*args, **named)
builtins.__import__ = spy
for name in sys.builtin_module_names:
    if name not in ('sys', 'builtins', '_thread', '_io', '_imp', 'posix', '_signal', '_warnings', '_weakref', 'marshal', 'gc', 'faulthandler'):
        sys.modules.pop(name, None)
        try:
            __import__(name)
        except ImportError:
            pass
builtins.__import__ = original
print(set(found) or 7)
"""
    assert judged(code)[3].strip().splitlines()[-1] == "{None}"


@pytest.mark.parametrize("operation", REFUSED)
def test_a_refusal_is_raised_and_told(operation: str) -> None:
    """It raises PermissionError, is told before that, and is among the claims, once for each kind with its count."""
    code = "for _ in range(3):\n  try:\n    " + REFUSED[operation].replace("\n", "\n    ")
    code += "\n  except PermissionError as error:\n    print(error.errno, str(error))\n"
    told, claims, dropped, printed = judged(code)
    assert printed.strip().splitlines() == [f"None the module firewall of this tier refuses {operation}"] * 3
    assert [row[0] for row in told] == [operation]
    assert [(row["operation"], row["count"]) for row in claims] == [(operation, 3)]
    assert dropped == 0


@pytest.mark.parametrize(
    "name", ["ctypes", "ctypes.util", "_ctypes", "cffi", "_cffi_backend", "_testcapi", "_tkinter", "nis", "readline"]
)
def test_modules_that_are_refused_look_missing(name: str) -> None:
    """An import raises ImportError, so a package that can do without goes on."""
    _, claims, _, printed = judged(f"try:\n  import {name}\nexcept ImportError as error:\n  print(error)\n")
    assert f"refuses to load {name.partition('.')[0]}" in printed
    assert [row["operation"] for row in claims] == ["import"]


def test_rows_are_bounded() -> None:
    told, claims, dropped, _ = judged(
        "import os\nfor n in range(200):\n  try:\n    os.system('x' * 500 + str(n) if n % 2 else str(n))\n  except PermissionError:\n    pass\n"
    )
    assert len(told) == len(claims) <= 64
    assert all(len(row["target"]) <= 256 for row in claims)  # type: ignore[arg-type]
    assert sum(row["count"] for row in claims) + dropped == 200  # type: ignore[misc]


def test_a_target_that_is_no_text_runs_no_code() -> None:
    """What is shown of an argument is shown without asking the argument."""
    code = (
        "import os\nclass Odd(str):\n  def __str__(self): print('ran'); return 'x'\n  __repr__ = __format__ = __str__\n"
        "import subprocess\nfor attempt in (lambda: os.system(Odd('a')), lambda: subprocess.run([Odd('true'), 'x'])):\n"
        "  try:\n    attempt()\n  except PermissionError:\n    print('refused')\n"
    )
    _, claims, _, printed = judged(code)
    assert claims[1]["target"] == "x"
    assert printed.split() == ["refused", "refused"]


def test_it_does_not_go_in_twice_where_native_calls_are_loaded() -> None:
    before = _BEFORE.replace("import subprocess, signal", "import ctypes").format(
        path=str(house.SOURCE / "fastness" / "guest" / "firewall.py")
    )
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", before], capture_output=True, text=True, check=False)
    assert "ctypes is loaded already" in ran.stderr

"""
The module firewall in an interpreter of its own: what it lets through, and that what it refuses is told.
"""

from __future__ import annotations

import json
import subprocess
import sys

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


def judged(code: str) -> tuple[list[list[str]], list[dict[str, object]], int, str]:
    """What was told at once, the claims, how many were dropped, and what the code printed."""
    before = _BEFORE.format(path=str(house.SOURCE / "fastness" / "guest" / "firewall.py"))
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", before + code], capture_output=True, text=True, timeout=60, check=False
    )
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
    "name", ["ctypes", "ctypes.util", "_ctypes", "cffi", "_cffi_backend", "_testcapi", "_tkinter", "nis"]
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

"""
Attempts that native guests can make: raw system calls by name, and the same program as Python code and as a command.

An attack on the tier ``isolated`` is made twice, for a guest of the runtime ``command`` lives under another filter.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastness._linux.numbers import numbers_of
from fastness._linux.syscalls import MACHINE
from fastness._wasi import home
from fastness.attack.model import Effect, Skip

if TYPE_CHECKING:
    from fastness.attack.arena import Arena
    from fastness.attack.outside import Bare
    from fastness.runs import RunResult

#: ``call(name, ...)`` gives a call's result, or its error as a negative number; ``told`` says what came of it.
_CALLS = """
import ctypes, os, struct

_library = ctypes.CDLL(None, use_errno=True)
_library.syscall.restype = ctypes.c_long

def call(name, *args):
    ctypes.set_errno(0)
    result = _library.syscall(ctypes.c_long(NUMBERS[name]), *[
        ctypes.c_long(each) if isinstance(each, int) else each for each in args
    ])
    return -ctypes.get_errno() if result == -1 else result

def told(result):
    # 38 is ENOSYS and 97 EAFNOSUPPORT: outside, this kernel was built without it.
    print('DONE' if result >= 0 else 'MISSING' if result in (-38, -97) else f'error {-result}', flush=True)
"""
#: Gives a program every power over namespaces of its own and none over the machine's; for controls.
_ALONE = """
import ctypes, os, sys

_own = ctypes.CDLL(None, use_errno=True)
_user, _group = os.getuid(), os.getgid()
if _own.unshare(0x0C020000 | (0x10000000 if _user else 0)):
    print('CANNOT')
    sys.exit()
if _user:
    for _name, _text in (('setgroups', 'deny'), ('uid_map', f'0 {_user} 1'), ('gid_map', f'0 {_group} 1')):
        with open(f'/proc/self/{_name}', 'w') as _file:
            _file.write(_text)
_own.mount(None, b'/', None, 0x44000, None)
"""


def program(body: str, *calls: str, **more: Any) -> str:
    """
    A Python program that can make the system calls named, whatever the C library thinks of them.

    Raises ``Skip`` where this machine's kind has no such call.
    """
    known = numbers_of(MACHINE)
    absent = [name for name in calls if name not in known]
    if absent:
        raise Skip(f"machines of this kind have no {absent[0]}")
    facts = {"NUMBERS": {name: known[name] for name in calls}, **more}
    lines = [f"{name} = {value!r}" for name, value in facts.items()]
    return "\n".join((*lines, _CALLS, body.strip("\n"), ""))


def alone(text: str) -> str:
    """The program with every power, in namespaces of its own; for controls."""
    return _ALONE + text


def tried(
    arena: Arena, text: str, word: str, what: str, *, programs: bool = True, anew: bool = False, **options: Any
) -> Effect:
    """
    Whether the program prints ``word``, which it prints only once it has done ``what``.

    ``programs`` tries it in a program too, in tiers that have these; ``anew`` has it born from a zygote that was
    started after the arena was laid out.
    """
    if anew:
        options["tenant"] = f"attack-{arena.folder.name}"
    effect = arena.said(arena.run(text, **options), word, what)
    if effect.happened or not programs or arena.tier not in ("isolated", "container") or not arena.has_programs():
        return effect
    other = arena.said(arena.program(text, **options), word, what)
    if other.happened:
        return Effect(True, f"as a program, {other.seen}", other.result)
    assert other.result is not None
    return Effect(False, effect.seen, effect.result, (other.result,))


def outside(arena: Arena, text: str, word: str, what: str, *, root: bool = False) -> Effect:
    """
    The control: the same program where nothing stops it.

    ``root`` says that other users cannot do it anyway.  Raises ``Skip`` where this machine does not let even a program
    outside do it.
    """
    bare = arena.outside.run(text)
    return spoken(arena, bare, word, what, root=root)


def spoken(arena: Arena, bare: Bare, word: str, what: str, *, root: bool = False) -> Effect:
    """As :func:`outside`, of a program that has run."""
    if b"CANNOT" in bare.stdout_bytes:
        raise Skip("this user may not have namespaces of its own here")
    if b"MISSING" in bare.stdout_bytes:
        raise Skip("this kernel has no such thing")
    effect = arena.said(bare, word, what)
    if root and not effect.happened and arena.ordinary:
        raise Skip("it takes root outside")
    return effect


# ------------------------------------------------------------------------------------------------------------- signals

#: Ignored by whoever does not ask for it, so that an attack which succeeds harms nobody.
SIGNAL = int(signal.SIGURG)
_WITNESS = """
import signal, time

signal.signal(SIGNAL, lambda *_: open(MARK_FILE, 'w').close())
print('READY', flush=True)
end = time.monotonic() + 20
while time.monotonic() < end:
    time.sleep(0.02)
"""
_BESIDE = """
import subprocess, sys, time

witness = subprocess.Popen([sys.executable, '-c', WITNESS], stdout=subprocess.PIPE)
witness.stdout.readline()
subprocess.run([sys.executable, '-c', PROGRAM])
time.sleep(0.2)
witness.kill()
witness.wait()
"""
_NOTICE_S = 0.2


def witness_code(arena: Arena) -> str:
    """A program that says ``READY`` and makes the arena's mark when it gets the signal."""
    return arena.python(_WITNESS, SIGNAL=SIGNAL)


def beside_a_witness(arena: Arena, text: str) -> str:
    """A program that starts a witness and then the given program, both in its own process group."""
    return arena.python(_BESIDE, WITNESS=witness_code(arena), PROGRAM=text)


def noticed(arena: Arena, witness: subprocess.Popen[bytes], text: str, *, programs: bool = False) -> Effect:
    """Whether the witness was signalled by the program, as code and, with ``programs``, as a program."""
    effect = mark_of(arena, witness, arena.run(text))
    if effect.happened or not programs or not arena.has_programs():
        return effect
    other = mark_of(arena, witness, arena.program(text))
    return other if other.happened else effect


def mark_of(arena: Arena, witness: subprocess.Popen[bytes], result: RunResult | None = None) -> Effect:
    """Whether the witness has made its mark, or has ended."""
    time.sleep(_NOTICE_S)
    hit = arena.mark_file.exists() or witness.poll() is not None
    return Effect(hit, "a process outside was signalled" if hit else "no process outside was signalled", result)


def while_running(arena: Arena, text: str, strike: Callable[[int], None], *, program: bool = False) -> RunResult:
    """
    Run a guest that prints ``READY`` and its number, call ``strike`` with the number then, and return its result.

    With ``program`` it is a command.  Raises ``Skip`` where none can be run.
    """
    if program:
        arena.command("true")
    run = arena.program if program else arena.run
    ready: queue.SimpleQueue[int] = queue.SimpleQueue()
    seen = bytearray()
    results: list[RunResult] = []

    def hear(name: str, data: Any) -> None:
        if name == "stdout":
            seen.extend(data)
            if seen.startswith(b"READY ") and b"\n" in seen:
                ready.put(int(seen.split()[1]))
                seen.clear()

    thread = threading.Thread(target=lambda: results.append(run(text, on_event=hear)))
    thread.start()
    try:
        strike(ready.get(timeout=10))
    finally:
        thread.join()
    return results[0]


def instructions(code: bytes) -> str:
    """A program that executes these instructions of this machine, and says LIVED where it lives through them."""
    return (
        "import ctypes, mmap\n"
        "memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
        f"memory.write({code!r})\n"
        "address = ctypes.addressof(ctypes.c_char.from_buffer(memory))\n"
        "ctypes.CFUNCTYPE(ctypes.c_long)(address)()\n"
        "print('LIVED', flush=True)\n"
    )


def lived(arena: Arena, text: str) -> Effect:
    """The control of such a program: it lives, unsandboxed.  Raises Skip where this kernel knows no such call."""
    bare = arena.outside.run(text)
    if bare.status == -signal.SIGSEGV:
        raise Skip("this kernel has no such entry")
    return arena.said(bare, "LIVED", "lived through it")


def times(path: str, tried: Callable[[], Effect]) -> Effect:
    """What ``tried`` did to the time of last change of a file of this machine."""
    before = os.stat(path).st_mtime_ns
    effect = tried()
    changed = os.stat(path).st_mtime_ns != before
    return dataclasses.replace(effect, happened=changed, seen="its time is another" if changed else "its time stands")


def only_on(machine: str) -> None:
    """Raises ``Skip`` on machines of another kind."""
    if machine != MACHINE:
        raise Skip(f"this is machine code of {machine}")


# ------------------------------------------------------------------------------------------------------------ the host


def folders_of(arena: Arena) -> list[str]:
    """Work folders of guests on this machine's disk: those with the secret in a file called ``private``."""
    found = []
    for path in Path(home.folder("runtime")).glob("*/boxes-*/**/private"):
        # Those of other hosts, or of an earlier attempt, go while they are looked at.
        with contextlib.suppress(OSError):
            if path.read_text() == arena.token:
                found.append(str(path.parent))
    return found


def open_files(path: str) -> int:
    """How many descriptors of this process are of ``path``."""
    count = 0
    for entry in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{entry}") == path
        except OSError:
            pass
    return count

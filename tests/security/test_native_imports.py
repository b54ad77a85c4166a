"""
Packages that are imported ahead and turn against their caller: they run in the zygote, which makes the guests.

What they can do to guests of their own family is theirs; everybody else is out of their reach.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastness
import house
from fastness.backends import box as boxes
from fastness.backends import native_family

#: Finds what the zygote makes guests with, among the frames that called the import.
_FIND = """
import os, socket, struct, sys
frame, box, zygote = sys._getframe(), None, None
while frame:
    if frame.f_globals.get("__name__") == "fastness._native.zygote":
        box, zygote = frame.f_globals["box"], frame.f_locals.get("self") or zygote
        birth = frame.f_globals["birth"]
    frame = frame.f_back
"""
#: In `confined`: guests come with the package's own folder, and with what else is to be put in the place of theirs.
_FOLDER = """
import ctypes

here = os.path.dirname(__file__)
place = ctypes.create_string_buffer(os.fsencode(here))
real = birth.Birth.take

def take(self, *arguments):
    real(self, *arguments)
    calls = self.arrive
    calls.put(calls._names.index("openat"), -100, ctypes.addressof(place))
    also(calls)

def also(calls):
    pass

birth.Birth.take = take
"""
#: In `confined`: they come with the process whose number is in a file of the package, too.
_ANOTHERS = (
    _FOLDER
    + """
victim = int(open(os.path.join(here, "victim")).read())

def also(calls):
    opened = calls._names.index("pidfd_open")
    # The number that would have been put there is the answer of the call before.
    calls.put_answer_at(opened - 1, 0)
    calls.put(opened, victim)
"""
)
#: In `isolated`: guests come with the process at the other end of the zygote's own socket.
_CALLERS = """
import ctypes

try:
    zygote.control.getsockopt(socket.SOL_SOCKET, 77, 4)  # SO_PEERPIDFD
except OSError:
    pass
else:
    raise RuntimeError("it has the caller's process")
kind = type(zygote)
real = kind._forked
nothing = ctypes.c_uint64(0)

def forked(self, pid):
    process, told, talk = self.birth.rights
    box.greet(talk, os.pidfd_open(os.getpid()), os.open("/tmp", os.O_RDONLY | os.O_DIRECTORY))
    os.write(told, b"+")
    real(self, pid)

# The mother is not asked.
kind.then = property(lambda self: ctypes.addressof(nothing), lambda self, value: None)
kind._forked = forked
"""


def package(folder: Path, code: str) -> dict[str, Any]:
    (folder / "turns.py").write_text(_FIND + code)
    return {"packages": [str(folder)], "preload": ["turns"], "pool": 0}


@pytest.fixture
def victim(open_folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the caller's that has nothing to do with any sandbox."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)  # fastness victim"])
    (open_folder / "victim").write_text(str(process.pid))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_guest_that_is_somebody_else_is_not_believed(open_folder: Path, victim: subprocess.Popen[bytes]) -> None:
    """A process that was never a guest is neither taken for one nor ended as one."""
    house.require("confined tier")
    made = fastness.Sandbox(tier="confined", **package(open_folder, _ANOTHERS))
    with made as box, pytest.raises(fastness.BackendError, match="none of its zygote's children"):
        box.run("1")
    assert victim.poll() is None


def test_without_the_look_it_would_be_ended(
    open_folder: Path, victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: where nobody looks whose child a process is, the caller itself ends it."""
    house.require("confined tier")
    real = boxes.become_ready
    monkeypatch.setattr(native_family, "become_ready", lambda box, confirm, origin: real(box, confirm))
    with fastness.Sandbox(tier="confined", **package(open_folder, _ANOTHERS)) as box:
        box.run("1")
    assert victim.wait(10) == -9


def test_a_folder_that_is_somebody_elses_is_not_believed(open_folder: Path) -> None:
    """Files for the guest go to its own folder, and results come from there, whatever folder is handed over."""
    house.require("confined tier")
    (open_folder / "theirs.txt").write_text("theirs")
    with fastness.Sandbox(tier="confined", **package(open_folder, _FOLDER)) as box:
        result = box.run("open('mine.txt').read()", files={"mine.txt": b"mine"})
    assert result.value == "mine"
    assert "theirs.txt" not in result.files
    assert not (open_folder / "mine.txt").exists()


def test_a_guest_that_is_its_zygote_is_not_believed(open_folder: Path) -> None:
    """A zygote has no descriptor of its caller to hand over, though the kernel has them, and its own is refused."""
    house.require("isolated tier")
    one, other = socket.socketpair()
    with one, other, contextlib.suppress(OSError):  # before Linux 6.5
        # The control: whoever is under no filter gets one.
        os.close(int.from_bytes(one.getsockopt(socket.SOL_SOCKET, 77, 4), sys.byteorder))
    made = fastness.Sandbox(tier="isolated", **package(open_folder, _CALLERS))
    with made as box, pytest.raises(fastness.BackendError, match="none of its zygote's children"):
        box.run("1")


_HOOK = """
import os, socket, sys, time

def child():
    print("a hook was here", flush=True)
    print("and here", file=sys.stderr, flush=True)
    try:
        socket.socket()
    except OSError:
        pass
    time.sleep(SECONDS)
    raise ValueError("of a hook")

os.register_at_fork(after_in_child=child)
"""


@pytest.mark.parametrize("tier", ["confined", "isolated"])
def test_what_a_package_does_after_a_fork_is_no_part_of_a_run(tier: str, open_folder: Path) -> None:
    """Neither what it writes nor what is refused to it; nor the time that it takes, where the guest greets by itself."""
    house.require(f"{tier} tier")
    (open_folder / "turns.py").write_text(_HOOK.replace("SECONDS", "0.5" if tier == "confined" else "0"))
    with fastness.Sandbox(tier=tier, packages=[str(open_folder)], preload=["turns"], pool=0) as box:
        result = box.run("print('own')", timeout=0.4)
    assert result.ok, result
    assert (result.stdout, result.stderr, result.denials) == ("own\n", "", ())


_LOUD = """
import os, socket, threading, time

def refused():
    time.sleep(0.2)
    for _ in range(4000):
        try:
            socket.socket()
        except OSError:
            pass
    time.sleep(0.3)
    os._exit(0)

threading.Thread(target=refused, daemon=True).start()
"""


@pytest.mark.parametrize("tier", ["confined", "isolated"])
def test_what_a_session_says_between_its_turns_stops_nobody(tier: str) -> None:
    """Refusals that nobody takes in fill the way to the caller; the next guest of the same zygote comes all the same."""
    house.require(f"{tier} tier")
    with fastness.Sandbox(tier=tier, pool=0) as box, box.session() as session:
        assert session.execute(_LOUD).ok
        time.sleep(2)
        assert box.run("3").value == 3

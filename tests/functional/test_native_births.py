"""How guests come into being: what they are born with, and what a zygote is held to before it makes any."""

from __future__ import annotations

from pathlib import Path

import pytest

import fastness
import house

TIERS = ("confined", "isolated")


@pytest.mark.parametrize("tier", TIERS)
def test_as_many_folders_of_packages_as_may_be_given(tier: str, tmp_path: Path, open_folder: Path) -> None:
    """Each is there for guests."""
    folders = []
    for number in range(64):
        folder = open_folder / f"p{number}"
        folder.mkdir(mode=0o755)
        (folder / f"module_{number}.py").write_text(f"NUMBER = {number}\n")
        folders.append(str(folder))
    with fastness.Sandbox(tier=tier, packages=folders) as box:
        code = "import importlib; [importlib.import_module(f'module_{n}').NUMBER for n in range(64)] == list(range(64))"
        assert box.run(code).value is True


@pytest.mark.parametrize("tier", TIERS)
def test_what_a_guest_is_born_with(tier: str) -> None:
    """Input, output, errors and the conversation, and a device that is not the machine's where it has a tree."""
    code = """
import os, stat
found = {}
for fd in range(0, 2048):
    try:
        found[fd] = stat.S_IFMT(os.fstat(fd).st_mode)
    except OSError:
        pass
[found[0] == stat.S_IFCHR, sorted(found), bool(os.fstatvfs(0).f_flag & os.ST_RDONLY)]
"""
    with fastness.Sandbox(tier=tier) as box:
        device, numbers, read_only = box.run(code).value
    assert device
    assert numbers == [0, 1, 2, 3]
    assert read_only is (tier == "isolated")


def _forks(folder: Path) -> None:
    (folder / "forks.py").write_text(
        "import os, time\nif not os.fork():\n    if not os.fork():\n        time.sleep(60)\n    os._exit(0)\nos.wait()\n"
    )


@pytest.mark.parametrize("tier", TIERS)
def test_a_preload_that_starts_a_process_is_refused(tier: str, open_folder: Path) -> None:
    """Nobody would end it; it is named, and what it started has ended."""
    _forks(open_folder)
    left = house.Leftovers(str(open_folder))
    made = fastness.Sandbox(tier=tier, packages=[str(open_folder)], preload=["forks"])
    with made as box, pytest.raises(fastness.ConfigurationError, match=r"forks.*started a process"):
        box.run("1")
    # What the kernel ends it ends a moment later.
    assert house._settle(left.processes, house.PROCESS_GRACE_S) == []


@pytest.mark.parametrize("tier", TIERS)
def test_practice_is_no_end_for_what_was_preloaded(tier: str, open_folder: Path) -> None:
    """A zygote goes through runs before it makes guests; what packages do at a program's end, they do at a guest's."""
    (open_folder / "ending.py").write_text(
        "import atexit, sys, threading\nended = []\n"
        "def end(what):\n    ended.append(what)\n    print(what, ended, file=sys.stderr)\n"
        "atexit.register(end, 'exit')\nthreading._register_atexit(end, 'threads')\n"
    )
    preload = ["ending", "concurrent.futures.thread"]
    code = """
import sys, concurrent.futures, ending
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    found = list(pool.map(abs, [-1, -2]))
[found, ending.ended, sys.argv, sorted(name for name in globals() if not name.startswith('__'))]
"""
    with fastness.Sandbox(tier=tier, packages=[str(open_folder)], preload=preload) as box:
        done = box.run(code)
    names = ["concurrent", "ending", "found", "pool", "sys"]
    assert done.value == [[1, 2], [], ["-c"], names], done
    assert done.stderr.splitlines() == ["threads ['threads']", "exit ['threads', 'exit']"]

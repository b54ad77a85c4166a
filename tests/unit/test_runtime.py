"""
Folders of hosts: an owner that lives keeps its own, whatever is left of the dead goes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fastness import runtime

_CLAIM = """
import sys, time
from fastness import runtime
owner = runtime.claim()
open(owner.folder + "/left", "w").close()
print(owner.id, flush=True)
{after}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(folder))
    return folder / "runtime"


def start(after: str) -> tuple[subprocess.Popen[str], str]:
    child = subprocess.Popen([sys.executable, "-c", _CLAIM.format(after=after)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    return child, child.stdout.readline().strip()


def end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.wait()
    assert child.stdout is not None
    child.stdout.close()


def test_a_claim_is_a_private_folder_until_it_is_released(home: Path) -> None:
    owner = runtime.claim()
    assert Path(owner.folder) == home / owner.id
    assert Path(owner.folder).stat().st_mode & 0o7777 == 0o700
    assert runtime.alive(owner.id)
    assert runtime.sweep() == []
    owner.release()
    owner.release()
    assert owner.released
    assert list(home.iterdir()) == []


def test_what_a_killed_owner_left_goes_and_what_a_living_one_has_stays(home: Path) -> None:
    dead, dead_id = start("time.sleep(60)")
    living, living_id = start("time.sleep(60)")
    try:
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert runtime.dead_owners() == [dead_id]
        assert not runtime.alive(dead_id)
        assert runtime.alive(living_id)
        assert runtime.sweep() == [dead_id]
        assert sorted(path.name for path in home.iterdir()) == [living_id, f"{living_id}.owner"]
        assert (home / living_id / "left").exists()
    finally:
        end(dead)
        end(living)
    assert runtime.claim().id != living_id
    assert not (home / living_id).exists()


def test_a_stopped_owner_lives(home: Path) -> None:
    child, name = start("time.sleep(60)")
    try:
        child.send_signal(signal.SIGSTOP)
        assert runtime.sweep() == []
        assert (home / name / "left").exists()
    finally:
        end(child)


def test_an_owner_that_ends_by_itself_leaves_nothing(home: Path) -> None:
    child, name = start("")
    assert child.wait() == 0
    end(child)
    assert len(name) == 16
    assert list(home.iterdir()) == []


def test_a_forked_child_neither_owns_nor_removes(home: Path) -> None:
    after = "import os\npid = os.fork()\nif not pid: sys.exit(0 if owner.released else 1)\nprint(os.waitpid(pid, 0)[1], flush=True)\ntime.sleep(60)"
    child, name = start(after)
    try:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "0"
        assert (home / name / "left").exists()
        assert runtime.alive(name)
    finally:
        end(child)


def test_a_forked_child_that_outlives_the_owner_does_not_keep_it_alive(home: Path) -> None:
    after = "import os\npid = os.fork()\nif not pid: time.sleep(60)\nprint(pid, flush=True)\ntime.sleep(60)"
    child, name = start(after)
    assert child.stdout is not None
    grandchild = int(child.stdout.readline())
    end(child)
    try:
        deadline = time.monotonic() + 5
        # The child lets go as the first thing it does, which may be after the parent's end.
        while runtime.alive(name):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_names_that_are_not_known_here_are_taken_for_alive() -> None:
    for name in ("0" * 16, "", "../../etc", "a/b", "0123456789ABCDEF", "x" * 16):
        assert runtime.alive(name)


def test_other_files_are_left_alone(home: Path) -> None:
    runtime.claim().release()
    for name in ("notes.owner", "0" * 15, "0" * 16):
        (home / name).write_text("mine")
    (home / ("1" * 16 + ".owner")).symlink_to("/etc/passwd")
    assert runtime.sweep() == []
    assert len(list(home.iterdir())) == 4


def test_a_tree_of_any_depth_and_mode_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "0123456789abcdef"
    top.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    here = os.open(top, os.O_RDONLY)
    for depth in range(1500):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        if depth % 100 == 0:
            os.symlink(str(outside), "link", dir_fd=deeper)
            os.mkfifo("pipe", dir_fd=deeper)
            os.mkdir("shut", 0o000, dir_fd=deeper)
        os.close(here)
        here = deeper
    os.close(here)
    (top / "d" / "shut").chmod(0o700)
    (top / "d" / "shut" / "file").write_text("x")
    (top / "d" / "shut").chmod(0o000)
    top.chmod(0o000)
    runtime.remove_tree(str(top))
    assert not top.exists()
    assert (outside / "kept").read_text() == "kept"
    runtime.remove_tree(str(top))


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (tmp_path / "fedcba9876543210").symlink_to(outside)
    with pytest.raises(OSError):
        runtime.remove_tree(str(tmp_path / "fedcba9876543210"))
    assert (outside / "kept").exists()


def test_many_claims_at_once_each_get_their_own(home: Path) -> None:
    owners: list[runtime.Owner] = []

    def some() -> None:
        owners.extend(runtime.claim() for _ in range(10))

    threads = [threading.Thread(target=some) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({owner.id for owner in owners}) == 60
    assert all(Path(owner.folder).is_dir() for owner in owners)
    for owner in owners:
        owner.release()
    assert list(home.iterdir()) == []

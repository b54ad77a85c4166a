"""Bringing changes into the real project: exactly the changes, or a refusal that names every reason."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from tree_support import BYTES, Copy, opened, picture, write

from fastness._linux import beneath
from fastness.errors import ApplyRefused, BackendError
from fastness.runner import journal, triggers
from fastness.runner import project as projects
from fastness.runner.apply import apply
from fastness.runs import Applied


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(home))
    return Copy(tmp_path)


@pytest.fixture(params=["renameat2", "no flags", "no openat2"])
def every_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what the kernel offers, and with what old kernels and other file systems lack."""
    if request.param == "no openat2":
        monkeypatch.setattr(beneath, "_works", False)
    if request.param != "renameat2":

        def rename(*arguments: object) -> None:
            raise OSError(errno.EINVAL, "no such flag")

        monkeypatch.setattr(beneath, "rename", rename)


def journals(copy: Copy) -> list[str]:
    folder = copy.real.parent / "home/data/apply"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def problems(copy: Copy, *allow: str) -> list[str]:
    """Why it is refused; nothing may have been touched."""
    before, inodes = picture(copy.real, folders=True), {p: p.lstat().st_ino for p in copy.real.rglob("*")}
    with pytest.raises(ApplyRefused) as caught:
        copy.apply(allow)
    assert picture(copy.real, folders=True) == before
    assert {p: p.lstat().st_ino for p in copy.real.rglob("*")} == inodes
    assert journals(copy) == []
    return list(caught.value.problems)


@pytest.mark.usefixtures("every_way")
def test_all_changes_are_brought_in(copy: Copy) -> None:
    """Files, links, folders and modes; what was not changed keeps its inode; nothing of ours is left."""
    for name in ("same", "changed", "gone", "old/x", "old/sub/y", "kept/z", "kept/gone"):
        write(copy.real / name, b"1")
    (copy.real / "link").symlink_to("same")
    copy.fill()
    same = (copy.real / "same").stat().st_ino
    write(copy.work / "changed", b"22")
    (copy.work / "gone").unlink()
    (copy.work / "kept/gone").unlink()
    for name in ("old/x", "old/sub/y"):
        (copy.work / name).unlink()
    (copy.work / "old/sub").rmdir()
    (copy.work / "old").rmdir()
    write(copy.work / "new/deep/er", b"3", 0o755)
    (copy.work / "new/link").symlink_to("../same")
    (copy.work / "link").unlink()
    (copy.work / "link").symlink_to("changed")
    applied = copy.apply()
    assert applied == Applied(
        folder=str(copy.real), added=("new/deep/er", "new/link"), changed=("changed", "link"),
        deleted=("gone", "kept/gone", "old/sub/y", "old/x"),
    )  # fmt: skip
    assert picture(copy.real, folders=True) == picture(copy.work, folders=True)
    assert (copy.real / "same").stat().st_ino == same
    assert journals(copy) == []


def test_nothing_to_apply(copy: Copy) -> None:
    """An empty set of changes is applied without a trace."""
    write(copy.real / "a")
    copy.fill()
    (copy.work / "empty folder").mkdir()
    assert copy.apply() == Applied(folder=str(copy.real))
    assert list(picture(copy.real, folders=True)) == ["a"]


def test_left_out_files_stay(copy: Copy) -> None:
    """Also where the guest removed the folder that they are in, and one that it made is refused."""
    write(copy.real / "sub/.env", b"secret")
    write(copy.real / "sub/x")
    copy.fill()
    (copy.work / "sub/x").unlink()
    (copy.work / "sub").rmdir()
    copy.apply()
    assert list(picture(copy.real)) == ["sub/.env"]
    write(copy.work / "sub/.env", b"other")
    assert any("there is one already" in line for line in problems(copy))


def test_times_and_modes(copy: Copy) -> None:
    """Times are the guest's, never in the future; modes give nobody more than the umask does."""
    write(copy.real / "private", b"1", 0o600)
    write(copy.real / "program", b"2", 0o755)
    copy.fill()
    for name in ("private", "program", "new"):
        write(copy.work / name, b"changed", 0o666 if name != "program" else 0o755)
    os.utime(copy.work / "new", ns=(0, 1_600_000_000_000_000_000))
    os.utime(copy.work / "private", ns=(0, time.time_ns() + 10**15))
    before = os.umask(0o027)
    try:
        copy.apply()
    finally:
        os.umask(before)
    assert (copy.real / "new").stat().st_mtime_ns == 1_600_000_000_000_000_000
    assert (copy.real / "private").stat().st_mtime <= time.time()
    modes = {name: (copy.real / name).stat().st_mode & 0o777 for name in ("private", "program", "new")}
    assert modes == {"private": 0o640, "program": 0o755, "new": 0o640}


def test_owners_are_those_of_the_project(copy: Copy) -> None:
    """Where root applies for somebody, new files are theirs too."""
    if os.geteuid():
        pytest.skip("only root writes for others")
    write(copy.real / "a")
    os.chown(copy.real / "a", 1234, 1235)
    os.chown(copy.real, 4321, 4322)
    copy.fill()
    write(copy.work / "a", b"2")
    write(copy.work / "new/b", b"3")
    (copy.work / "l").symlink_to("a")
    copy.apply()
    for name, owner in (("a", (1234, 1235)), ("new", (4321, 4322)), ("new/b", (4321, 4322)), ("l", (4321, 4322))):
        status = (copy.real / name).lstat()
        assert (status.st_uid, status.st_gid) == owner, name


# refusals


def _edit(path: Path) -> None:
    path.write_bytes(b"edited")


def _same_size_and_time(path: Path) -> None:
    status = path.stat()
    path.write_bytes(b"y")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _touch(path: Path) -> None:
    os.utime(path, ns=(0, 0))


def _replace(path: Path) -> None:
    status = path.stat()
    other = write(path.parent / "other", b"x")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.rename(path)


def _to_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


def _to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("edit", [_edit, _same_size_and_time, _touch, _replace, _to_link, _to_folder, Path.unlink])
@pytest.mark.parametrize("change", ["write", "delete"])
def test_an_edit_meanwhile_is_refused(copy: Copy, edit: Callable[[Path], None], change: str) -> None:
    """Whatever was done to a file that the guest changed, it is not lost."""
    write(copy.real / "a", b"x")
    write(copy.real / "b", b"x")
    copy.fill()
    if change == "write":
        write(copy.work / "a", b"guest")
    else:
        (copy.work / "a").unlink()
    write(copy.work / "b", b"guest")
    edit(copy.real / "a")
    (line,) = problems(copy)
    assert line.startswith("a: it was ")


def test_an_edit_elsewhere_is_no_matter(copy: Copy) -> None:
    """Only what the guest changed is compared."""
    write(copy.real / "a")
    write(copy.real / "b")
    copy.fill()
    write(copy.work / "a", b"guest")
    (copy.real / "b").write_bytes(b"mine")
    write(copy.real / "c", b"mine")
    copy.apply()
    assert picture(copy.real) == {"a": (0o644, b"guest"), "b": (0o644, b"mine"), "c": (0o644, b"mine")}


def test_one_that_is_there_already_is_refused(copy: Copy) -> None:
    """A new file does not replace one that the guest never saw."""
    copy.fill()
    write(copy.work / "a", b"guest")
    write(copy.real / "a", b"mine")
    assert problems(copy) == ["a: there is one already, which the guest did not have"]


@pytest.mark.parametrize("edit", [_to_link, _to_folder])
def test_a_way_through_something_else_is_refused(copy: Copy, edit: Callable[[Path], None]) -> None:
    """A folder that became a link in the project is not walked through."""
    write(copy.real / "dir/a")
    copy.fill()
    write(copy.work / "dir/a", b"guest")
    write(copy.work / "dir/new", b"guest")
    outside = copy.real.parent / "outside"
    (copy.real / "dir").rename(outside)
    (copy.real / "dir").symlink_to(outside) if edit is _to_link else write(copy.real / "dir")
    assert problems(copy) == [
        "dir/a: dir is a link, no folder, or another file system",
        "dir/new: dir is a link, no folder, or another file system",
    ]
    assert list(picture(outside)) == ["a"]


TRIGGERED = [
    ".git/hooks/pre-commit", ".git/config", "sub/.git/index", ".gitattributes", ".gitmodules",
    ".github/workflows/ci.yml", ".gitlab-ci.yml", ".husky/pre-push", ".pre-commit-config.yaml", ".envrc",
    ".vscode/tasks.json", ".vscode/settings.json", ".idea/workspace.xml", "package.json", "sub/package.json", "setup.py",
    "conftest.py", "sitecustomize.py", "usercustomize.py", "x.pth", "tox.ini", "noxfile.py", ".bashrc", ".profile",
    ".zshrc", ".cargo/config.toml", "build.rs", ".yarnrc.yml", ".GIT/hooks/x", "Conftest.py",
]  # fmt: skip


@pytest.mark.parametrize("path", TRIGGERED)
def test_what_tools_run_by_themselves_must_be_named(copy: Copy, path: str) -> None:
    """Each by its path, or by its folder's."""
    write(copy.real / "ordinary")
    copy.fill()
    write(copy.work / path, b"x")
    write(copy.work / "ordinary", b"changed")
    (line,) = problems(copy, "other", "", "/", os.path.basename(path)[:-1])
    assert line.startswith(f"{path}: ")
    assert "name it to allow it" in line
    copy.apply([path])
    assert (copy.real / path).read_bytes() == b"x"


def test_a_folder_that_is_named_allows_what_is_in_it(copy: Copy) -> None:
    """And no folder whose name begins alike."""
    copy.fill()
    write(copy.work / ".git/hooks/a")
    write(copy.work / ".github/workflows/a")
    assert len(problems(copy, ".git")) == 1
    assert copy.apply([".git/", ".github"]).added == (".git/hooks/a", ".github/workflows/a")


def test_deleting_what_tools_run_must_be_named_too(copy: Copy) -> None:
    """A missing setting is a setting."""
    write(copy.real / ".gitattributes")
    copy.fill()
    (copy.work / ".gitattributes").unlink()
    assert len(problems(copy)) == 1


@pytest.mark.parametrize("path", ["Makefile", "src/main.c", "README.md", "gitignore", "my.github/x", "tests/test_x.py"])
def test_ordinary_files_need_no_name(path: str) -> None:
    """Code that somebody runs on purpose is what a diff is for."""
    assert not triggers.acted_on_by(path)


def test_names_of_triggers_are_in_lower_case() -> None:
    """They are compared in lower case."""
    for name in (*triggers.TRIGGER_NAMES, *triggers.TRIGGER_FOLDERS, *triggers.TRIGGER_PLACES):
        assert name == name.lower()


@pytest.mark.parametrize("target", ["/etc/passwd", "../x", "a/../../x", "a/../../project/b"])
def test_links_that_lead_out_are_refused(copy: Copy, target: str) -> None:
    """Absolute ones too, wherever they lead."""
    write(copy.real / "a/b")
    copy.fill()
    (copy.work / "link").symlink_to(target)
    assert problems(copy) == ["link: it is a link that leads out of the folder"]


def test_links_that_lead_out_together_are_refused(copy: Copy) -> None:
    """Each stays inside as a text; one after the other they do not.  Everything is put back."""
    (copy.real / "a/b").mkdir(parents=True)
    write(copy.real / "keep")
    copy.fill()
    write(copy.work / "keep", b"changed")
    (copy.work / "a/b/up").symlink_to("../..")
    (copy.work / "out").symlink_to("a/b/up/../x")
    assert problems(copy) == ["out: by way of other links it leads out of the folder"]


def test_an_old_link_that_a_new_one_turns_outwards_is_refused(copy: Copy) -> None:
    """The project's own link was harmless while its way led through a folder."""
    write(copy.real / "d/e/x")
    (copy.real / "old").symlink_to("d/e/../../keep")
    write(copy.real / "keep")
    copy.fill()
    (copy.work / "d/e/x").unlink()
    (copy.work / "d/e").rmdir()
    (copy.work / "d/e").symlink_to("..")
    assert problems(copy) == ["d/e: a folder became a file; remove the folder first"]


def test_set_id_bits_are_refused(copy: Copy) -> None:
    """Of new files and of changed ones."""
    write(copy.real / "a")
    copy.fill()
    write(copy.work / "a", b"2").chmod(0o4755)
    write(copy.work / "b", b"2").chmod(0o2755)
    assert problems(copy) == [f"{name}: its mode sets the user or the group" for name in "ab"]


def test_what_is_no_file_is_refused(copy: Copy) -> None:
    """A pipe among the changes stops all of them, as does a name that cannot be taken, and a size."""
    copy.fill()
    write(copy.work / "fine")
    os.mkfifo(copy.work / "pipe")
    write(copy.work / "odd\x1b")
    with (copy.work / "vast").open("wb") as stream:
        stream.truncate(1 << 40)
    lines = problems(copy)
    assert [line.partition(":")[0] for line in lines] == ["odd\\x1b", "pipe", "vast"]


def test_hard_links_to_outside_are_refused(copy: Copy) -> None:
    """Names of one file that are all inside become files of their own."""
    copy.fill()
    write(copy.work / "a", b"1")
    os.link(copy.work / "a", copy.work / "b")
    copy.apply()
    assert (copy.real / "a").stat().st_nlink == 1
    copy.project = projects.snapshot(copy.real, max_bytes=BYTES, max_files=10)
    os.link(write(copy.real.parent / "outside"), copy.work / "out")
    assert "out: it has another name outside the folder" in problems(copy)


def test_every_problem_is_told_at_once(copy: Copy) -> None:
    """One look is enough to know what to do."""
    for name in "abc":
        write(copy.real / name)
    copy.fill()
    for name in "abc":
        write(copy.work / name, b"guest")
    (copy.real / "a").write_bytes(b"mine")
    (copy.real / "b").unlink()
    write(copy.work / "c", b"guest").chmod(0o4755)
    write(copy.work / ".envrc")
    (copy.work / "l").symlink_to("/")
    os.mkfifo(copy.work / "p")
    assert sorted(line.partition(":")[0] for line in problems(copy)) == [".envrc", "a", "b", "c", "l", "p"]


def test_another_folder_is_refused(copy: Copy) -> None:
    """Changes belong to the folder that was copied."""
    project = copy.fill()
    write(copy.work / "a")
    other = copy.real.parent / "other"
    other.mkdir()
    with pytest.raises(ApplyRefused, match="in its place"):
        apply(project, copy.collect(), other)
    assert list(other.iterdir()) == []


def test_staged_files_that_were_changed_are_new_to_the_project(copy: Copy) -> None:
    """They were never in it."""
    copy.fill(extra=b"1", untouched=b"2")
    write(copy.work / "extra", b"changed")
    (copy.work / "untouched").unlink()
    assert copy.apply().added == ("extra",)
    assert list(picture(copy.real)) == ["extra"]


# failures


@pytest.mark.usefixtures("every_way")
@pytest.mark.parametrize("place", ["folder", "written", "ready", "swapped", "taken"])
def test_a_failure_on_the_way_puts_everything_back(copy: Copy, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """To the same inodes, and with nothing of ours left."""
    _prepare(copy)
    before = {p: (p.lstat().st_ino, p.lstat().st_mtime_ns if p.is_file() else 0) for p in copy.real.rglob("*")}
    left = 2

    def reached(name: str) -> None:
        nonlocal left
        left -= name == place
        if name == place and (left == 0 or place in ("ready", "taken")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")

    monkeypatch.setattr(journal, "reached", reached)
    with pytest.raises(BackendError, match=r"No space left on device somewhere.*put back"):
        copy.apply()
    after = {p: (p.lstat().st_ino, p.lstat().st_mtime_ns if p.is_file() else 0) for p in copy.real.rglob("*")}
    assert after == before
    assert journals(copy) == []


def test_a_read_only_folder_fails_whole(copy: Copy) -> None:
    """What could be written is put back with what could not."""
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    write(copy.real / "a")
    write(copy.real / "shut/b")
    copy.fill()
    write(copy.work / "a", b"guest")
    write(copy.work / "shut/b", b"guest")
    (copy.real / "shut").chmod(0o555)
    try:
        with pytest.raises(BackendError, match="Permission denied"):
            copy.apply()
    finally:
        (copy.real / "shut").chmod(0o755)
    assert picture(copy.real) == {"a": (0o644, b"x"), "shut/b": (0o644, b"x")}


@pytest.mark.usefixtures("every_way")
@pytest.mark.parametrize("what", ["edit", "new", "folder"])
def test_an_edit_in_the_last_moment_is_not_lost(copy: Copy, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """After everything was judged, before names are exchanged."""
    write(copy.real / "a")
    write(copy.real / "z")
    copy.fill()
    write(copy.work / "a", b"guest")
    write(copy.work / "new", b"guest")
    write(copy.work / "z", b"guest")

    def reached(name: str) -> None:
        if name == "ready":
            if what == "edit":
                (copy.real / "z").write_bytes(b"mine")
            elif what == "new":
                write(copy.real / "new", b"mine")
            else:
                _to_folder(copy.real / "z")

    monkeypatch.setattr(journal, "reached", reached)
    with pytest.raises(ApplyRefused, match="meanwhile"):
        copy.apply()
    assert (copy.real / "a").read_bytes() == b"x"
    if what == "edit":
        assert (copy.real / "z").read_bytes() == b"mine"
    elif what == "new":
        assert (copy.real / "new").read_bytes() == b"mine"
    else:
        assert (copy.real / "z").is_dir()
    assert not [path for path in copy.real.rglob("*") if "fastness" in path.name]


def test_two_applications_wait_for_each_other(copy: Copy) -> None:
    """One is applied, the other sees what the first has done."""
    write(copy.real / "a")
    copy.fill()
    write(copy.work / "a", b"guest")
    ends: list[str] = []

    def one() -> None:
        try:
            copy.apply()
            ends.append("applied")
        except ApplyRefused:
            ends.append("refused")

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == ["applied", "refused", "refused", "refused"]
    assert journals(copy) == []


# a host that is killed


def _apply_and_be_killed(copy: Copy, stop: int) -> str:
    """In a child that kills itself at the step with this number; the step's name, empty where it came to its end."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _apply_until(copy, stop, tell)
        except BaseException:  # noqa: BLE001  # the child of a fork must not go on as a second test run
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(tell)
    _, status = os.waitpid(child, 0)
    with os.fdopen(told) as stream:
        place = stream.read()
    assert os.waitstatus_to_exitcode(status) == (-signal.SIGKILL if place else 0)
    return place


def _apply_until(copy: Copy, stop: int, tell: int) -> None:
    reached = 0

    def count(name: str) -> None:
        nonlocal reached
        if reached == stop:
            os.write(tell, name.encode())
            os.kill(os.getpid(), signal.SIGKILL)
        reached += 1

    journal.reached = count
    copy.apply()


def _prepare(copy: Copy) -> None:
    _originals(copy)
    copy.fill()
    change(copy)


def _originals(copy: Copy) -> None:
    for name in ("a", "b", "gone", "old/x", "sub/c"):
        write(copy.real / name, name.encode())
    (copy.real / "link").symlink_to("a")


def change(copy: Copy) -> None:
    """What the guest does."""
    write(copy.work / "a", b"guest a")
    write(copy.work / "sub/c", b"guest c")
    (copy.work / "gone").unlink()
    (copy.work / "old/x").unlink()
    (copy.work / "old").rmdir()
    write(copy.work / "new/deep/d", b"guest d")
    (copy.work / "link").unlink()
    (copy.work / "link").symlink_to("b")
    write(copy.work / "e", b"guest e", 0o755)


def _again(copy: Copy) -> None:
    """The project as it was, with a copy of it that the guest has changed."""
    for folder in (copy.real, copy.work):
        shutil.rmtree(folder)
        folder.mkdir()
    _prepare(copy)


@pytest.mark.usefixtures("every_way")
def test_a_host_that_is_killed_at_any_step_leaves_all_or_nothing(copy: Copy) -> None:
    """After the next look at the folder it is as before, or wholly applied; and nothing of ours is left."""
    places = []
    for stop in range(100):
        _again(copy)
        before = picture(copy.real, folders=True)
        place = _apply_and_be_killed(copy, stop)
        if not place:
            break
        places.append(place)
        assert len(journals(copy)) == 2
        assert journal.recover(copy.real) == []
        wanted = picture(copy.work, folders=True) if place in ("done", "tidied") else before
        assert picture(copy.real, folders=True) == wanted, place
        assert journals(copy) == []
    assert picture(copy.real, folders=True) == picture(copy.work, folders=True)
    assert set(places) >= {"planned", "folder", "written", "ready", "swapped", "taken", "done", "tidied"}


def test_a_run_begins_with_recovery(copy: Copy) -> None:
    """What a killed host left half applied is put right before the project is copied again, or applied to."""
    _prepare(copy)
    before = picture(copy.real, folders=True)
    assert _apply_and_be_killed(copy, 12)
    assert picture(copy.real, folders=True) != before
    copy.apply()
    assert picture(copy.real, folders=True) == picture(copy.work, folders=True)


def test_recovery_that_is_killed_is_done_again(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """From wherever it was broken off."""
    _prepare(copy)
    before = picture(copy.real, folders=True)

    class Killed(BaseException):
        pass

    def at_the_end(name: str) -> None:
        if name == "taken":
            raise Killed

    monkeypatch.setattr(journal, "reached", at_the_end)
    monkeypatch.setattr(
        "fastness.runner.apply._Application._put_back", lambda self, plan, record, error: record.close(remove=False)
    )
    with pytest.raises(Killed):
        copy.apply()
    assert picture(copy.real, folders=True) != before
    for stop in range(1, 100):
        undone = 0

        def at_a_step(name: str, stop: int = stop) -> None:
            nonlocal undone
            undone += name == "undone"
            if undone == stop:
                raise Killed

        monkeypatch.setattr(journal, "reached", at_a_step)
        try:
            journal.recover(copy.real)
        except Killed:
            continue
        break
    assert stop > 5
    assert picture(copy.real, folders=True) == before


def test_recovery_leaves_what_somebody_else_did(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there before is kept beside it, and said."""
    write(copy.real / "a", b"mine")
    copy.fill()
    write(copy.work / "a", b"guest")
    monkeypatch.setattr(journal, "reached", lambda name: _fail(name == "taken"))
    monkeypatch.setattr(
        "fastness.runner.apply._Application._put_back", lambda self, plan, record, error: record.close(remove=False)
    )
    with pytest.raises(KeyboardInterrupt):
        copy.apply()
    (copy.real / "a").unlink()
    write(copy.real / "a", b"later")
    (kept,) = journal.recover(copy.real)
    assert "changed by somebody else" in kept
    assert (copy.real / "a").read_bytes() == b"later"
    (beside,) = [path for path in copy.real.iterdir() if path.name != "a"]
    assert beside.name in kept
    assert beside.read_bytes() == b"mine"


def _fail(now: bool) -> None:
    if now:
        raise KeyboardInterrupt


@pytest.mark.parametrize("content", [b"", b"{", b'{"folder": "/x", "dev'])
def test_a_torn_plan_is_no_plan(copy: Copy, content: bytes) -> None:
    """It was not on disk, so nothing was begun."""
    with opened(copy.real) as descriptor:
        path = Path(journal.place_of(os.fstat(descriptor)))
    path.write_bytes(content)
    assert journal.recover(copy.real) == []
    assert journals(copy) == []


def test_a_plan_of_another_version_is_left_alone(copy: Copy) -> None:
    """Whoever wrote it knows what it means."""
    with opened(copy.real) as descriptor:
        path = Path(journal.place_of(os.fstat(descriptor)))
    path.write_bytes(b'{"folder": "/x", "device": 1, "inode": 1, "steps": [], "version": 9}\n')
    with pytest.raises(BackendError, match="version 9"):
        journal.recover(copy.real)
    assert path.exists()


def test_recovery_of_nothing(copy: Copy) -> None:
    """No folder, no journal: nothing happens, and nothing is made."""
    assert journal.recover(copy.real / "missing") is None
    assert journal.recover(copy.real) is None

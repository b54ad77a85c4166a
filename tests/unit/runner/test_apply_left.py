"""What an application could not put back, or has left behind: it is told, and nothing of anybody else goes with it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tree_support import Copy, picture, write

from fastness._linux import beneath
from fastness._wasi import home
from fastness.cli import doctor
from fastness.cli.main import main
from fastness.errors import ApplyRefused, BackendError, StagingError
from fastness.limits import Limits
from fastness.runner import journal
from fastness.runner.runner import _stage_project
from fastness.runs import RunRequest


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    (tmp_path / "home").mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    made = Copy(tmp_path)
    write(made.real / "a", b"mine")
    made.fill()
    write(made.work / "a", b"guest")
    return made


@pytest.fixture
def broken_off(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host that ended when it had replaced everything and not noted it yet; its journal."""

    class Killed(BaseException):
        pass

    def reached(name: str) -> None:
        if name == "taken":
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(journal, "reached", reached)
        patched.setattr(
            "fastness.runner.apply._Application._put_back", lambda self, plan, record, error: record.close(remove=False)
        )
        with pytest.raises(Killed):
            copy.apply()
    assert (copy.real / "a").read_bytes() == b"guest"
    ((folder, path),) = journal.unfinished()
    assert folder == str(copy.real)
    return Path(path)


def test_recovery_says_whether_there_was_anything(copy: Copy, broken_off: Path) -> None:
    assert journal.recover(copy.real) == []
    assert picture(copy.real) == {"a": (0o644, b"mine")}
    assert journal.recover(copy.real) is None
    assert doctor._sweep() == []


def test_doctor_sweeps_what_was_broken_off(copy: Copy, broken_off: Path) -> None:
    assert doctor._sweep() == [f"unfinished changes to {copy.real}"]
    assert (copy.real / "a").read_bytes() == b"mine"
    assert not broken_off.exists()


@pytest.mark.parametrize("how", ["gone", "another"])
def test_doctor_says_where_there_is_nothing_to_mend(copy: Copy, broken_off: Path, how: str) -> None:
    """The folder may come back, so what is known of it stays, and where that is is said."""
    copy.real.rename(copy.real.with_name("aside"))
    if how == "another":
        write(copy.real / "a", b"of another")
    for _ in range(2):
        (told,) = doctor._sweep()
        assert told.startswith(f"NOT the unfinished changes to {copy.real}")
        assert str(broken_off) in told
    if how == "another":
        assert (copy.real / "a").read_bytes() == b"of another"
        (copy.real / "a").unlink()
        copy.real.rmdir()
    copy.real.with_name("aside").rename(copy.real)
    assert doctor._sweep() == [f"unfinished changes to {copy.real}"]
    assert (copy.real / "a").read_bytes() == b"mine"


@pytest.mark.parametrize("by", ["doctor", "run", "apply"])
def test_a_file_system_may_have_another_number_after_a_restart(copy: Copy, broken_off: Path, by: str) -> None:
    """The folder at the same path with the same inode is the same."""
    moved = broken_off.with_name("ffff" + broken_off.name)
    broken_off.rename(moved)
    if by == "doctor":
        assert doctor._sweep() == [f"unfinished changes to {copy.real}"]
    elif by == "run":
        assert journal.recover(copy.real) == []
    else:
        assert copy.apply().changed == ("a",)
    assert (copy.real / "a").read_bytes() == (b"guest" if by == "apply" else b"mine")
    assert list(moved.parent.iterdir()) == []


def test_the_journal_of_another_folder_with_the_same_number_stays(copy: Copy, broken_off: Path, tmp_path: Path) -> None:
    """An inode has no meaning in another file system."""
    moved = broken_off.with_name("ffff" + broken_off.name)
    plan = broken_off.read_text().replace(str(copy.real), str(tmp_path))
    moved.write_text(plan)
    broken_off.unlink()
    assert journal.recover(copy.real) is None
    assert moved.exists()
    assert (copy.real / "a").read_bytes() == b"guest"


def _edit_after(copy: Copy, monkeypatch: pytest.MonkeyPatch, failure: BaseException) -> None:
    """Somebody saves a file that was replaced already, and then the application fails."""

    def reached(name: str) -> None:
        if name == "taken":
            (copy.real / "a").unlink()
            write(copy.real / "a", b"somebody else")
            raise failure

    monkeypatch.setattr(journal, "reached", reached)


def test_what_is_kept_is_in_a_refusal(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    _edit_after(copy, monkeypatch, ApplyRefused(["b: for a reason"]))
    with pytest.raises(ApplyRefused) as caught:
        copy.apply()
    assert caught.value.problems == ("b: for a reason",)
    (kept,) = caught.value.kept
    beside = kept.rpartition(" ")[2]
    assert (copy.real / beside).read_bytes() == b"mine"
    assert (copy.real / "a").read_bytes() == b"somebody else"
    assert "nothing was touched" not in str(caught.value)
    assert beside in str(caught.value)


def test_what_is_kept_is_in_a_failure(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    _edit_after(copy, monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(BackendError) as caught:
        copy.apply()
    assert "everything was put back" not in str(caught.value)
    assert "a was changed by somebody else" in str(caught.value)


def test_what_is_kept_is_in_an_interruption(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    _edit_after(copy, monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt) as caught:
        copy.apply()
    assert "a was changed by somebody else" in caught.value.__notes__[0]


def test_the_command_line_shows_notes(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        error = KeyboardInterrupt()
        error.add_note("a was changed by somebody else")
        raise error

    monkeypatch.setattr("fastness.cli.explain.explain", interrupted)
    assert main(["explain", "wasm"]) == 130
    assert "a was changed by somebody else" in capfd.readouterr().err


def test_nothing_is_copied_where_recovery_left_something(copy: Copy, broken_off: Path) -> None:
    """Whoever runs a command there hears of it before it is taken for the project."""
    (copy.real / "a").unlink()
    write(copy.real / "a", b"somebody else")
    request = RunRequest(command=("true",), runtime="command", tier="isolated", work=str(copy.real), limits=Limits())
    with pytest.raises(StagingError, match="a was changed by somebody else"):
        _stage_project(request, str(copy.real))
    assert _stage_project(request, str(copy.real)).project is not None


def test_an_application_tells_what_the_last_one_left(copy: Copy, broken_off: Path) -> None:
    (copy.real / "a").unlink()
    write(copy.real / "a", b"somebody else")
    with pytest.raises(ApplyRefused) as caught:
        copy.apply()
    assert len(caught.value.kept) == 1
    assert (copy.real / "a").read_bytes() == b"somebody else"


def test_a_folder_that_somebody_made_is_not_removed(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made after everything was judged, and empty: it is theirs."""
    write(copy.work / "new/deep/file", b"guest")

    def reached(name: str) -> None:
        if name == "planned":
            (copy.real / "new").mkdir()

    monkeypatch.setattr(journal, "reached", reached)
    with pytest.raises(ApplyRefused, match="new: somebody made one meanwhile"):
        copy.apply()
    assert (copy.real / "new").is_dir()
    assert list((copy.real / "new").iterdir()) == []
    assert (copy.real / "a").read_bytes() == b"mine"


def test_a_file_saved_between_two_renames_stays(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel exchanges no names there is a moment without the file; who saves then has it."""

    def rename(*arguments: object) -> None:
        raise OSError(errno.EINVAL, "no such flag")

    def reached(name: str) -> None:
        if name == "moved":
            write(copy.real / "a", b"somebody else")

    monkeypatch.setattr(beneath, "rename", rename)
    monkeypatch.setattr(journal, "reached", reached)
    with pytest.raises(ApplyRefused, match="a: somebody made one meanwhile") as caught:
        copy.apply()
    assert (copy.real / "a").read_bytes() == b"somebody else"
    (kept,) = caught.value.kept
    assert (copy.real / kept.rpartition(" ")[2]).read_bytes() == b"mine"
    assert os.listdir(home.place("data", "apply")) == []

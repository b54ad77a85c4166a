"""
The journal of an application: what is about to be done to a folder, so that it can be undone, or finished, later.

It is written to disk before the first change and lives in the data folder, one for each project folder.  A host that
dies on the way leaves it behind; the next one that looks at the folder undoes what was done, or, where all of it was
done, removes what was kept for undoing.  Everything it says is checked against the folder: new files are told from
others by inode, size and time, and names are never followed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fastness._linux import beneath
from fastness._wasi import home
from fastness.errors import BackendError

_VERSION = 1
#: Seconds to wait for another application to the same folder.
_LOCK_WAIT_S = 30.0
#: What tells a file that we wrote from any other: inode (which may be given to another file later), size and time.
Identity = list[int]
#: Stands for any folder: none is ever ours to replace.
_A_FOLDER: Identity = [-1, 0, 0]
#: Of what is not among the new files.
_NONE: Identity = [-2, 0, 0]


class Step(msgspec.Struct, frozen=True):
    """
    One change: ``kind`` is ``add``, ``change`` or ``delete``.

    ``new`` is the name, in the same folder, under which the new content waits; ``old`` the one to which the old is
    moved.  After an exchange the old content is under ``new``.
    """

    kind: str
    path: str
    new: str
    old: str


class Plan(msgspec.Struct, frozen=True):
    """
    All changes of one application.

    ``made`` are folders to make, ``gone`` those to remove where nothing is left in them; those above come first.
    """

    folder: str
    device: int
    inode: int
    steps: tuple[Step, ...]
    made: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    version: int = _VERSION


def reached(place: str) -> None:
    """Nothing: where tests end the process to see what the next one makes of it."""


class Journal:
    """The open journal of one application.  Entering and leaving order is that of the methods below."""

    def __init__(self, path: str, plan: Plan) -> None:
        self.path = path
        self.plan = plan
        self.written: dict[str, Identity] = {}
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self._append(msgspec.to_builtins(plan))
            _sync_folder(os.path.dirname(path))
        except BaseException:
            os.close(self._descriptor)
            os.unlink(path)
            raise
        reached("planned")

    def ready(self, written: dict[str, Identity]) -> None:
        """All new content is on disk under its waiting names; ``written`` tells it by path."""
        self.written = dict(written)
        self._append({"ready": self.written})
        reached("ready")

    def done(self) -> None:
        """Every step was taken: from here on there is no way back."""
        reached("taken")
        self._append({"done": True})
        reached("done")

    def undoing(self) -> None:
        """Everything is about to be put back, whatever was written before."""
        with contextlib.suppress(OSError):
            self._append({"undo": True})

    def close(self, *, remove: bool) -> None:
        """Close it, and remove it once nothing is left to undo or to tidy up."""
        os.close(self._descriptor)
        if remove:
            os.unlink(self.path)

    def _append(self, row: Any) -> None:
        data = json.dumps(row).encode() + b"\n"
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
        os.fsync(self._descriptor)


def place_of(status: os.stat_result) -> str:
    """Path of the journal of the folder with this status; the folder that holds it is made."""
    return os.path.join(home.folder("data", "apply"), _name(status))


def _name(status: os.stat_result) -> str:
    return f"{status.st_dev:x}-{status.st_ino:x}.journal"


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """
    Hold the lock that goes with a journal; it ends with the process.  Raises BackendError after half a minute.
    """
    name = path.removesuffix(".journal") + ".lock"
    ends = time.monotonic() + _LOCK_WAIT_S
    while True:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it before us removed it: then this lock is one that nobody else can find.
            if os.fstat(descriptor).st_ino == os.stat(name).st_ino:
                break
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(descriptor)
        if time.monotonic() > ends:
            raise BackendError(
                "applying", "another process is applying to the same folder", "try again when it is done"
            )
        time.sleep(0.02)
    try:
        yield
    finally:
        os.unlink(name)
        os.close(descriptor)


# -------------------------------------------------------------------------------------------------- undoing, tidying


def unfinished() -> list[tuple[str, str]]:
    """
    Applications that are under way or were left unfinished by a process that ended, sorted.

    Each as the path of its folder and that of its journal.
    """
    place = home.place("data", "apply")
    found = set()
    for name in os.listdir(place) if os.path.isdir(place) else ():
        if name.endswith(".journal"):
            path = os.path.join(place, name)
            with contextlib.suppress(OSError, BackendError):
                plan = _read(path)[0]
                if plan is not None:
                    found.add((plan.folder, path))
    return sorted(found)


def recover(folder: str | os.PathLike[str]) -> list[str] | None:
    """
    Undo, or tidy up after, an application to ``folder`` that a killed process left unfinished.

    Returns what could not be put back because somebody else changed it since, as texts; empty where all could.
    None where nothing was unfinished, or ``folder`` is none.  Raises BackendError.
    """
    try:
        top = os.open(os.fspath(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return recover_open(top)
    finally:
        os.close(top)


def recover_open(top: int) -> list[str] | None:
    """As :func:`recover` for an open folder."""
    kept: list[str] | None = None
    for path in _of(os.fstat(top)):
        with locked(path):
            found = recover_locked(top, path)
        if found is not None:
            kept = [*(kept or ()), *found]
    return kept


def _of(status: os.stat_result) -> list[str]:
    """
    Journals of the folder with this status.

    A file system may have another number after a restart, so a journal whose folder is found at its path, with the
    inode that it had, is this folder's too.
    """
    place = home.place("data", "apply")
    name = _name(status)
    found = []
    for other in sorted(os.listdir(place)) if os.path.isdir(place) else ():
        path = os.path.join(place, other)
        if other == name:
            found.append(path)
        elif other.endswith(name[name.index("-") :]):
            with contextlib.suppress(OSError, BackendError):
                plan = _read(path)[0]
                if plan is not None and os.path.samestat(os.stat(plan.folder), status):
                    found.append(path)
    return found


def recover_locked(top: int, path: str) -> list[str] | None:
    """As :func:`recover` for an open folder and one journal, whose lock is held."""
    try:
        plan, written, done = _read(path)
    except FileNotFoundError:
        return None
    kept: list[str] = []
    try:
        if plan is not None and done:
            tidy(top, plan)
        elif plan is not None:
            kept = undo(top, plan, written)
    except OSError as error:
        raise cannot_undo(path, error) from error
    os.unlink(path)
    return kept


def cannot_undo(path: str, error: OSError) -> BackendError:
    """For a folder that was changed, or closed, so that what was begun in it can be neither finished nor undone."""
    name = f" ({error.filename})" if error.filename else ""
    return BackendError(
        "undoing an unfinished application",
        f"{error.strerror}{name}",
        f"put the project's folders back as they were and try again, or sort it out by hand by the plan in {path}",
    )


def _read(path: str) -> tuple[Plan | None, dict[str, Identity] | None, bool]:
    """The plan, what was ready (None: not all yet), and whether all was done.  A torn last line is none."""
    rows: list[Any] = []
    with open(path, "rb") as stream:
        for line in stream:
            try:
                rows.append(json.loads(line))
            except ValueError:
                break
    if not rows:
        # Not even the plan was on disk, so nothing was begun.
        return None, None, False
    try:
        plan = msgspec.convert(rows[0], Plan)
    except msgspec.ValidationError as error:
        raise BackendError("reading a journal", f"{path}: {error}", "use the version that wrote it") from None
    if plan.version != _VERSION:
        raise BackendError("reading a journal", f"{path} has version {plan.version}", "use the version that wrote it")
    ready = next((row["ready"] for row in rows[1:] if "ready" in row), None)
    done = any("done" in row for row in rows[1:]) and not any("undo" in row for row in rows[1:])
    return plan, ready, done


def undo(top: int, plan: Plan, written: dict[str, Identity] | None, made: Sequence[str] | None = None) -> list[str]:
    """
    Put everything back as it was.  May be done any number of times, from any state that a step leaves.

    ``written`` is None where not all new content was ready: then nothing has been replaced yet.  ``made`` are the
    folders of the plan that were made, where that is known.
    Returns what was left alone because it is neither the old nor the new.  Raises ``OSError``.
    """
    kept: list[str] = []
    for step in reversed(plan.steps):
        parent, _, name = step.path.rpartition("/")
        folder = _open_if_there(top, parent)
        if folder is None:
            continue
        try:
            _undo_step(folder, name, step, None if written is None else written.get(step.path, _NONE), kept)
        finally:
            os.close(folder)
        reached("undone")
    for path in reversed(plan.made if made is None else made):
        _remove_folder(top, path)
    return kept


def _open_if_there(top: int, path: str) -> int | None:
    """
    A folder of the plan; None for one that was not made yet, or that somebody took away with everything in it.

    Raises ``OSError`` where something else is in its place: then it is not known what became of what was in it.
    """
    try:
        return beneath.open_folder(top, path)
    except FileNotFoundError:
        return None


def _undo_step(folder: int, name: str, step: Step, new: Identity | None, kept: list[str]) -> None:
    current = identity(folder, name)
    for waiting in (step.new, step.old):
        found = identity(folder, waiting) if waiting else None
        if found is None:
            continue
        if waiting == step.new and (new is None or found == new):
            continue
        # What is under our own name and not new is what was there before.
        if current is None or current == new:
            if current is not None and found == _A_FOLDER:
                # Somebody put a folder there just before it was exchanged; it does not replace a file.
                os.unlink(name, dir_fd=folder)
            os.rename(waiting, name, src_dir_fd=folder, dst_dir_fd=folder)
            current = found
        else:
            kept.append(f"{step.path} was changed by somebody else; what it was before is in {waiting}")
    if step.kind == "add" and current is not None and current == new:
        os.unlink(name, dir_fd=folder)
    waiting_now = identity(folder, step.new) if step.new else None
    if waiting_now is not None and (new is None or waiting_now == new):
        os.unlink(step.new, dir_fd=folder)


def tidy(top: int, plan: Plan) -> None:
    """Remove what was kept for undoing, and folders that were left empty.  Raises ``OSError``."""
    for step in plan.steps:
        folder = _open_if_there(top, step.path.rpartition("/")[0])
        if folder is None:
            continue
        try:
            for waiting in (step.new, step.old):
                if waiting:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(waiting, dir_fd=folder)
        finally:
            os.close(folder)
        reached("tidied")
    for path in reversed(plan.gone):
        _remove_folder(top, path)


def _remove_folder(top: int, path: str) -> None:
    """Remove a folder where it is empty; one that holds something, or is gone, stays as it is."""
    parent, _, name = path.rpartition("/")
    try:
        folder = beneath.open_folder(top, parent)
    except OSError:
        return
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError:
        pass
    finally:
        os.close(folder)


def identity(folder: int, name: str) -> Identity | None:
    """Of what has the name, never followed; None where nothing has it.  Raises ``OSError``."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return _A_FOLDER if stat.S_ISDIR(status.st_mode) else identity_of(status)


def identity_of(status: os.stat_result) -> Identity:
    """Of a file or link that is no folder."""
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""
Bringing what a command changed in its copy into the real project: all of it, or none.

First everything is judged and nothing touched.  Then new content is written under waiting names beside what it will
replace, and put in place by exchanging names, so that no file is ever seen half written.  A journal on disk says how
to undo it all; see ``fastness.runner.journal``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Sequence

from fastness._linux import beneath
from fastness.errors import ApplyRefused, BackendError, StagingError
from fastness.runner import journal
from fastness.runner.acting import Acting
from fastness.runner.collect import Collected
from fastness.runner.entries import Entry, Project, leads_inside, open_project
from fastness.runner.filling import write_all
from fastness.runner.journal import Journal, Plan, Step, recover
from fastness.runner.tree import shown
from fastness.runner.triggers import is_allowed
from fastness.runs import Applied

__all__ = ["apply", "recover"]

_READ = os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOCTTY", 0)
_PIECE = 1 << 20
#: What kernels and file systems answer to a flag of renameat2 that they do not know.
_NO_FLAG = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)


def apply(
    project: Project, collected: Collected, folder: str | os.PathLike[str], *, allow: Sequence[str] = ()
) -> Applied:
    """
    Bring the changes into ``folder``, which must be the one that ``project`` was copied from.

    ``allow`` names files, or folders, that tools run by themselves (``.git``, ``package.json``...) and that are
    wanted all the same.  Permission bits that this process's umask forbids are not given to anybody new.
    An application that a killed process left unfinished is undone first.
    Raises ApplyRefused, with every problem and nothing touched; BackendError where writing failed, with everything
    put back.  What could not be put back, because somebody else changed it meanwhile, is in both: see ``kept`` of
    ApplyRefused, and the fix of BackendError.
    """
    try:
        top = open_project(folder, project.identity)
    except StagingError as error:
        raise ApplyRefused([f"{error.path}: {error.why}"]) from None
    try:
        kept = journal.recover_open(top) or []
        place = journal.place_of(os.fstat(top))
        with journal.locked(place):
            kept += journal.recover_locked(top, place) or []
            work = _Application(project, collected, top, tuple(allow))
            problems = work.problems()
            if kept or problems:
                raise ApplyRefused(problems, kept)
            return work.perform(place, os.path.abspath(os.fspath(folder)))
    finally:
        os.close(top)


class _Application:
    """The state of one :func:`apply`."""

    def __init__(self, project: Project, collected: Collected, top: int, allow: tuple[str, ...]) -> None:
        self._before = project.entries
        self._collected = collected
        self._top = top
        self._allow = allow
        changes = collected.changes
        self._write = sorted((*changes.added, *changes.changed))
        # What was staged beside the project was never in the folder.
        self._delete = [path for path in changes.deleted if self._before[path].inode != -1]
        gone = {*self._delete, *self._write}
        after = {path: entry for path, entry in self._before.items() if path not in gone}
        after |= {path: entry for path in self._write if (entry := collected.entries.get(path)) is not None}
        self._acting = Acting(project.path, self._before, after, project.left_out)
        #: Status of what is replaced or deleted, as it was judged.
        self._real: dict[str, os.stat_result] = {}
        #: Folders that have to be made, and those that were.
        self._made: list[str] = []
        self._has_made: list[str] = []
        self._mask = _umask()

    # judging

    def problems(self) -> list[str]:
        """Every reason not to apply, each with the path that it is about."""
        found = self._collected
        problems = [f"{row.path}: {row.why}" for row in found.refused]
        if found.refused_dropped:
            problems.append(f"{found.refused_dropped} more entries could not be taken")
        for path in sorted({*self._write, *self._delete}):
            problems += [f"{shown(path)}: {why}" for why in self._judge(path)]
        return problems

    def _judge(self, path: str) -> list[str]:
        why: list[str] = []
        entry = self._collected.entries.get(path)
        acting = self._acting.why(path, is_link=entry is not None and entry.kind == "link")
        if acting and not is_allowed(path, self._allow):
            why.append(f"{acting}; name it to allow it")
        before = self._before.get(path)
        if before is not None and before.inode == -1:
            before = None
        if entry is not None:
            if entry.kind == "link" and not leads_inside(path, entry.target):
                why.append("it is a link that leads out of the folder")
            if entry.mode & 0o6000:
                why.append("its mode sets the user or the group")
            if path in self._collected.outside_links:
                why.append("it has another name outside the folder")
            if before is not None and before.kind == "folder":
                why.append("a folder became a file; remove the folder first")
                return why
        above = path
        while above := above.rpartition("/")[0]:
            known = self._before.get(above)
            if known is not None and known.kind != "folder":
                why.append(f"{shown(above)} became a folder; remove it first")
                return why
        return why + self._judge_real(path, before)

    def _judge_real(self, path: str, before: Entry | None) -> list[str]:
        """Whether the real folder still has what the copy was made of."""
        parent, _, name = path.rpartition("/")
        folder = self._open(parent)
        if folder is None:
            return [f"{shown(parent)} is a link, no folder, or another file system"]
        if folder == -1:
            return [] if before is None else ["it was deleted meanwhile"]
        try:
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                return [] if before is None else ["it was deleted meanwhile"]
            if before is None:
                return ["there is one already, which the guest did not have"]
            self._real[path] = status
            return [] if _is_same(folder, name, status, before) else ["it was changed meanwhile"]
        except OSError as error:
            return [f"it cannot be read: {error.strerror}"]
        finally:
            os.close(folder)

    def _open(self, path: str) -> int | None:
        """The folder; -1 where there is none (it is then made), None where its place is taken by something else."""
        try:
            return beneath.open_folder(self._top, path)
        except FileNotFoundError:
            pass
        except OSError:
            return None
        # Above it there must be real folders, or nothing.
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            above = "/".join(parts[:count])
            try:
                os.close(beneath.open_folder(self._top, above))
            except FileNotFoundError:
                if above not in self._made:
                    self._made.append(above)
            except OSError:
                return None
        return -1

    # doing

    def perform(self, place: str, folder: str) -> Applied:
        """Do it.  Raises BackendError or ApplyRefused, with everything put back."""
        token = os.urandom(8).hex()
        steps = []
        for number, path in enumerate((*self._delete, *self._write)):
            new, old = f".fastness-{token}-{number}.new", f".fastness-{token}-{number}.old"
            if number < len(self._delete):
                steps.append(Step("delete", path, "", old))
            else:
                steps.append(Step("change" if path in self._real else "add", path, new, old))
        if not steps:
            return Applied(folder=folder)
        status = os.fstat(self._top)
        written = {path.rpartition("/")[0] for path in self._write}
        made = [path for path in self._made if any(f"{use}/".startswith(f"{path}/") for use in written)]
        plan = Plan(folder, status.st_dev, status.st_ino, tuple(steps), tuple(made), self._collected.folders_gone)
        record = Journal(place, plan)
        try:
            self._take(plan, record)
            record.done()
        except BaseException as error:
            kept = self._put_back(plan, record, error)
            if isinstance(error, ApplyRefused):
                raise ApplyRefused(error.problems, kept) from None
            if isinstance(error, OSError):
                name = f" {shown(str(error.filename))}" if error.filename else ""
                hint = "; ".join(kept) or "everything was put back; make the folder writable"
                raise BackendError("applying", f"{error.strerror}{name}", hint) from error
            if kept:
                error.add_note("; ".join(kept))
            raise
        try:
            journal.tidy(self._top, plan)
        except OSError:
            # All is applied; the next process that looks at this folder tidies up.
            record.close(remove=False)
        else:
            record.close(remove=True)
        return Applied(
            folder=folder,
            added=tuple(step.path for step in steps if step.kind == "add"),
            changed=tuple(step.path for step in steps if step.kind == "change"),
            deleted=tuple(self._delete),
        )

    def _put_back(self, plan: Plan, record: Journal, error: BaseException) -> list[str]:
        """Undo it all; what could not be put back, as texts.  Raises BackendError."""
        record.undoing()
        try:
            kept = journal.undo(self._top, plan, record.written or None, self._has_made)
        except OSError as failure:
            # The journal stays: the next process that looks at this folder tries again.
            record.close(remove=False)
            raise journal.cannot_undo(record.path, failure) from error
        record.close(remove=True)
        return kept

    def _take(self, plan: Plan, record: Journal) -> None:
        for path in plan.made:
            self._make_folder(path)
            journal.reached("folder")
        written = {}
        for step in plan.steps:
            if step.kind != "delete":
                written[step.path] = self._write_new(step)
                journal.reached("written")
        record.ready(written)
        parents = set()
        for step in plan.steps:
            parent, _, name = step.path.rpartition("/")
            parents.add(parent)
            folder = beneath.open_folder(self._top, parent)
            try:
                self._swap(folder, name, step)
            finally:
                os.close(folder)
            journal.reached("swapped")
        self._check_links()
        for parent in parents:
            folder = beneath.open_folder(self._top, parent)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _make_folder(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        folder = beneath.open_folder(self._top, parent)
        try:
            try:
                os.mkdir(name, 0o777, dir_fd=folder)
            except FileExistsError:
                raise ApplyRefused([f"{shown(path)}: somebody made one meanwhile"]) from None
            self._has_made.append(path)
            if os.geteuid() == 0:
                owner = os.fstat(folder)
                os.chown(name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)
        finally:
            os.close(folder)

    def _write_new(self, step: Step) -> journal.Identity:
        """Put the new content on disk under its waiting name; what tells it from other files."""
        entry = self._collected.entries[step.path]
        real = self._real.get(step.path)
        folder = beneath.open_folder(self._top, step.path.rpartition("/")[0])
        try:
            owner = real or os.fstat(folder)
            if entry.kind == "link":
                os.symlink(entry.target, step.new, dir_fd=folder)
                if os.geteuid() == 0:
                    os.chown(step.new, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)
                return journal.identity_of(os.stat(step.new, dir_fd=folder, follow_symlinks=False))
            target = beneath.open_child(folder, step.new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                write_all(target, self._collected.files[step.path].read())
                if os.geteuid() == 0:
                    os.fchown(target, owner.st_uid, owner.st_gid)
                os.fchmod(target, self._mode(step.path, entry, real))
                # The order in which things were made decides what a build does next; the future is no time.
                when = min(entry.mtime_ns, time.time_ns())
                os.utime(target, ns=(when, when))
                os.fsync(target)
                return journal.identity_of(os.fstat(target))
            finally:
                os.close(target)
        finally:
            os.close(folder)

    def _mode(self, path: str, entry: Entry, real: os.stat_result | None) -> int:
        """Permission bits: as they are where the guest did not touch them, else its own within the umask."""
        has = stat.S_IMODE(real.st_mode) & 0o777 if real is not None and stat.S_ISREG(real.st_mode) else 0
        before = self._before.get(path)
        if has and before is not None and before.mode == entry.mode & 0o777:
            return has
        return entry.mode & 0o777 & (~self._mask | has)

    def _swap(self, folder: int, name: str, step: Step) -> None:
        """Take one step, and check that what was taken away is what was judged.  Raises ApplyRefused, ``OSError``."""
        taken = ""
        if step.kind == "add":
            _add(folder, step.new, name, step.path)
        elif step.kind == "delete":
            os.rename(name, step.old, src_dir_fd=folder, dst_dir_fd=folder)
            taken = step.old
        else:
            taken = _exchange(folder, step, name)
        if taken:
            status = os.stat(taken, dir_fd=folder, follow_symlinks=False)
            judged = self._real[step.path]
            if (status.st_size, status.st_mtime_ns) != (judged.st_size, judged.st_mtime_ns):
                raise ApplyRefused([f"{shown(step.path)}: it was changed meanwhile"])

    def _check_links(self) -> None:
        """Links that each stay inside may lead out together, so all are followed once they are in place."""
        new = [path for path, entry in self._collected.entries.items() if entry.kind == "link"]
        if not new:
            return
        deleted = set(self._delete)
        old = [path for path, entry in self._before.items() if entry.kind == "link" and path not in deleted]
        out = [path for path in sorted({*new, *old}) if not beneath.stays_inside(self._top, path)]
        if out:
            raise ApplyRefused([f"{shown(path)}: by way of other links it leads out of the folder" for path in out])


def _umask() -> int:
    """The bits that this process keeps from new files; read, not set, since threads share them (proc(5))."""
    try:
        with open("/proc/self/status", "rb") as stream:
            found = next((line for line in stream if line.startswith(b"Umask:")), b"Umask: 022")
        return int(found.split()[1], 8)
    except OSError:
        return 0o022


def _is_same(folder: int, name: str, status: os.stat_result, before: Entry) -> bool:
    """Whether an entry is still what was copied: kind, inode, size, time, and content."""
    if status.st_ino != before.inode:
        return False
    if before.kind == "link":
        return stat.S_ISLNK(status.st_mode) and os.readlink(name, dir_fd=folder) == before.target
    if not stat.S_ISREG(status.st_mode) or (status.st_size, status.st_mtime_ns) != (before.size, before.mtime_ns):
        return False
    descriptor = beneath.open_child(folder, name, _READ)
    try:
        digest = hashlib.sha256()
        while part := os.read(descriptor, _PIECE):
            digest.update(part)
        return digest.hexdigest() == before.sha256
    finally:
        os.close(descriptor)


def _add(folder: int, new: str, name: str, path: str) -> None:
    """Give the new content its name, where nothing has it.  Raises ApplyRefused, ``OSError``."""
    try:
        try:
            beneath.rename(folder, new, folder, name, beneath.RENAME_NOREPLACE)
        except OSError as error:
            if error.errno not in _NO_FLAG:
                raise
            # The same promise: link(2) never replaces.
            os.link(new, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            os.unlink(new, dir_fd=folder)
    except FileExistsError:
        raise ApplyRefused([f"{shown(path)}: somebody made one meanwhile"]) from None


def _exchange(folder: int, step: Step, name: str) -> str:
    """Put the new content in place of the old; the name under which the old is now."""
    try:
        beneath.rename(folder, step.new, folder, name, beneath.RENAME_EXCHANGE)
    except OSError as error:
        if error.errno not in _NO_FLAG:
            raise
    else:
        return step.new
    os.rename(name, step.old, src_dir_fd=folder, dst_dir_fd=folder)
    journal.reached("moved")
    # Somebody may have saved a file under the name that is free for a moment.
    _add(folder, step.new, name, step.path)
    return step.old

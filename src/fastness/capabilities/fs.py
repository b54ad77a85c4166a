"""
The capability ``fs``: files below one folder that the host chose, which a guest never hears the name of.

Six operations: ``read``, ``write``, ``list``, ``stat``, ``delete``, ``mkdir``.  There is no appending, moving or
linking, and no handle that stays open: each call names a path, and is judged by itself.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec

from fastness.capabilities import _files
from fastness.capabilities._paths import LONGEST, parts_of, shown
from fastness.capabilities._threads import Stop, whole
from fastness.capabilities._usage import ENTRY_BYTES, Usage
from fastness.capability import CallContext, Operation, Scope, Spec, size_of
from fastness.errors import AdapterError, Denied, QuotaExceeded
from fastness.limits import MIB, in_words
from fastness.runs import DenialCode

__all__ = ["SPEC", "Fs", "FsScope"]

_MOST_BYTES = 16 * MIB
_MOST_ENTRIES = 1000
_SPENT = "fs.bytes"
_READS = frozenset(("read", "list", "stat"))

Root = str | os.PathLike[str]
_Path = Annotated[str, msgspec.Meta(max_length=LONGEST * 4)]


class FsScope(Scope, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="fs"):
    """
    What a plugin may do in its folder; by default nothing.

    ``read``: read, list, stat.  ``write``: write, delete, mkdir.  ``call_bytes``: bytes that one call may read or
    write.  ``run_bytes``: bytes that a run may write in all.  ``quota``: bytes that the folder may hold in all, whoever
    wrote them, for something to be added.  A file or folder counts for 4 KiB beside its own.
    """

    read: bool = False
    write: bool = False
    call_bytes: Annotated[int, msgspec.Meta(ge=0, le=_MOST_BYTES)] = 1 * MIB
    run_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 16 * MIB
    quota: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 64 * MIB


class Read(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``read``: from ``offset`` on, ``length`` bytes or all."""

    path: _Path
    offset: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)] = 0
    length: Annotated[int, msgspec.Meta(ge=0, le=_MOST_BYTES)] | None = None


class Write(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``write``: ``data`` is bytes, or a text, which is written in UTF-8."""

    path: _Path
    data: Any


class Path(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``stat``, ``delete`` and ``mkdir``."""

    path: _Path


class Listing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``list``."""

    path: _Path = ""


def _target(arguments: Any) -> str:
    return shown(arguments.path)


def _meet(asked: FsScope, allowed: FsScope) -> FsScope | None:
    read, write = asked.read and allowed.read, asked.write and allowed.write
    if not read and not write:
        return None
    return FsScope(
        read=read,
        write=write,
        call_bytes=min(asked.call_bytes, allowed.call_bytes),
        run_bytes=min(asked.run_bytes, allowed.run_bytes),
        quota=min(asked.quota, allowed.quota),
    )


def _exceeds(asked: FsScope, allowed: FsScope) -> list[str]:
    found = []
    if asked.read and not allowed.read:
        found.append("read files")
    if asked.write and not allowed.write:
        found.append("write, replace and delete files")
    reads_or_writes = asked.read or asked.write
    if reads_or_writes and asked.call_bytes > allowed.call_bytes:
        found.append(f"up to {in_words(asked.call_bytes)} in one call")
    if asked.write and asked.run_bytes > allowed.run_bytes:
        found.append(f"write up to {in_words(asked.run_bytes)} in one run")
    if asked.write and asked.quota > allowed.quota:
        found.append(f"fill its folder up to {in_words(asked.quota)}")
    return found


def _risk(scope: FsScope) -> str:
    if scope.read and scope.write:
        what = "It can read, change and delete every file in its folder"
    elif scope.write:
        what = "It can replace and delete every file in its folder, without reading them"
    elif scope.read:
        what = "It can read every file in its folder"
    else:
        return "It can do nothing with files."
    fills = f" It can fill it up to {in_words(scope.quota)}." if scope.write else ""
    return f"{what}, and nothing outside that folder.{fills}"


def _learn(calls: Sequence[tuple[str, Any]]) -> FsScope:
    reads = [given for operation, given in calls if operation in _READS]
    writes = [given for operation, given in calls if operation not in _READS]
    written = [size_of(given) - len(given.path.encode()) for given in writes if isinstance(given, Write)]
    # How much a file has is not known; what is not read or written needs nothing.
    read = [given.length if given.length is not None else 1 * MIB for given in reads if isinstance(given, Read)]
    call_bytes = max(written + read, default=0)
    if not writes:
        return FsScope(read=True, call_bytes=call_bytes)
    made = sum(operation in ("write", "mkdir") for operation, _ in calls)
    # A name counts beside what is in it, as long as it is not known to be there.
    whole = sum(written) + ENTRY_BYTES * made
    return FsScope(read=bool(reads), write=True, call_bytes=call_bytes, run_bytes=whole, quota=whole)


SPEC = Spec(
    kind="fs",
    scope=FsScope,
    operations=(
        Operation(name="read", arguments=Read, target=_target, summary="The bytes of a file."),
        Operation(
            name="write",
            arguments=Write,
            target=_target,
            summary="Make data the content of a file; True where the file is new.",
        ),
        Operation(
            name="list",
            arguments=Listing,
            target=_target,
            summary=f"Entries of a folder, {_MOST_ENTRIES} at most: a dict with entries and more.",
        ),
        Operation(name="stat", arguments=Path, target=_target, summary="Kind, size and modified of an entry, or None."),
        Operation(
            name="delete",
            arguments=Path,
            target=_target,
            summary="Remove a file or an empty folder; False where there is none.",
        ),
        Operation(
            name="mkdir", arguments=Path, target=_target, summary="Make a folder; False where it is there already."
        ),
    ),
    meet=_meet,
    exceeds=_exceeds,
    risk=_risk,
    learn=_learn,
    enforced=(
        "One folder, chosen by the host; its name never reaches the guest.",
        "Paths are walked below the open folder: no link is followed, no mount entered (openat2(2), or name by name).",
        "Absolute paths, NUL, backslashes and every spelling of .. are refused before anything is opened.",
        "Only regular files are read or replaced, by what is open and not by what a name led to before.",
        "A file that has another name besides (a hard link) is neither replaced nor deleted.",
        "Writes take the name of a file whole or not at all, in the folder that was checked.",
        "Without write, nothing can be changed.",
        "Bytes of a call, bytes that a run writes, bytes of the folder, and entries of a listing have ceilings.",
    ),
)


class Fs:
    """
    The adapter of ``fs``.

    ``root`` is the folder, or a function that gives it for a call: of a plugin and its owner as the context names them,
    never as a guest does.  The folder must exist.
    """

    spec = SPEC

    def __init__(self, root: Root | Callable[[CallContext], Root]) -> None:
        self._root = root
        self._swept: set[tuple[int, int]] = set()
        self._usage = Usage()

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Do it.  Raises Denied, QuotaExceeded and AdapterError, which name nothing but the guest's own path."""
        scope: FsScope = context.scope
        path = shown(arguments.path)
        self._allowed(operation, scope, path)
        parts = parts_of(arguments.path)
        root = os.fspath(self._root(context) if callable(self._root) else self._root)
        if operation == "list":
            return await whole(lambda stop: _files.names(root, parts, path, _MOST_ENTRIES))
        if operation == "stat":
            return await whole(lambda stop: _files.describe(root, parts, path))
        if not parts:
            raise AdapterError("this needs the path of something in the folder")
        if operation == "read":
            data = await self._read(root, parts, path, arguments, scope)
            context.bytes_in = len(data)
            return data
        if operation == "delete":
            return await whole(lambda stop: self._delete(root, parts, path))
        data = b"" if operation == "mkdir" else _data(arguments.data, scope, path)
        return await self._write(operation, root, parts, path, data, context)

    async def aclose(self) -> None:
        """Nothing is held between calls."""

    @staticmethod
    def _allowed(operation: str, scope: FsScope, path: str) -> None:
        if operation in ("read", "list", "stat"):
            if not scope.read:
                raise Denied(DenialCode.NOT_GRANTED, path)
        elif operation in ("write", "delete", "mkdir"):
            if not scope.write:
                raise Denied(DenialCode.READ_ONLY if scope.read else DenialCode.NOT_GRANTED, path)
        else:
            raise Denied(DenialCode.UNSUPPORTED, path)

    @staticmethod
    async def _read(root: str, parts: tuple[str, ...], path: str, arguments: Read, scope: FsScope) -> bytes:
        work = functools.partial(_files.read, root, parts, path, arguments.offset, arguments.length, scope.call_bytes)
        return await whole(work)

    async def _write(
        self, operation: str, root: str, parts: tuple[str, ...], path: str, data: bytes, context: CallContext
    ) -> bool:
        """Writes and new folders, within what the run may write and the folder may hold."""
        cost = len(data) + ENTRY_BYTES
        if context.spent.get(_SPENT, 0) + cost > context.scope.run_bytes:
            raise QuotaExceeded(f"{path}: this run has written all that it may")
        # Taken before and given back after, so that calls at once do not share the last of it.
        context.spent[_SPENT] = context.spent.get(_SPENT, 0) + cost
        try:
            context.bytes_out = len(data)
            quota = context.scope.quota
            made = await whole(lambda stop: self._put(operation, root, parts, path, data, quota, stop))
        except (AdapterError, Denied, QuotaExceeded):
            # Nothing was left behind.  Of a call that was cancelled that is not known, and it counts.
            context.spent[_SPENT] -= cost
            raise
        if not made:
            context.spent[_SPENT] -= cost if operation == "mkdir" else ENTRY_BYTES
        return made

    def _put(
        self, operation: str, root: str, parts: tuple[str, ...], path: str, data: bytes, quota: int, stop: Stop
    ) -> bool:
        # What is added is what it takes more than what it takes the place of.
        before = _files.describe(root, parts, path)
        if operation == "mkdir":
            grows = ENTRY_BYTES if before is None else 0
        else:
            grows = len(data) - before["size"] if before is not None else len(data) + ENTRY_BYTES
        if grows > 0:
            self._usage.take(root, grows, quota, path)
        try:
            if operation == "mkdir":
                made = _files.make_folder(root, parts, path)
            else:
                made = _files.write(root, parts, path, data, self._swept, stop)
        except BaseException:
            if grows > 0:
                self._usage.give(root, grows)
            raise
        if grows < 0:
            self._usage.give(root, -grows)
        return made

    def _delete(self, root: str, parts: tuple[str, ...], path: str) -> bool:
        before = _files.describe(root, parts, path)
        gone = _files.delete(root, parts, path)
        if gone and before is not None:
            self._usage.give(root, ENTRY_BYTES + before["size"])
        return gone


def _data(data: Any, scope: FsScope, path: str) -> bytes:
    if isinstance(data, str):
        # Before it is encoded: a character takes one byte at least.
        if len(data) > scope.call_bytes:
            raise Denied(DenialCode.TOO_LARGE, path)
        try:
            data = data.encode()
        except UnicodeEncodeError:
            raise AdapterError("data is a text that UTF-8 does not have; give bytes") from None
    if not isinstance(data, bytes):
        raise AdapterError("data must be bytes or a text")
    if len(data) > scope.call_bytes:
        raise Denied(DenialCode.TOO_LARGE, path)
    return data

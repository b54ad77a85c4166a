"""
The capability ``memory``: notes that a plugin keeps for an owner, found again by their words.

Whose notes they are comes from the host alone.  Each owner has a folder, and each plugin a file in it, so that no word
of a search is compared with anything of another owner's; plugins that were granted it share one more file.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec

from fastness.capabilities._memory_query import words_of
from fastness.capabilities._memory_store import NOTE_OVERHEAD, Store, size_of
from fastness.capabilities._threads import Stop, Stopped, whole
from fastness.capability import CallContext, Operation, Scope, Spec
from fastness.database import busy, full
from fastness.errors import AdapterError, BackendError, Denied
from fastness.limits import KIB, MIB, in_words
from fastness.runs import DenialCode

__all__ = ["SPEC", "Memory", "MemoryScope"]

_MOST_TEXT = 1 * MIB
_MOST_TAGS = 16
_TAG = 64
_MOST_FOUND = 50
_MOST_LISTED = 100
#: Files that are kept open.
_OPEN = 32
_SHARED = "owner.db"
_OWN = re.compile(r"p-(.+)\.db")
_NUMBER_MAX = 1 << 53

_Number = Annotated[int, msgspec.Meta(ge=1, le=_NUMBER_MAX)]
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=_MOST_TEXT)]
_Tags = Annotated[
    list[Annotated[str, msgspec.Meta(min_length=1, max_length=_TAG)]], msgspec.Meta(max_length=_MOST_TAGS)
]


class MemoryScope(Scope, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="memory"):
    """
    How much a plugin may remember for an owner: ``notes`` and ``quota`` bytes of them, by default none.

    Texts, tags and 256 bytes for each note count.  ``note_bytes`` is the size of one.  ``of`` says whose notes they
    are: the ``plugin``'s own, or those of the ``owner``, which every plugin that was granted the same reads too.
    """

    notes: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0
    quota: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 0
    note_bytes: Annotated[int, msgspec.Meta(ge=1, le=2 * _MOST_TEXT)] = 64 * KIB
    of: Literal["plugin", "owner"] = "plugin"


class Add(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``add``."""

    text: _Text
    tags: _Tags = []


class Update(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``update``: what is None stays as it is."""

    id: _Number
    text: _Text | None = None
    tags: _Tags | None = None


class Which(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``get`` and ``delete``."""

    id: _Number


class Search(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``search``: notes with all of the ``words``, or ``any`` of them, and with all of the tags."""

    words: Annotated[str, msgspec.Meta(max_length=1000)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST_FOUND)] = 10
    tags: _Tags = []
    any: bool = False


class Listing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``list``: notes with all of the tags, from the newest on, or from those before a number."""

    before: _Number | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST_LISTED)] = 20
    tags: _Tags = []


def _meet(asked: MemoryScope, allowed: MemoryScope) -> MemoryScope | None:
    notes, quota = min(asked.notes, allowed.notes), min(asked.quota, allowed.quota)
    # Notes of a plugin's own are no part of those that plugins share, nor the other way.
    if not notes or not quota or asked.of != allowed.of:
        return None
    return MemoryScope(notes=notes, quota=quota, note_bytes=min(asked.note_bytes, allowed.note_bytes), of=asked.of)


def _exceeds(asked: MemoryScope, allowed: MemoryScope) -> list[str]:
    if not asked.notes or not asked.quota:
        return []
    found = []
    if asked.of != allowed.of:
        shares = {"owner": "the notes that plugins share for an owner", "plugin": "notes of its own"}
        found.append(f"remember {shares[asked.of]}")
    if asked.notes > allowed.notes:
        found.append(f"keep up to {asked.notes} notes for each owner")
    if asked.quota > allowed.quota:
        found.append(f"keep up to {in_words(asked.quota)} of notes for each owner")
    if asked.note_bytes > allowed.note_bytes:
        found.append(f"notes of up to {in_words(asked.note_bytes)}")
    return found


def _risk(scope: MemoryScope) -> str:
    if not scope.notes or not scope.quota:
        return "It can remember nothing."
    said = f"It keeps up to {scope.notes} notes, {in_words(scope.quota)}, on this machine between runs"
    if scope.of == "owner":
        return (
            f"{said}, and reads all that other plugins have noted for you in the memory that they share; "
            "they read what it notes there."
        )
    return f"{said}, which no other plugin and no other owner sees."


def _number(given: Any) -> str:
    return str(given.id)


def _nothing(_: Any) -> str:
    # What is noted and what is looked for are the payload.
    return ""


def _learn(calls: Sequence[tuple[str, Any]]) -> MemoryScope:
    # Of a change what is not said stays, and nobody knows how much that is.
    sizes = [size_of(given.text or "", given.tags or ()) for _, given in calls if isinstance(given, (Add, Update))]
    added = sum(isinstance(given, Add) for _, given in calls)
    return MemoryScope(
        notes=max(1, added), quota=max(1, sum(sizes)), note_bytes=max(1, max(sizes, default=0) - NOTE_OVERHEAD)
    )


SPEC = Spec(
    kind="memory",
    scope=MemoryScope,
    operations=(
        Operation(name="add", arguments=Add, target=_nothing, summary="Keep a note, with tags; gives its number."),
        Operation(name="get", arguments=Which, target=_number, summary="A note as a dict, or None."),
        Operation(name="update", arguments=Update, target=_number, summary="Change a note; False where there is none."),
        Operation(name="delete", arguments=Which, target=_number, summary="Forget a note; False where there is none."),
        Operation(
            name="search",
            arguments=Search,
            target=_nothing,
            summary="Notes with these words, the best of the newest first: a dict with notes and more.",
        ),
        Operation(
            name="list",
            arguments=Listing,
            target=_nothing,
            summary="Notes, the newest first: a dict with notes and more.",
        ),
    ),
    meet=_meet,
    exceeds=_exceeds,
    risk=_risk,
    learn=_learn,
    enforced=(
        "Each owner has a folder, and each plugin a file in it; both are named by the host and not by the guest.",
        "Notes that plugins share for an owner are in a file of their own, for those that were granted it.",
        "A plugin changes and forgets notes that it wrote, and no others.",
        f"Notes are counted, and texts, tags and {NOTE_OVERHEAD} bytes for each note, for each plugin and owner.",
        "Quotas hold for all processes and runs together, since each change is one transaction.",
        "Words are taken out of what is looked for, and quoted: nothing of it is read as the index's own language.",
        "Records name numbers of notes, and no word of a note or of a search.",
        "What an owner erases is gone from the files, and not only marked as deleted.",
    ),
)

_OPERATIONS = frozenset(one.name for one in SPEC.operations)


class Memory:
    """
    The adapter of ``memory``, in files below the folder ``base``, which exists and is private to this user.

    Several adapters and processes may share it.
    """

    spec = SPEC

    def __init__(self, base: str) -> None:
        self._base = base
        self._lock = threading.Lock()
        self._stores: OrderedDict[str, Store] = OrderedDict()

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Do it.  Raises Denied, QuotaExceeded and AdapterError."""
        scope: MemoryScope = context.scope
        if operation not in _OPERATIONS:
            raise Denied(DenialCode.UNSUPPORTED, operation)
        if not scope.notes or not scope.quota:
            raise Denied(DenialCode.NOT_GRANTED, "")
        _check(arguments, scope)
        try:
            # In a thread: another process may have to be waited for, and a search takes its time.
            return await whole(lambda stop: self._do(operation, arguments, context, stop))
        except sqlite3.Error as error:
            if busy(error):
                raise AdapterError("the memory is in use; try again") from error
            words = "there is no room to keep this" if full(error) else "the memory cannot be used"
            raise AdapterError(words) from error
        except (BackendError, OSError) as error:
            raise AdapterError("the memory cannot be used") from error

    def _do(self, operation: str, given: Any, context: CallContext, stop: Stop) -> Any:
        def halt() -> None:
            if stop:
                raise Stopped

        scope: MemoryScope = context.scope
        plugin, most = context.plugin, (scope.notes, scope.quota)
        store = self._store(context.owner, None if scope.of == "owner" else plugin)
        if operation == "add":
            context.bytes_out = size_of(given.text, given.tags)
            return store.add(plugin, given.text, given.tags, most, halt)
        if operation == "update":
            context.bytes_out = size_of(given.text or "", given.tags or ())
            return store.update(plugin, given.id, given.text, given.tags, most, halt)
        if operation == "delete":
            return store.delete(plugin, given.id, halt)
        if operation == "get":
            found = store.get(given.id)
            context.bytes_in = 0 if found is None else size_of(found["text"], found["tags"])
            return found
        if operation == "search":
            words = words_of(given.words)
            if not words and not given.tags:
                return {"notes": [], "more": False}
            notes, more = store.search(words, given.tags, given.limit, either=given.any)
        else:
            notes, more = store.newest(given.tags, given.before or _NUMBER_MAX, given.limit)
        context.bytes_in = sum(size_of(note["excerpt"], note["tags"]) for note in notes)
        return {"notes": notes, "more": more}

    async def aclose(self) -> None:
        """Close the files; another call opens them again."""
        with self._lock:
            stores, self._stores = list(self._stores.values()), OrderedDict()
        for store in stores:
            store.close()

    # of whoever notes are about

    def export(self, owner: str, plugin: str | None = None) -> Iterator[dict[str, Any]]:
        """
        Every note that was kept for an owner, or that one plugin wrote, as it is: ``shared`` says whether plugins share
        it.  Blocks.  Raises AdapterError.
        """
        for name, shared in self._files(owner):
            with _Told():
                for note in self._opened(os.path.join(self._folder(owner), name)).everything(plugin):
                    yield {**note, "shared": shared}

    def erase(self, owner: str, plugin: str | None = None) -> int:
        """
        Forget every note that was kept for an owner, or that one plugin wrote; how many.  Blocks.  Raises AdapterError.

        What reads them meanwhile has read them or finds none; what a plugin that still may adds afterwards is kept.
        """
        count = 0
        for name, shared in self._files(owner):
            own = _OWN.fullmatch(name)
            if plugin is not None and not shared and (own is None or own[1] != plugin):
                continue
            with _Told():
                count += self._opened(os.path.join(self._folder(owner), name)).erase(plugin)
        return count

    async def forget(self, plugin: str) -> None:
        """Delete all that a plugin noted, for every owner.  Raises AdapterError where it cannot be."""
        await whole(lambda _: self._forget(plugin))

    def _forget(self, plugin: str) -> None:
        for folder in self._folders():
            for name in (f"p-{plugin}.db", _SHARED):
                path = os.path.join(self._base, folder, name)
                if os.path.lexists(path):
                    with _Told():
                        self._opened(path).erase(plugin)

    # files

    def _folder(self, owner: str) -> str:
        return os.path.join(self._base, hashlib.sha256(owner.encode()).hexdigest()[:32])

    def _folders(self) -> list[str]:
        with _Told():
            return [name for name in sorted(os.listdir(self._base)) if re.fullmatch(r"[0-9a-f]{32}", name)]

    def _files(self, owner: str) -> list[tuple[str, bool]]:
        """The files of an owner, and whether plugins share each."""
        try:
            names = sorted(os.listdir(self._folder(owner)))
        except FileNotFoundError:
            return []
        return [(name, name == _SHARED) for name in names if name == _SHARED or _OWN.fullmatch(name)]

    def _store(self, owner: str, plugin: str | None) -> Store:
        folder = self._folder(owner)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return self._opened(os.path.join(folder, _SHARED if plugin is None else f"p-{plugin}.db"))

    def _opened(self, path: str) -> Store:
        with self._lock:
            found = self._stores.get(path)
            if found is None:
                found = self._stores[path] = Store(path)
                if len(self._stores) > _OPEN:
                    self._stores.popitem(last=False)[1].close()
            self._stores.move_to_end(path)
            return found


def _check(given: Any, scope: MemoryScope) -> None:
    """Raises Denied for a text that is too large, or that the database does not take."""
    text: str | None = getattr(given, "text", None)
    tags: Sequence[str] = getattr(given, "tags", None) or ()
    words: str = getattr(given, "words", "")
    try:
        size = sum(len(one.encode()) for one in (text or "", words, *tags))
    except UnicodeEncodeError:
        raise Denied(DenialCode.UNSUPPORTED, "a text that UTF-8 does not have") from None
    if text is not None and size > scope.note_bytes:
        raise Denied(DenialCode.TOO_LARGE, f"{size} bytes")
    if text is not None and "\0" in text:
        raise Denied(DenialCode.UNSUPPORTED, "a text with a NUL in it")


class _Told:
    """Errors of the database in words that name no path."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (sqlite3.Error, BackendError, OSError)):
            words = "the memory is in use" if busy(error) else "the memory cannot be read or written"
            raise AdapterError(words) from error

"""
The capability ``storage``: keys and values of a plugin and one owner, kept between runs within a quota.

Whose they are comes from the host alone: a guest names keys and nothing else.  Each operation is one transaction, so
that whoever is killed, host or machine's other process, leaves the old value or the new one.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec

from fastness.capability import CallContext, Later, Operation, Scope, Spec
from fastness.database import Database, busy, full
from fastness.errors import AdapterError, BackendError, Denied, GuestProtocolError, QuotaExceeded
from fastness.limits import MIB, in_words
from fastness.runs import DenialCode
from fastness.wire import values

__all__ = ["KEY_OVERHEAD", "SPEC", "Storage", "StorageScope"]

#: Bytes that each key counts for beside itself and its value: about what its row takes.
KEY_OVERHEAD = 128
_KEY_BYTES = 512
_MOST_VALUE = 4 * MIB
_MOST_KEYS = 1000
#: Seconds to wait for another process, where the call's own time is longer.
_PATIENCE_S = 2.0
_RAW, _TAGGED = 0, 1
_APPLICATION = 0x46_4E_53_54  # FNST
_ITEMS = """
CREATE TABLE items (
    plugin TEXT NOT NULL, owner TEXT NOT NULL, key BLOB NOT NULL, form INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (plugin, owner, key)
)"""
# What the items of one plugin and owner count for, kept in the transaction that changes them.
_USED = "CREATE TABLE used (plugin TEXT, owner TEXT, bytes INTEGER NOT NULL, PRIMARY KEY (plugin, owner)) WITHOUT ROWID"
_STEPS = ((_ITEMS, _USED),)

_Key = Annotated[str, msgspec.Meta(min_length=1, max_length=_KEY_BYTES)]


class StorageScope(Scope, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="storage"):
    """
    How much a plugin may keep for an owner: ``quota`` bytes, by default none.

    Keys, values and 128 bytes for each key count.  ``value_bytes`` is the size of one value.
    """

    quota: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 0
    value_bytes: Annotated[int, msgspec.Meta(ge=0, le=_MOST_VALUE)] = 1 * MIB


class Get(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``get`` and ``delete``."""

    key: _Key


class Put(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``put``: ``value`` is plain data."""

    key: _Key
    value: Any


class Listing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``list``: keys that begin with ``prefix`` and come after ``after``."""

    prefix: Annotated[str, msgspec.Meta(max_length=_KEY_BYTES)] = ""
    after: Annotated[str, msgspec.Meta(max_length=_KEY_BYTES)] = ""


def _meet(asked: StorageScope, allowed: StorageScope) -> StorageScope | None:
    quota = min(asked.quota, allowed.quota)
    return StorageScope(quota=quota, value_bytes=min(asked.value_bytes, allowed.value_bytes)) if quota else None


def _exceeds(asked: StorageScope, allowed: StorageScope) -> list[str]:
    found = []
    if asked.quota > allowed.quota:
        found.append(f"keep up to {in_words(asked.quota)} for each owner")
    if asked.quota and asked.value_bytes > allowed.value_bytes:
        found.append(f"values of up to {in_words(asked.value_bytes)}")
    return found


def _risk(scope: StorageScope) -> str:
    if not scope.quota:
        return "It can keep nothing between runs."
    return (
        f"It keeps up to {in_words(scope.quota)} on this machine between runs, "
        "which no other plugin and no other owner sees."
    )


def _learn(calls: Sequence[tuple[str, Any]]) -> StorageScope:
    kept: dict[str, int] = {}
    largest = 0
    for _, given in calls:
        if isinstance(given, Put):
            size = len(_encoded(given.value, _MOST_VALUE, given.key)[1])
            largest = max(largest, size)
            kept[given.key] = max(kept.get(given.key, 0), KEY_OVERHEAD + len(_bytes_of(given.key)) + size)
    # Nothing can be looked for where nothing may be kept.
    return StorageScope(quota=max(1, sum(kept.values())), value_bytes=largest)


SPEC = Spec(
    kind="storage",
    scope=StorageScope,
    operations=(
        Operation(name="get", arguments=Get, target=lambda a: a.key, summary="The value of a key, or None."),
        Operation(name="put", arguments=Put, target=lambda a: a.key, summary="Keep a value of plain data under a key."),
        Operation(
            name="delete", arguments=Get, target=lambda a: a.key, summary="Forget a key; False where there is none."
        ),
        Operation(
            name="list",
            arguments=Listing,
            target=lambda a: a.prefix,
            summary=f"Keys in order, {_MOST_KEYS} at most: a dict with keys and more.",
        ),
    ),
    meet=_meet,
    exceeds=_exceeds,
    risk=_risk,
    learn=_learn,
    enforced=(
        "A plugin sees its own keys of the owner it runs for; both are named by the host and not by the guest.",
        f"Keys, values and {KEY_OVERHEAD} bytes for each key count against the quota of plugin and owner.",
        "The quota holds for all processes and runs together, since each change is one transaction.",
        "Values are plain data, encoded as on the wire; nothing is unpickled.",
        "After a kill of the host there is the old value or the new one.",
    ),
)

_OPERATIONS = frozenset(one.name for one in SPEC.operations)


class Storage:
    """
    The adapter of ``storage``, in the database file ``path``; its folder exists and is private to this user.

    Several adapters and processes may share a file.  A commit survives the death of this process; a loss of power may
    take the last ones.
    """

    spec = SPEC

    def __init__(self, path: str) -> None:
        # No patience of its own: waiting for another process must not hold up the loop.
        self._database = Database(path, _STEPS, application=_APPLICATION, patience_s=0.0)

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Do it.  Raises Denied, QuotaExceeded and AdapterError."""
        return await self._when_free(context, self._work(operation, arguments, context))

    def at_once(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """The same, where no other process is in its way.  Raises Later too."""
        work = self._work(operation, arguments, context)
        try:
            if self._database.renewed():
                raise Later
            return work()
        except sqlite3.Error as error:
            if busy(error):
                raise Later from error
            raise _failed(error) from error
        except (BackendError, OSError) as error:
            raise AdapterError("the storage cannot be used") from error

    def _work(self, operation: str, arguments: Any, context: CallContext) -> Callable[[], Any]:
        """What is to be done, as one transaction.  Raises Denied and AdapterError."""
        scope: StorageScope = context.scope
        if operation not in _OPERATIONS:
            raise Denied(DenialCode.UNSUPPORTED, operation)
        if not scope.quota:
            raise Denied(DenialCode.NOT_GRANTED, "")
        whose = (context.plugin, context.owner)
        if operation == "list":
            return lambda: self._list(whose, arguments)
        key = _bytes_of(arguments.key)
        if operation == "get":
            return lambda: self._value(whose, key, context)
        if operation == "delete":
            return lambda: self._delete(whose, key)
        form, value = _encoded(arguments.value, scope.value_bytes, arguments.key)
        context.bytes_out = len(value)
        return lambda: self._put(whose, key, form, value, scope.quota)

    async def aclose(self) -> None:
        """Close the database; another call opens it again."""
        self._database.close()

    async def forget(self, plugin: str) -> None:
        """Delete all that was kept for a plugin, of every owner.  Raises AdapterError where it cannot be."""

        def work() -> None:
            with self._database.writing() as connection:
                connection.execute("DELETE FROM items WHERE plugin=?", (plugin,))
                connection.execute("DELETE FROM used WHERE plugin=?", (plugin,))

        ends = time.monotonic() + _PATIENCE_S
        await self._when_free(CallContext(plugin=plugin, owner="", run="", scope=None, deadline=ends), work)

    async def _when_free(self, context: CallContext, work: Any) -> Any:
        """
        The result of ``work``, which is one transaction, as soon as no other process is in its way.

        It is not waited in, so that a call is cancelled between two attempts and never within one.
        """
        ends = min(time.monotonic() + _PATIENCE_S, context.deadline)
        pause = 0.001
        while True:
            try:
                self._database.renewed()
                return work()
            except sqlite3.Error as error:
                if not busy(error):
                    raise _failed(error) from error
                if time.monotonic() >= ends:
                    raise AdapterError("the storage is in use; try again") from error
            except (BackendError, OSError) as error:
                raise AdapterError("the storage cannot be used") from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)

    def _value(self, whose: tuple[str, str], key: bytes, context: CallContext) -> Any:
        found = self._database.read("SELECT form, value FROM items WHERE plugin=? AND owner=? AND key=?", (*whose, key))
        if found is None:
            return None
        context.bytes_in = len(found[1])
        return _decoded(*found)

    def _put(self, whose: tuple[str, str], key: bytes, form: int, value: bytes, quota: int) -> None:
        with self._database.writing() as connection:
            before = _size(connection, whose, key)
            after = len(key) + len(value) + KEY_OVERHEAD
            used = _used(connection, whose) - before + after
            if used > quota and after > before:
                raise QuotaExceeded(f"no more than {in_words(quota)} may be kept; delete some keys")
            connection.execute("INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?, ?)", (*whose, key, form, value))
            connection.execute("INSERT OR REPLACE INTO used VALUES (?, ?, ?)", (*whose, used))

    def _delete(self, whose: tuple[str, str], key: bytes) -> bool:
        with self._database.writing() as connection:
            size = _size(connection, whose, key)
            if not size:
                return False
            connection.execute("DELETE FROM items WHERE plugin=? AND owner=? AND key=?", (*whose, key))
            used = _used(connection, whose) - size
            connection.execute("INSERT OR REPLACE INTO used VALUES (?, ?, ?)", (*whose, used))
        return True

    def _list(self, whose: tuple[str, str], arguments: Listing) -> dict[str, Any]:
        prefix, after = _bytes_of(arguments.prefix), _bytes_of(arguments.after)
        # Keys are compared as bytes of UTF-8, whose order is that of code points.
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT key FROM items WHERE plugin=? AND owner=? AND key>? AND key>=? AND key<? ORDER BY key LIMIT ?",
                # No key has the byte 255, so all that begin with the prefix are below this.
                (*whose, after, prefix, prefix + b"\xff", _MOST_KEYS + 1),
            ).fetchall()
        keys = [bytes(key).decode() for (key,) in rows[:_MOST_KEYS]]
        return {"keys": keys, "more": len(rows) > _MOST_KEYS}


def _failed(error: sqlite3.Error) -> AdapterError:
    return AdapterError("there is no room to keep this" if full(error) else "the storage cannot be used")


def _size(connection: sqlite3.Connection, whose: tuple[str, str], key: bytes) -> int:
    """What an item counts for; 0 where there is none."""
    found = connection.execute(
        "SELECT length(key) + length(value) FROM items WHERE plugin=? AND owner=? AND key=?", (*whose, key)
    ).fetchone()
    return 0 if found is None else int(found[0]) + KEY_OVERHEAD


def _used(connection: sqlite3.Connection, whose: tuple[str, str]) -> int:
    found = connection.execute("SELECT bytes FROM used WHERE plugin=? AND owner=?", whose).fetchone()
    return 0 if found is None else int(found[0])


def _bytes_of(key: str) -> bytes:
    try:
        found = key.encode()
    except UnicodeEncodeError:
        raise Denied(DenialCode.UNSUPPORTED, "a key that UTF-8 does not have") from None
    if len(found) > _KEY_BYTES:
        raise Denied(DenialCode.TOO_LARGE, key)
    return found


def _encoded(value: Any, most: int, key: str) -> tuple[int, bytes]:
    if type(value) is bytes:
        form, data = _RAW, value
    else:
        try:
            # Tags take some room more; the size that counts is looked at below.
            form, data = _TAGGED, values.encode(value, 2 * most + 64)
        except values.NotPlain as error:
            if error.type_name.startswith(("too many bytes", "more than")):
                raise Denied(DenialCode.TOO_LARGE, key) from None
            raise AdapterError(f"the value is not plain data at {error.path}: {error.type_name}") from None
    if len(data) > most:
        raise Denied(DenialCode.TOO_LARGE, key)
    return form, data


def _decoded(form: int, data: bytes) -> Any:
    try:
        return bytes(data) if form == _RAW else values.decode(bytes(data), 2 * _MOST_VALUE)
    except GuestProtocolError as error:
        # Nobody but us writes the file; somebody did.
        raise AdapterError("the value that was kept is damaged") from error

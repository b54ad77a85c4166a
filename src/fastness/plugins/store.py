"""
What a host remembers about plugins: their states, and what each owner granted.  Several processes share it.

A change is on disk, and visible to every check that begins afterwards in any process, when the method that makes it
returns (see :mod:`fastness.plugins.changes`).  What cannot be read is not granted.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from fastness._wasi import home
from fastness.capability import Scope, Spec
from fastness.database import Database, cramped, failed
from fastness.errors import BackendError, ConfigurationError, GrantError
from fastness.grant import Grant, check_owner
from fastness.manifest import Manifest, parse
from fastness.plugins import rows
from fastness.plugins.changes import Changes
from fastness.plugins.room import Room
from fastness.plugins.schema import APPLICATION, CURRENT, GRANT, GRANTED_BY, PLUGIN, PUT_GRANT, STEPS
from fastness.plugins.states import CRASHES_MAX, Known, Source, State
from fastness.plugins.watch import NO_REVISION, UNREADABLE, Watch
from fastness.policy import check_tier, diff, runtime_words

__all__ = ["NO_REVISION", "UNREADABLE", "Store", "Watch"]

#: How often what takes power away is tried once its room was given up, while others use what is free.
_TRIES = 4
T = TypeVar("T")


class Store:
    """
    The store in a folder, ``data`` of this user by default.  Any thread may use it.

    ``specs`` are the capabilities that there are: a scope of another kind, or one that does not fit any more, is not in
    a grant.  ``patience_s`` is how long to wait for another process.  Methods raise BackendError where the store cannot
    be read or written (then nothing was changed), and ConfigurationError for what is asked of it in vain.
    """

    def __init__(self, specs: Mapping[str, Spec], folder: str | None = None, *, patience_s: float = 2.0) -> None:
        base = home.folder("data") if folder is None else folder
        self.path = os.path.join(base, "plugins.db")
        self.specs = specs
        self.changes = Changes(os.path.join(base, "plugins.rev"), patience_s=patience_s)
        # Two connections: a check does not wait for a writer of this process that waits for one of another.
        self._write = Database(self.path, STEPS, application=APPLICATION, patience_s=patience_s)
        self._read = Database(self.path, STEPS, application=APPLICATION, patience_s=patience_s)
        self._room = Room(os.path.join(base, "plugins.room"))
        # Where there is none now, nothing is granted; see _giving.
        with contextlib.suppress(OSError):
            self._room.keep()

    def close(self) -> None:
        """Close what is open; the next use opens it again."""
        self._read.close()
        self._write.close()

    # looking

    def plugin(self, plugin: str) -> Known | None:
        """What is known of one plugin, or None."""
        found = self._rows(PLUGIN + " WHERE id = ?", plugin)
        return rows.known_of(found[0]) if found else None

    def plugins(self) -> list[Known]:
        """All plugins that are not removed, by id.  No manifest is read for it."""
        found = self._rows(PLUGIN + " WHERE state <> 'removed' ORDER BY id")
        return [rows.known_of(row) for row in found]

    def manifest(self, plugin: str) -> Manifest:
        """The manifest of an installed plugin.  Raises ManifestError where it is not valid with the specs of today."""
        found = self._rows("SELECT manifest FROM plugins WHERE id = ? AND state <> 'removed'", plugin)
        if not found:
            raise rows.unknown(plugin)
        return parse(msgspec.json.decode(found[0][0]), self.specs)

    def grant_of(self, plugin: str, owner: str) -> Grant | None:
        """
        The grant that stands, or None.

        It may be for files that are not installed any more, and it may have expired.
        """
        found = self._rows(GRANT + " WHERE plugin = ? AND owner = ? AND live = 1", plugin, owner)
        return self._grant(found[0]) if found else None

    def grants(self, plugin: str) -> list[Grant]:
        """All grants that stand, by owner."""
        found = self._rows(GRANT + " WHERE plugin = ? AND live = 1 ORDER BY owner", plugin)
        return [self._grant(row) for row in found]

    def granted_by(self, owner: str) -> list[str]:
        """Ids of the plugins that an owner's grant stands for and that may be called, in order."""
        found = self._rows(GRANTED_BY, owner)
        return [str(plugin) for (plugin,) in found]

    def revision(self, plugin: str, owner: str) -> int:
        """The revision of the grant where it stands and its plugin may be called, else ``NO_REVISION``."""
        found = self._rows(CURRENT, plugin, owner)
        return int(found[0][0]) if found else NO_REVISION

    def standing(self, plugin: str, owner: str) -> tuple[Known, bytes, Grant | None]:
        """
        A plugin, its manifest in JSON and the grant of one owner, all as they were at one moment.

        Raises ConfigurationError where there is no such plugin.
        """
        try:
            with self._read.reading() as connection:
                known = rows.find(connection, plugin)
                if known is None or known.state is State.REMOVED:
                    raise rows.unknown(plugin)
                (text,) = connection.execute("SELECT manifest FROM plugins WHERE id = ?", (plugin,)).fetchone()
                found = connection.execute(
                    GRANT + " WHERE plugin = ? AND owner = ? AND live = 1", (plugin, owner)
                ).fetchone()
        except (sqlite3.Error, OSError) as error:
            raise failed("reading the plugin store", self.path, error) from error
        return known, text.encode(), None if found is None else self._grant(found)

    def watch(self, plugin: str, owner: str, seen: tuple[memoryview, int, int] | None = None) -> Watch:
        """
        The check of one grant's revision, for the whole of a run.

        ``seen`` is the revision, last, as the database had it at a number of ``changes``, with that number and its
        view: until another change nobody needs to ask again.
        """
        return Watch(self, plugin, owner, seen)

    # changing

    def discover(self, manifest: Manifest, digest: str, source: str | Source) -> Known:
        """Note that there is such a package.  Raises ConfigurationError where its id is taken."""
        with self._changing() as connection:
            rows.discover(connection, manifest, digest, rows.source_of(source))
            return rows.get(connection, manifest.id)

    def install(self, manifest: Manifest, digest: str, source: str | Source, *, upgrade: bool = False) -> Known:
        """
        Note a package whose files were copied and whose manifest is valid; it waits for a grant.

        With ``upgrade`` it takes the place of the one of its id, which must be from the same source.  Where it asks for
        no more than that one did, in the same runtime, grants stand, for the new files and with a new revision.  Where
        it asks for more, none does, and it waits again; ``why`` says for what.  A review was of the files before: see
        :func:`fastness.plugins.rows.put_package`.  Raises ConfigurationError where its id is taken.
        """
        origin = rows.source_of(source)
        with self._changing() as connection:
            known = rows.find(connection, manifest.id)
            if known is None or known.state is State.REMOVED:
                rows.discover(connection, manifest, digest, origin)
                known = rows.get(connection, manifest.id)
            if known.state is State.DISCOVERED:
                rows.put_package(connection, manifest, digest, origin)
                rows.move(connection, manifest.id, State.VERIFIED)
                rows.move(connection, manifest.id, State.AWAITING_GRANT)
            elif known.digest != digest or known.source is not origin:
                if not upgrade or known.source is not origin:
                    raise ConfigurationError(
                        "plugin",
                        manifest.id,
                        f"an id that no {known.source.value} plugin has, or upgrade=True for its own",
                    )
                self._upgrade(connection, known, manifest, digest)
            return rows.get(connection, manifest.id)

    def _upgrade(self, connection: sqlite3.Connection, known: Known, manifest: Manifest, digest: str) -> None:
        (text,) = connection.execute("SELECT manifest FROM plugins WHERE id = ?", (known.id,)).fetchone()
        before = parse(msgspec.json.decode(text), self.specs)
        # What an owner granted to data, or to code in one engine, is not for code that runs elsewhere.
        more = diff(manifest, before, self.specs) + runtime_words(manifest, before)
        rows.put_package(connection, manifest, digest, known.source)
        if more:
            if known.state is State.ENABLED:
                rows.move(connection, known.id, State.AWAITING_GRANT)
            why = "the new version asks for more: " + "; ".join(more)
            connection.execute("UPDATE plugins SET why = ? WHERE id = ?", (why[:2000], known.id))
            return
        # Only grants that were for the files of until now: one that an earlier upgrade left behind stays behind.
        owners = connection.execute(
            "SELECT owner FROM grants WHERE plugin = ? AND live = 1 AND package_digest = ?", (known.id, known.digest)
        ).fetchall()
        for (owner,) in owners:
            connection.execute(
                "UPDATE grants SET package_digest = ?, revision = ?, changed_at = ? WHERE plugin = ? AND owner = ?",
                (digest, rows.next_revision(connection), time.time(), known.id, owner),
            )

    def grant(self, grant: Grant) -> Grant:
        """
        Let a grant stand in place of the owner's last; it is returned with its revision.

        A plugin that waited for it is enabled.  Raises GrantError where the grant is for other files than are
        installed: whoever granted looked at something else.
        """
        with self._giving() as connection:
            known = rows.get(connection, grant.plugin)
            if known.state in (State.DISCOVERED, State.VERIFIED, State.REMOVED):
                raise GrantError("grant", known.state.value, f"a plugin that is installed; {known.id!r} is not")
            if grant.package_digest != known.digest:
                raise GrantError(
                    "grant", grant.package_digest or "no digest", f"the package that is installed, {known.digest}"
                )
            made = msgspec.structs.replace(grant, revision=rows.next_revision(connection))
            connection.execute(PUT_GRANT, (*rows.grant_row(made), time.time()))
            if known.state is State.AWAITING_GRANT:
                rows.move(connection, known.id, State.ENABLED)
            return made

    def revoke(self, plugin: str, owner: str | None = None, *, made_at: int | None = None) -> int:
        """
        End the grant of an owner, or with None of all owners; with ``made_at`` only the one of that revision.  Returns
        how many stood.

        When this has returned, no check that begins afterwards, in any process, finds them.  A plugin that nobody
        grants anything waits for a grant again.
        """
        whose = None if owner is None else check_owner(owner)

        def change(connection: sqlite3.Connection) -> int:
            known = rows.there(connection, plugin)
            ended = rows.end_grants(connection, plugin, whose, made_at)
            if ended and known.state is State.ENABLED and not rows.is_granted(connection, plugin):
                rows.move(connection, plugin, State.AWAITING_GRANT)
            return ended

        return self._taking(change)

    def enable(self, plugin: str) -> Known:
        """Let a disabled plugin be called again; where no grant is for its files, it waits for one."""
        with self._giving() as connection:
            rows.move(
                connection, plugin, State.ENABLED if rows.is_granted(connection, plugin) else State.AWAITING_GRANT
            )
            return rows.get(connection, plugin)

    def disable(self, plugin: str) -> Known:
        """Let nobody call a plugin; grants are kept.  It is also the way out of quarantine."""
        return self.move(plugin, State.DISABLED)

    def quarantine(self, plugin: str, why: str) -> Known:
        """Let nobody call a plugin, as it did what no plugin may, or as the operator says."""
        return self.move(plugin, State.QUARANTINED, why)

    def move(self, plugin: str, state: State, why: str = "") -> Known:
        """Bring a plugin into another state.  Raises ConfigurationError where no way leads there from its own."""

        def change(connection: sqlite3.Connection) -> Known:
            rows.move(connection, plugin, state, why)
            return rows.get(connection, plugin)

        return self._taking(change)

    def remove(self, plugin: str) -> Known:
        """End a plugin and every grant of it.  An id that is installed anew inherits nothing."""

        def change(connection: sqlite3.Connection) -> Known:
            if rows.there(connection, plugin).state is State.ENABLED:
                rows.move(connection, plugin, State.DISABLED)
            rows.end_grants(connection, plugin, None)
            rows.move(connection, plugin, State.REMOVED)
            connection.execute("UPDATE plugins SET tier = '', trust = '' WHERE id = ?", (plugin,))
            return rows.get(connection, plugin)

        return self._taking(change)

    def crashed(self, plugin: str, digest: str) -> Known:
        """Count a crash of the package ``digest``; at the third since it was enabled the plugin is quarantined."""

        def change(connection: sqlite3.Connection) -> Known:
            known = rows.get(connection, plugin)
            if known.digest == digest:
                connection.execute("UPDATE plugins SET crashes = crashes + 1 WHERE id = ?", (plugin,))
                if known.crashes + 1 >= CRASHES_MAX and known.state is State.ENABLED:
                    rows.move(connection, plugin, State.QUARANTINED, f"it crashed {known.crashes + 1} times")
            return rows.get(connection, plugin)

        return self._taking(change)

    def violated(self, plugin: str, digest: str, why: str) -> Known:
        """Quarantine a plugin whose package ``digest`` broke the protocol: once is enough."""

        def change(connection: sqlite3.Connection) -> Known:
            known = rows.get(connection, plugin)
            if known.digest == digest and known.state is State.ENABLED:
                rows.move(connection, plugin, State.QUARANTINED, why)
            return rows.get(connection, plugin)

        return self._taking(change)

    def set_tier(self, plugin: str, tier: str, trust: str = "") -> Known:
        """
        Choose the tier of a plugin; an empty text is the default.  It holds from the next invocation.

        Raises PolicyError where it is weaker than the default and ``trust`` is not ``reviewed``.
        """
        if tier:
            check_tier(self.manifest(plugin), tier, trust)
        with self._changing() as connection:
            rows.get(connection, plugin)
            kept = trust if tier else ""
            connection.execute(
                "UPDATE plugins SET tier = ?, trust = ?, changed_at = ? WHERE id = ?", (tier, kept, time.time(), plugin)
            )
            return rows.get(connection, plugin)

    # inside

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            with self._read.reading() as connection:
                return connection.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise failed("reading the plugin store", self.path, error) from error

    @contextlib.contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is on disk, and seen by every check that begins afterwards, when the block has ended."""
        try:
            with self.changes.writing(), self._write.writing(sync=True) as connection:
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise failed("changing the plugin store", self.path, error) from error

    @contextlib.contextmanager
    def _giving(self) -> Iterator[sqlite3.Connection]:
        """The same for what gives power: only where there is room to take it away again."""
        try:
            self._room.keep()
        except OSError as error:
            raise failed("keeping room in the plugin store", self._room.path, error) from error
        with self._changing() as connection:
            yield connection

    def _taking(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """The same for what takes power away: where the disk is full, with the room that was kept for it."""
        left = _TRIES
        while True:
            try:
                with self._changing() as connection:
                    made = change(connection)
                break
            except BackendError as error:
                left -= 1
                if not left or not cramped(error.__cause__) or not (self._room.give_up() or left < _TRIES - 1):
                    raise
        with contextlib.suppress(OSError):
            self._room.keep()
        return made

    def _grant(self, row: tuple[Any, ...]) -> Grant:
        plugin, owner, allowed, provides, lookups, declares, revision, expires, granted_by, digest = row
        return Grant(
            plugin=plugin,
            owner=owner,
            allowed=tuple(self._scopes(allowed)),
            provides=rows.texts(provides),
            lookups=rows.texts(lookups),
            declares=rows.texts(declares),
            revision=revision,
            expires=expires,
            granted_by=granted_by,
            package_digest=digest,
        )

    def _scopes(self, text: str) -> Iterator[Scope]:
        for plain in msgspec.json.decode(text, type=list[dict[str, Any]]):
            spec = self.specs.get(str(plain.get("kind")))
            if spec is not None:
                # What does not fit the scope of today was granted by somebody who knew another one.
                with contextlib.suppress(msgspec.ValidationError, ConfigurationError):
                    yield msgspec.convert(plain, spec.scope, strict=True)

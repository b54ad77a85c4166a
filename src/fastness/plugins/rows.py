"""
The rows of the plugin store: what is read and written within one transaction.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any

import msgspec

from fastness.errors import ConfigurationError
from fastness.grant import Grant
from fastness.manifest import Manifest, to_plain
from fastness.plugins.schema import PLUGIN
from fastness.plugins.states import Known, Source, State, check_move
from fastness.policy import check_tier


def source_of(source: str | Source) -> Source:
    """The source of this name.  Raises ConfigurationError."""
    try:
        return Source(source)
    except ValueError:
        raise ConfigurationError("source", source, ", ".join(Source)) from None


def unknown(plugin: str) -> ConfigurationError:
    """The error of an id that no plugin has."""
    return ConfigurationError("plugin", plugin, "the id of a plugin that is installed; see: fastness plugin list")


def known_of(row: tuple[Any, ...]) -> Known:
    """What a row of :data:`PLUGIN` says."""
    return msgspec.convert(dict(zip(Known.__struct_fields__, row, strict=True)), Known)


def find(connection: sqlite3.Connection, plugin: str) -> Known | None:
    """What is known of a plugin, or None."""
    row = connection.execute(PLUGIN + " WHERE id = ?", (plugin,)).fetchone()
    return None if row is None else known_of(row)


def get(connection: sqlite3.Connection, plugin: str) -> Known:
    """What is known of a plugin.  Raises ConfigurationError where nothing is."""
    known = find(connection, plugin)
    if known is None:
        raise unknown(plugin)
    return known


def there(connection: sqlite3.Connection, plugin: object) -> Known:
    """The same of one that is not removed."""
    known = find(connection, plugin) if isinstance(plugin, str) else None
    if known is None or known.state is State.REMOVED:
        raise unknown(str(plugin))
    return known


def next_revision(connection: sqlite3.Connection) -> int:
    """The next revision of this store: none is given twice, whatever was removed between."""
    connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'revision'")
    (value,) = connection.execute("SELECT value FROM counters WHERE name = 'revision'").fetchone()
    return int(value)


def move(connection: sqlite3.Connection, plugin: str, state: State, why: str = "") -> None:
    """Bring a plugin into another state.  Raises ConfigurationError where no way leads there."""
    known = get(connection, plugin)
    check_move(plugin, known.state, state)
    crashes = 0 if state is State.ENABLED else known.crashes
    connection.execute(
        "UPDATE plugins SET state = ?, why = ?, crashes = ?, changed_at = ? WHERE id = ?",
        (state.value, why[:2000], crashes, time.time(), plugin),
    )


def discover(connection: sqlite3.Connection, manifest: Manifest, digest: str, source: Source) -> None:
    """A row for a new plugin, or for one that was removed.  Raises ConfigurationError where the id is taken."""
    known = find(connection, manifest.id)
    if known is None:
        connection.execute(
            "INSERT INTO plugins (id, version, digest, source, state, manifest, changed_at) VALUES (?,?,?,?,?,?,?)",
            (
                manifest.id,
                manifest.version,
                digest,
                source.value,
                State.DISCOVERED.value,
                _text_of(manifest),
                time.time(),
            ),
        )
    elif known.state is State.REMOVED:
        move(connection, manifest.id, State.DISCOVERED)
        put_package(connection, manifest, digest, source)
    else:
        raise ConfigurationError("plugin", manifest.id, "an id that no other plugin has")


def put_package(connection: sqlite3.Connection, manifest: Manifest, digest: str, source: Source) -> None:
    """
    Let a plugin be another package.

    What somebody reviewed were the files of until now: with other ones it loses ``reviewed``, and a tier that it has
    only because of that, or that does not run its runtime, gives way to the default.
    """
    known = get(connection, manifest.id)
    tier, trust = known.tier, known.trust
    if digest != known.digest:
        tier, trust = _unreviewed(manifest, tier), ""
    connection.execute(
        "UPDATE plugins SET version = ?, digest = ?, source = ?, manifest = ?, crashes = 0, changed_at = ?, tier = ?,"
        " trust = ? WHERE id = ?",
        (manifest.version, digest, source.value, _text_of(manifest), time.time(), tier, trust, manifest.id),
    )


def _unreviewed(manifest: Manifest, tier: str) -> str:
    """The tier that was chosen, where it needs no review; else the default."""
    try:
        return check_tier(manifest, tier).value if tier else ""
    except ConfigurationError:
        return ""


def _text_of(manifest: Manifest) -> str:
    return msgspec.json.encode(to_plain(manifest)).decode()


def is_granted(connection: sqlite3.Connection, plugin: str) -> bool:
    """Whether an owner granted something to the package that is installed."""
    row = connection.execute(
        "SELECT 1 FROM grants g JOIN plugins p ON p.id = g.plugin"
        " WHERE g.plugin = ? AND g.live = 1 AND g.package_digest = p.digest LIMIT 1",
        (plugin,),
    ).fetchone()
    return row is not None


def end_grants(connection: sqlite3.Connection, plugin: str, owner: str | None, made_at: int | None = None) -> int:
    """End the grants of one owner or of all, of one revision or of any; how many stood."""
    owners = connection.execute(
        "SELECT owner FROM grants WHERE plugin = ?1 AND live = 1 AND (?2 IS NULL OR owner = ?2)"
        " AND (?3 IS NULL OR revision = ?3)",
        (plugin, owner, made_at),
    ).fetchall()
    for (one,) in owners:
        connection.execute(
            "UPDATE grants SET live = 0, revision = ?, changed_at = ? WHERE plugin = ? AND owner = ?",
            (next_revision(connection), time.time(), plugin, one),
        )
    return len(owners)


def grant_row(grant: Grant) -> tuple[Any, ...]:
    """A grant as :data:`PUT_GRANT` takes it."""
    allowed = msgspec.json.encode([msgspec.to_builtins(scope) for scope in grant.allowed]).decode()
    lists = [msgspec.json.encode(getattr(grant, name)).decode() for name in ("provides", "lookups", "declares")]
    return (
        grant.plugin,
        grant.owner,
        allowed,
        *lists,
        grant.revision,
        grant.expires,
        grant.granted_by,
        grant.package_digest,
    )


def texts(text: str) -> tuple[str, ...]:
    """A list of texts, from its JSON."""
    return msgspec.json.decode(text, type=tuple[str, ...])

"""
The tables of the plugin store.  Each step is what one version of the schema added; none is ever changed.
"""

from __future__ import annotations

from fastness.database import Steps

#: ``PRAGMA application_id`` of the file: "FsPl".
APPLICATION = 0x4673506C

STEPS: Steps = (
    (
        """
        CREATE TABLE plugins (
            id TEXT PRIMARY KEY NOT NULL,
            version TEXT NOT NULL,
            digest TEXT NOT NULL,
            source TEXT NOT NULL CHECK (source IN ('builtin', 'local', 'marketplace')),
            state TEXT NOT NULL CHECK (state IN (
                'discovered', 'verified', 'awaiting_grant', 'enabled', 'disabled', 'quarantined', 'removed'
            )),
            tier TEXT NOT NULL DEFAULT '',
            trust TEXT NOT NULL DEFAULT '',
            crashes INTEGER NOT NULL DEFAULT 0,
            why TEXT NOT NULL DEFAULT '',
            changed_at REAL NOT NULL,
            manifest TEXT NOT NULL
        ) WITHOUT ROWID
        """,
        # A grant that was ended stays as a row that is not live, and with its revision.
        """
        CREATE TABLE grants (
            plugin TEXT NOT NULL REFERENCES plugins (id),
            owner TEXT NOT NULL,
            allowed TEXT NOT NULL,
            provides TEXT NOT NULL,
            lookups TEXT NOT NULL,
            declares TEXT NOT NULL,
            revision INTEGER NOT NULL UNIQUE CHECK (revision > 0),
            expires REAL,
            granted_by TEXT NOT NULL,
            package_digest TEXT NOT NULL,
            live INTEGER NOT NULL CHECK (live IN (0, 1)),
            changed_at REAL NOT NULL,
            PRIMARY KEY (plugin, owner)
        ) WITHOUT ROWID
        """,
        "CREATE TABLE counters (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) WITHOUT ROWID",
        "INSERT INTO counters (name, value) VALUES ('revision', 0)",
    ),
)

#: In the order of the fields of :class:`fastness.plugins.states.Known`.
PLUGIN = "SELECT id, version, digest, source, state, tier, trust, crashes, why, changed_at FROM plugins"
#: In the order of :data:`PUT_GRANT`.
GRANT = (
    "SELECT plugin, owner, allowed, provides, lookups, declares, revision, expires, granted_by, package_digest"
    " FROM grants"
)
PUT_GRANT = (
    "INSERT OR REPLACE INTO grants (plugin, owner, allowed, provides, lookups, declares, revision, expires, granted_by,"
    " package_digest, live, changed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?)"
)
#: The revision of a grant that stands, of a plugin that may be called, for the files that are installed.
CURRENT = (
    "SELECT g.revision FROM grants g JOIN plugins p ON p.id = g.plugin WHERE g.plugin = ? AND g.owner = ?"
    " AND g.live = 1 AND p.state = 'enabled' AND p.digest = g.package_digest"
)
#: Plugins that may be called, by an owner whose grant for the files that are installed stands.
GRANTED_BY = (
    "SELECT g.plugin FROM grants g JOIN plugins p ON p.id = g.plugin WHERE g.owner = ? AND g.live = 1"
    " AND p.state = 'enabled' AND p.digest = g.package_digest ORDER BY g.plugin"
)

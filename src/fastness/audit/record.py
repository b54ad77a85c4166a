"""
What an audit trail is made of: one frozen record per decision, each bound to the one before by a hash.
"""

from __future__ import annotations

import hashlib

import msgspec

#: ``prev_hash`` of the first record.
GENESIS = "0" * 64


class AuditRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    One decision.

    ``at`` is seconds since 1970; ``phase`` is ``intent`` or ``outcome``; ``decision`` is ``allowed`` or ``refused``;
    ``target`` names what was acted on, never a payload.  ``hash`` is SHA-256 over all other fields, ``prev_hash``
    included, so that removing or changing a record shows in every later one.
    """

    seq: int
    at: float
    run: str = ""
    plugin: str = ""
    owner: str = ""
    capability: str = ""
    op: str = ""
    target: str = ""
    phase: str = "intent"
    decision: str = "allowed"
    code: str = ""
    micros: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    prev_hash: str = GENESIS
    hash: str = ""


def seal(record: AuditRecord) -> AuditRecord:
    """The record with its ``hash``."""
    bare = msgspec.structs.replace(record, hash="")
    digest = hashlib.sha256(msgspec.json.encode(bare, order="deterministic")).hexdigest()
    return msgspec.structs.replace(record, hash=digest)


def intact(record: AuditRecord, previous: str) -> bool:
    """Whether the record follows ``previous`` and was not changed since it was sealed."""
    return record.prev_hash == previous and seal(record).hash == record.hash

"""
What an audit trail is made of: one frozen record per decision, each bound to the one before by a keyed hash.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Protocol

import msgspec

from fastness.errors import HostBug

__all__ = ["FIELDS", "GENESIS", "KILLED", "SHORT", "About", "AuditRecord", "Sealer", "clean", "number", "texts_of"]

#: ``prev_hash`` of the first record.
GENESIS = "0" * 64
#: ``code`` of the outcome that the next start writes for an intent whose process died.
KILLED = "killed between intent and outcome"
#: Characters that a text of a record may have; longer ones are cut.
SHORT = 500
_NUMBER_MAX = (1 << 53) - 1


class AuditRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    One decision.

    ``seq`` counts from 1 without gaps.  ``at`` is seconds since 1970.

    ``phase``: ``intent`` is written before an effect (or instead of it, where ``decision`` is ``refused``), ``outcome``
    after it, with the intent's number in ``intent``; ``event`` stands for itself: a grant, an install;  ``checkpoint``
    stands for all records up to its own number, which were pruned.
    ``decision``: ``allowed`` or ``refused``; of an outcome too, where it was refused before any effect.
    ``code``: a ``DenialCode``, ``failed``, ``invalid``, or :data:`KILLED`; empty where all went well.  Of an outcome
    also a ``DenialCode`` after ``answer_``, where the effect happened or may have and its answer was refused, and
    ``late``, where it was done when nobody waited any more.  Of events about plugins also ``disabled``,
    ``quarantined``, ``not_permitted``, ``changed``, ``crashed``, ``protocol``, ``missed`` and ``killed``.

    ``target`` names what was acted on, never a payload, a credential or a URL's query.  ``micros`` is how long the
    effect took, ``bytes_in`` what went to the guest, ``bytes_out`` what came from it.  ``cost`` is what an effect cost,
    in billionths of the operator's currency.  ``dropped`` is how many fields were left out of what the guest sent,
    because only the host may say them.

    ``writer`` is the process that wrote it, by a random name.

    ``hash`` is HMAC-SHA256 over all other fields, ``prev_hash`` included, which is the ``hash`` of the record before.
    A checkpoint's ``prev_hash`` is the hash of the last record that it stands for.
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
    cost: int = 0
    dropped: int = 0
    intent: int = 0
    writer: str = ""
    prev_hash: str = GENESIS
    hash: str = ""


class About(Protocol):
    """What a record is about.  It does not change."""

    @property
    def run(self) -> str:
        """The run's id."""
        ...

    @property
    def plugin(self) -> str:
        """The plugin's id."""
        ...

    @property
    def owner(self) -> str:
        """On whose behalf."""
        ...

    @property
    def capability(self) -> str:
        """The kind of capability."""
        ...

    @property
    def operation(self) -> str:
        """What is done."""
        ...

    @property
    def target(self) -> str:
        """What it is done to: no payload, credential or URL query."""
        ...

    @property
    def leaves(self) -> bool:
        """Whether it leaves this machine or spends money: then the intent is synced."""
        ...


FIELDS: tuple[str, ...] = AuditRecord.__struct_fields__
_COST, _DROPPED = FIELDS.index("cost"), FIELDS.index("dropped")
_encode = msgspec.json.Encoder().encode


class Sealer:
    """Seals rows, which are the values of a record in the order of its fields, with one key."""

    def __init__(self, key: bytes) -> None:
        # HMAC (RFC 2104), whose two hashes are begun once: the standard library's sets itself up anew for each row,
        # which takes longer than the hashing.
        block = key.ljust(64, b"\0")
        if len(block) > 64:
            raise HostBug("a key of more than one block")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def seal(self, row: tuple[Any, ...]) -> str:
        """The ``hash`` of a row without its last value, which is the hash."""
        # A list in JSON: no two rows have the same text, since all values are texts and numbers of fixed places.
        # Where nothing was dropped, as nothing was before there was this field, the list has one value less, and where
        # that cost nothing besides, two.
        inner = self._inner.copy()
        if len(row) > _DROPPED and row[_DROPPED] == 0:
            row = row[: _COST if row[_COST] == 0 else _DROPPED] + row[_DROPPED + 1 :]
        inner.update(_encode(row))
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.hexdigest()

    def fits(self, row: tuple[Any, ...]) -> bool:
        """Whether a whole row is as it was sealed."""
        try:
            seal = self.seal(row[:-1])
        except UnicodeEncodeError:
            # A text that no record can have.
            return False
        return hmac.compare_digest(seal.encode(), str(row[-1]).encode("utf-8", "replace"))


def clean(text: str) -> str:
    """A text as a record keeps it: what UTF-8 cannot carry is written out, and it is at most 500 characters."""
    if len(text) > SHORT:
        text = text[: SHORT - 3] + "..."
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def number(value: int) -> int:
    """A count as a record keeps it: not negative, and exact in every reader of JSON."""
    return value if type(value) is int and 0 <= value <= _NUMBER_MAX else min(max(int(value), 0), _NUMBER_MAX)


def texts_of(about: About) -> tuple[str, ...]:
    """What a record is about, as the record keeps it."""
    return cleaned((about.run, about.plugin, about.owner, about.capability, about.operation, about.target))


def cleaned(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Each of the texts as :func:`clean` has it."""
    together = "".join(texts)
    if len(together) <= SHORT and together.isascii():
        return texts
    return tuple(map(clean, texts))

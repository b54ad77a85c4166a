"""
What an owner allows a plugin, and what the operator permits at most.  Frozen; what is not said is not allowed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import msgspec

from fastness import unseen
from fastness.capability import Scope
from fastness.errors import ConfigurationError, GrantError
from fastness.limits import Limits
from fastness.tier import Tier

__all__ = ["Ceiling", "Grant", "kind_of", "open_ceiling"]

_DIGEST = re.compile(r"[0-9a-f]{64}")
#: Characters of an owner's name; it is the caller's own word for on whose behalf a plugin runs.
OWNER_MAX = 200


def kind_of(scope: Scope) -> str:
    """The kind that a scope is of: the tag of its type."""
    return str(type(scope).__struct_config__.tag)


def _each_once(scopes: tuple[Scope, ...], field: str) -> None:
    kinds = [kind_of(scope) for scope in scopes]
    twice = sorted({kind for kind in kinds if kinds.count(kind) > 1})
    if twice:
        raise GrantError(field, ", ".join(twice), "each kind once")


def check_owner(owner: object) -> str:
    """
    The name of an owner: a text of at most 200 printable characters, in which all is seen as what it is.

    Two owners that look the same would be two: so there is nothing invisible in a name, no space around it, no Latin
    letter beside one of a script that looks like it, and but one way to write each character (NFKC, UAX 15).
    Raises ConfigurationError.
    """
    if not isinstance(owner, str) or not owner or len(owner) > OWNER_MAX or unseen.first(owner):
        raise ConfigurationError("owner", _shown(owner), f"a text of 1 to {OWNER_MAX} printable characters")
    if owner != owner.strip():
        raise ConfigurationError("owner", owner, "a name without spaces around it")
    if not owner.isascii():
        import unicodedata

        if owner != unicodedata.normalize("NFKC", owner):
            raise ConfigurationError("owner", ascii(owner), "a name in Unicode's composed form (NFKC)")
        scripts = unseen.alike(owner)
        if scripts:
            allowed = f"no Latin letters beside {', '.join(scripts).title()} ones, which look like them"
            raise ConfigurationError("owner", ascii(owner), allowed)
    return owner


def _shown(owner: object) -> object:
    return ascii(owner) if isinstance(owner, str) and not owner.isascii() else owner


class Grant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    What one owner allows one plugin.

    ``allowed`` holds each kind at most once; ``provides``, ``lookups`` and ``declares`` are patterns of names.  Each is
    empty by default, and an empty one allows nothing.  ``package_digest`` is that of the files that were looked at:
    other files are another plugin.  ``revision`` rises with each change and is never given twice.  ``expires`` is
    seconds since 1970, or None for a grant that stands until it is revoked.  ``granted_by`` says who decided.
    """

    plugin: str
    owner: str
    allowed: tuple[Scope, ...] = ()
    provides: tuple[str, ...] = ()
    lookups: tuple[str, ...] = ()
    declares: tuple[str, ...] = ()
    revision: int = 0
    expires: float | None = None
    granted_by: str = ""
    package_digest: str = ""

    def __post_init__(self) -> None:
        _each_once(self.allowed, "allowed")
        check_owner(self.owner)
        if self.expires is not None and not math.isfinite(self.expires):
            raise GrantError("expires", self.expires, "seconds since 1970, or None")
        if self.package_digest and _DIGEST.fullmatch(self.package_digest) is None:
            raise GrantError("package_digest", self.package_digest, "the SHA-256 of a package in hex")

    def scope(self, kind: str) -> Scope | None:
        """How far this kind is allowed, or None."""
        return next((scope for scope in self.allowed if kind_of(scope) == kind), None)

    def expired(self, now: float) -> bool:
        """Whether it has ended by ``now``, in seconds since 1970."""
        return self.expires is not None and now >= self.expires


class Ceiling(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    What the operator permits at most, whatever an owner grants.  By default nothing.

    ``tiers`` are names of tiers.  ``scopes`` bound a kind each; ``kinds`` names kinds that owners may decide about
    alone.  A kind that is in neither is not permitted.  ``limits`` are the most that a run gets.
    """

    tiers: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()
    kinds: tuple[str, ...] = ()
    limits: Limits = Limits()
    provides: tuple[str, ...] = ()
    lookups: tuple[str, ...] = ()
    declares: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _each_once(self.scopes, "scopes")
        for tier in self.tiers:
            Tier.parse(tier)
        both = sorted({kind_of(scope) for scope in self.scopes} & set(self.kinds))
        if both:
            raise GrantError("kinds", ", ".join(both), "kinds that have no scope in the same ceiling")

    def scope(self, kind: str) -> Scope | None:
        """The bound of this kind, or None where it has none; see :meth:`permits`."""
        return next((scope for scope in self.scopes if kind_of(scope) == kind), None)

    def permits(self, kind: str) -> bool:
        """Whether this kind is permitted at all."""
        return kind in self.kinds or self.scope(kind) is not None


def open_ceiling(kinds: Iterable[str], *, limits: Limits | None = None) -> Ceiling:
    """A ceiling that leaves these kinds, and all lifecycle names, to the owners, in every tier that isolates."""
    return Ceiling(
        tiers=tuple(tier.value for tier in Tier if tier.strength > 0),
        kinds=tuple(kinds),
        limits=limits or Limits(),
        provides=("*",),
        lookups=("*",),
        declares=("*",),
    )

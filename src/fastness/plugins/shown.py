"""
What a host tells of a plugin to whoever decides about it, and of what came of a decision.  Frozen data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from fastness.capability import Scope, Spec
from fastness.grant import Ceiling, Grant
from fastness.limits import Limits
from fastness.manifest import Manifest
from fastness.plugins.states import Known
from fastness.policy import diff, least

__all__ = ["InFlight", "Revocation", "Shown", "Want", "shown"]


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """
    One capability that a plugin asks for: its ``kind`` and ``scope``, the plugin's own ``reason`` as it stands in the
    manifest (untrusted text: make what is invisible in it visible before it is shown), and the ``risk`` in our words.

    ``permitted`` says whether the operator permits the kind at all, and ``offered`` whether this host has all that does
    the work of it: functions of a program are there only in a host that was given them.
    """

    kind: str
    scope: Scope
    reason: str
    risk: str
    permitted: bool = True
    offered: bool = True


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """
    A plugin as its owner sees it before deciding.

    ``tier`` is the one that it runs in, ``limits`` are what its runs get of those that it asks for.  ``wants`` are its
    capabilities; ``asks`` is all that it asks for in words, names that it provides, looks up and declares included.
    ``grants`` are those that stand.  ``new`` is what it asks beyond what each owner with a grant has allowed, by owner:
    where that is not empty it waits for a new one.
    """

    known: Known
    manifest: Manifest
    tier: str
    limits: Limits = Limits()
    wants: tuple[Want, ...] = ()
    asks: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    new: dict[str, tuple[str, ...]] = {}

    @property
    def id(self) -> str:
        """The plugin's id."""
        return self.known.id

    @property
    def reasons(self) -> dict[str, str]:
        """The plugin's own reasons, by kind: untrusted text."""
        return {want.kind: want.reason for want in self.wants}

    @property
    def risks(self) -> dict[str, str]:
        """What each capability lets it do at worst, by kind."""
        return {want.kind: want.risk for want in self.wants}


class InFlight(msgspec.Struct, frozen=True, kw_only=True):
    """A call that had begun when its grant was revoked, and that nobody has seen the end of."""

    run: str
    owner: str
    capability: str
    operation: str
    target: str
    at: float


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """
    What came of revoking.

    ``ended`` is how many grants stood.  ``in_flight`` are calls that had begun before and have not come to rest: they
    may still happen, or have happened.  No call that begins after the revocation is let through.
    """

    ended: int
    in_flight: tuple[InFlight, ...] = ()


def shown(
    known: Known,
    manifest: Manifest,
    grants: list[Grant],
    tier: str,
    ceiling: Ceiling,
    specs: Mapping[str, Spec],
    lacking: Collection[str] = (),
) -> Shown:
    """A plugin as it is shown by a host that has not all that does the work of the kinds ``lacking``."""
    wants = tuple(
        Want(
            kind=one.kind,
            scope=one.scope,
            reason=one.reason,
            risk=specs[one.kind].risk(one.scope),
            permitted=ceiling.permits(one.kind),
            offered=one.kind not in lacking,
        )
        for one in manifest.capabilities
    )
    # What an owner left out on purpose is not new; what they never saw is.
    stale = [grant for grant in grants if grant.package_digest != known.digest]
    return Shown(
        known=known,
        manifest=manifest,
        tier=tier,
        limits=least(manifest.limits, ceiling.limits),
        wants=wants,
        asks=tuple(diff(manifest, None, specs)),
        grants=tuple(grants),
        new={grant.owner: tuple(diff(manifest, grant, specs)) for grant in stale},
    )

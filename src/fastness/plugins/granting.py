"""
From what an owner says to a grant: which scopes, which names, and nothing that was not asked for or is not permitted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

from fastness import unseen
from fastness.capability import Scope, Spec
from fastness.errors import ConfigurationError, GrantError, meant
from fastness.grant import Ceiling, Grant, check_owner
from fastness.manifest import Manifest
from fastness.policy import check_grant
from fastness.wildcard import covers

__all__ = ["make_grant"]

_NAMES = ("provides", "lookups", "declares")


def make_grant(
    manifest: Manifest,
    ceiling: Ceiling,
    specs: Mapping[str, Spec],
    *,
    digest: str,
    owner: object,
    allowed: Iterable[Scope | str] | None,
    names: Mapping[str, Iterable[str] | None],
    everything: bool,
    expires: object,
    granted_by: str,
) -> Grant:
    """
    The grant that is meant.

    ``allowed`` are scopes, or kinds, which stand for the scope that is asked for as far as the operator permits it.
    With ``everything`` it is all that is asked for as far as it is permitted, and nothing else may be named.
    Raises GrantError with all that was not asked for or is not permitted.
    """
    lists: dict[str, tuple[str, ...]]
    if everything:
        if allowed is not None or any(given is not None for given in names.values()):
            raise GrantError("all", True, "nothing beside it: it is everything that the plugin asks for")
        scopes = [_permitted(manifest, ceiling, specs, one.kind) for one in manifest.capabilities]
        found = tuple(scope for scope in scopes if scope is not None)
        lists = {name: _within(getattr(manifest, name), getattr(ceiling, name)) for name in _NAMES}
    else:
        if isinstance(allowed, (str, Scope)):
            raise GrantError("allowed", type(allowed).__name__, "a list of scopes or kinds")
        found = tuple(_scope(manifest, ceiling, specs, one) for one in allowed or ())
        lists = {name: _texts(name, names.get(name)) for name in _NAMES}
    grant = Grant(
        plugin=manifest.id,
        owner=check_owner(owner),
        allowed=found,
        expires=_expires(expires),
        granted_by=_by(granted_by),
        package_digest=digest,
        provides=lists["provides"],
        lookups=lists["lookups"],
        declares=lists["declares"],
    )
    check_grant(manifest, grant, ceiling, specs)
    return grant


def _scope(manifest: Manifest, ceiling: Ceiling, specs: Mapping[str, Spec], one: object) -> Scope:
    if isinstance(one, Scope):
        return one
    asked = [request.kind for request in manifest.capabilities]
    if not isinstance(one, str) or one not in asked:
        words = ", ".join(asked) or "nothing: the plugin asks for no capability"
        raise GrantError("allowed", one, words + meant(one, asked))
    found = _permitted(manifest, ceiling, specs, one)
    if found is None:
        raise GrantError("allowed", one, "a kind that the operator permits to the plugin")
    return found


def _permitted(manifest: Manifest, ceiling: Ceiling, specs: Mapping[str, Spec], kind: str) -> Scope | None:
    """What is asked of a kind, as far as the operator permits it; None where that is nothing."""
    asked, bound = manifest.scope(kind), ceiling.scope(kind)
    if asked is None or kind not in specs or not ceiling.permits(kind):
        return None
    return asked if bound is None else specs[kind].meet(asked, bound)


def _within(patterns: Iterable[str], bounds: Iterable[str]) -> tuple[str, ...]:
    return tuple(pattern for pattern in patterns if any(covers(wide, pattern) for wide in bounds))


def _texts(name: str, given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise GrantError(name, given, "a list of patterns")
    found = tuple(given)
    for one in found:
        if not isinstance(one, str):
            raise GrantError(name, type(one).__name__, "patterns as text")
    return found


def _expires(expires: object) -> float | None:
    if expires is None:
        return None
    allowed = "seconds since 1970 in the future, or None"
    if isinstance(expires, bool) or not isinstance(expires, (int, float)) or not math.isfinite(expires):
        raise GrantError("expires", expires, allowed)
    if expires <= time.time():
        raise GrantError("expires", float(expires), allowed)
    return float(expires)


def _by(granted_by: object) -> str:
    if not isinstance(granted_by, str) or len(granted_by) > 200 or unseen.first(granted_by):
        raise ConfigurationError("granted_by", granted_by, "a text of at most 200 printable characters")
    return granted_by

"""
What a plugin may do: what its manifest asks, its owner granted and the operator permits, all three.

:func:`build_policy` is the only way to a :class:`Policy`, and nothing is ever added to one.  It is called anew for
every invocation; see :mod:`fastness.plugins.store` for how a running one learns that its grant has changed.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import os
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn, Protocol

import msgspec

from fastness.capability import Scope, Spec
from fastness.errors import GrantError, HostBug, PolicyError
from fastness.grant import Ceiling, Grant, kind_of
from fastness.limits import RANGES, Limits
from fastness.manifest import Manifest
from fastness.tier import Tier
from fastness.wildcard import covers, matches_any

__all__ = ["Names", "Policy", "build_policy", "check_grant", "check_tier", "default_tier", "diff", "genuine", "least"]
__all__ += ["runtime_words"]

#: Patterns of names from each of those who have a say: a name is allowed where every list has a pattern for it.
Names = tuple[tuple[str, ...], ...]

_FIELDS = (
    "plugin", "owner", "tier", "scopes", "limits", "provides", "lookups", "declares", "revision", "expires",
    "package_digest", "digest",
)  # fmt: skip


class _NoConstructor(type):
    """Calling the class is an error: an object that carries authority is not made by whoever wants it."""

    def __call__(cls, *_arguments: object, **_options: object) -> NoReturn:
        raise TypeError(f"{cls.__name__} has no public constructor: use build_policy(manifest, grant, ceiling, specs)")


class Policy(metaclass=_NoConstructor):
    """
    What one invocation of a plugin may do.  Immutable, without a constructor, not copied and not pickled.

    ``scopes`` maps each kind that is allowed to how far it reaches; a kind that is not there is absent from the guest.
    ``provides``, ``lookups`` and ``declares`` hold the patterns of all three sides; see :meth:`allows`.
    ``revision`` is that of the grant, ``expires`` its end in seconds since 1970 or None.  ``package_digest`` names the
    files that it is about.  ``digest`` is the SHA-256 over all of these.

    :func:`genuine` tells whether an object is one, and is as it was made.
    """

    __slots__ = (*_FIELDS, "_seal")

    plugin: str
    owner: str
    tier: Tier
    scopes: Mapping[str, Scope]
    limits: Limits
    provides: Names
    lookups: Names
    declares: Names
    revision: int
    expires: float | None
    package_digest: str
    digest: str
    _seal: bytes

    def __init_subclass__(cls, **_options: object) -> None:
        raise TypeError("Policy cannot be subclassed: a subclass could answer anything")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a policy does not change: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a policy does not change: {name}")

    def __copy__(self) -> Policy:
        return self

    def __deepcopy__(self, _memo: object) -> Policy:
        return self

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError("a policy is not pickled: it holds in the process that made it")

    def __repr__(self) -> str:
        return (
            f"<Policy of {self.plugin!r} for {self.owner!r}: {', '.join(self.scopes) or 'nothing'}; {self.tier.value}>"
        )

    def allows(self, what: str, name: str) -> bool:
        """Whether ``name`` is allowed in ``what``, which is ``provides``, ``lookups`` or ``declares``."""
        if what not in ("provides", "lookups", "declares"):
            raise HostBug(f"no list of names is called {what!r}")
        lists: Names = getattr(self, what)
        return bool(lists) and all(matches_any(patterns, name) for patterns in lists)

    def to_plain(self) -> dict[str, Any]:
        """The policy as plain data, to be shown; nothing makes a policy of it."""
        return {**_content(self), "digest": self.digest}


def _content(policy: Policy) -> dict[str, Any]:
    plain = {name: getattr(policy, name) for name in _FIELDS if name != "digest"}
    plain["scopes"] = {kind: policy.scopes[kind] for kind in sorted(policy.scopes)}
    made: dict[str, Any] = msgspec.to_builtins(plain)
    return made


def _digest(policy: Policy) -> str:
    return hashlib.sha256(msgspec.json.encode(_content(policy), order="deterministic")).hexdigest()


class _Build(Protocol):
    def __call__(
        self,
        manifest: Manifest,
        grant: Grant,
        ceiling: Ceiling,
        specs: Mapping[str, Spec],
        *,
        tier: str | Tier | None = None,
        trust: str = "",
        now: float | None = None,
    ) -> Policy: ...


def _keeper() -> tuple[_Build, Callable[[object], bool]]:
    """Make the two functions that know this process's seal.  It is nowhere else, so nothing else makes a policy."""
    key = os.urandom(32)

    def seal_of(digest: str) -> bytes:
        # A keyed BLAKE2 (RFC 7693) is a MAC by itself, and takes a fraction of setting up an HMAC.
        return hashlib.blake2b(digest.encode(), key=key, digest_size=32).digest()

    def build_policy(
        manifest: Manifest,
        grant: Grant,
        ceiling: Ceiling,
        specs: Mapping[str, Spec],
        *,
        tier: str | Tier | None = None,
        trust: str = "",
        now: float | None = None,
    ) -> Policy:
        """
        The policy of one invocation: the intersection of what is asked, granted and permitted.

        ``tier`` is the one that the operator chose for this plugin, else :func:`default_tier`.  ``now`` is seconds
        since 1970.  Raises PolicyError where the grant is another plugin's or has ended, or the ceiling does not permit
        the tier.  A capability that any of the three does not have is not in the policy: that is no error.
        """
        policy = object.__new__(Policy)
        for name, value in _intersection(manifest, grant, ceiling, specs, tier, trust, now).items():
            object.__setattr__(policy, name, value)
        digest = _digest(policy)
        object.__setattr__(policy, "digest", digest)
        object.__setattr__(policy, "_seal", seal_of(digest))
        return policy

    def genuine(policy: object) -> bool:
        """
        Whether ``policy`` was made by :func:`build_policy` in this process and is as it was made.

        Whoever acts on a policy asks this once, before the run.
        """
        if type(policy) is not Policy:
            return False
        try:
            digest = _digest(policy)
            return digest == policy.digest and hmac.compare_digest(policy._seal, seal_of(digest))
        except (AttributeError, TypeError, ValueError, msgspec.MsgspecError):
            # A part is missing, or is something that no policy holds.
            return False

    return build_policy, genuine


build_policy, genuine = _keeper()


def default_tier(manifest: Manifest) -> Tier:
    """``wasm`` for JavaScript and WASI plugins, else ``isolated``.  One decision, not a tree."""
    return Tier.WASM if manifest.runtime in ("javascript", "wasi") else Tier.ISOLATED


def check_tier(manifest: Manifest, tier: str | Tier, trust: str = "") -> Tier:
    """
    The tier, where a plugin may be moved to it: up and sideways always, down only with ``trust="reviewed"``.

    Raises ConfigurationError for a word that is no tier, PolicyError for a tier that is weaker than the default.
    """
    chosen, default = Tier.parse(tier), default_tier(manifest)
    if trust not in ("", "reviewed"):
        raise PolicyError("trust", trust, "reviewed, or nothing")
    if chosen.strength < default.strength and trust != "reviewed":
        raise PolicyError(
            "tier",
            chosen.value,
            f'{default.value} or a tier as strong; trust="reviewed" for code that somebody has read',
        )
    if manifest.runtime in ("javascript", "wasi") and chosen is not Tier.WASM:
        raise PolicyError("tier", chosen.value, f"wasm: it is the only tier that runs {manifest.runtime}")
    return chosen


def _intersection(
    manifest: Manifest,
    grant: Grant,
    ceiling: Ceiling,
    specs: Mapping[str, Spec],
    tier: str | Tier | None,
    trust: str,
    now: float | None,
) -> dict[str, Any]:
    """The fields of a policy.  Raises as :func:`build_policy`."""
    if type(manifest) is not Manifest or type(grant) is not Grant or type(ceiling) is not Ceiling:
        raise PolicyError("policy", "", "a Manifest, a Grant and a Ceiling")
    if grant.plugin != manifest.id:
        raise PolicyError("grant", grant.plugin, f"a grant to the plugin {manifest.id!r}")
    if grant.expired(time.time() if now is None else now):
        raise PolicyError("grant", "it has ended", "a grant that has not; ask the owner to grant anew")
    chosen = check_tier(manifest, default_tier(manifest) if tier is None else tier, trust)
    if chosen.value not in ceiling.tiers:
        allowed = ", ".join(ceiling.tiers) or "no tier"
        raise PolicyError("tier", chosen.value, f"{allowed}: that is what the operator permits")
    scopes: dict[str, Scope] = {}
    for request in manifest.capabilities:
        scope = _meet(request.kind, request.scope, grant, ceiling, specs)
        if scope is not None:
            scopes[request.kind] = scope
    return {
        "plugin": manifest.id,
        "owner": grant.owner,
        "tier": chosen,
        "scopes": MappingProxyType(scopes),
        "limits": least(manifest.limits, ceiling.limits),
        "provides": (manifest.provides, grant.provides, ceiling.provides),
        "lookups": (manifest.lookups, grant.lookups, ceiling.lookups),
        "declares": (manifest.declares, grant.declares, ceiling.declares),
        "revision": grant.revision,
        "expires": grant.expires,
        "package_digest": grant.package_digest,
    }


def _meet(kind: str, asked: Scope, grant: Grant, ceiling: Ceiling, specs: Mapping[str, Spec]) -> Scope | None:
    """What all three have of one kind, or None."""
    spec = specs.get(kind)
    granted = grant.scope(kind)
    if spec is None or granted is None or not ceiling.permits(kind):
        return None
    bounds = [granted] if ceiling.scope(kind) is None else [granted, ceiling.scope(kind)]
    met: Scope | None = asked
    for bound in bounds:
        if type(bound) is not spec.scope or type(met) is not spec.scope:
            raise PolicyError("scope", kind, f"a scope of the kind {kind!r}")
        met = spec.meet(met, bound)
        if met is None:
            return None
    # A capability may come from another distribution.  That its meet is one is looked at here, not believed.
    for bound in (asked, *bounds):
        if type(met) is not spec.scope or spec.exceeds(met, bound):
            raise HostBug(f"the capability {kind!r} made more of two scopes than both allow")
    return met


# Both are frozen, and there are few of them; checking every field anew would take a third of building a policy.
@functools.lru_cache(256)
def least(first: Limits, second: Limits) -> Limits:
    """Of each limit the smaller one: what a run gets of what its plugin asks and the operator permits."""
    return Limits(**{name: min(getattr(first, name), getattr(second, name)) for name in RANGES})


def check_grant(manifest: Manifest, grant: Grant, ceiling: Ceiling, specs: Mapping[str, Spec]) -> None:
    """
    Refuse a grant of what was not asked for, or is not permitted.  Raises GrantError that names all of it.

    Such a grant would do no harm, but whoever made it is mistaken about what the plugin is.
    """
    problems: list[str] = []
    if grant.plugin != manifest.id:
        problems.append(f"it is for the plugin {grant.plugin!r}, not {manifest.id!r}")
    for scope in grant.allowed:
        kind = kind_of(scope)
        spec, asked = specs.get(kind), manifest.scope(kind)
        if spec is None:
            problems.append(f"{kind}: there is no such capability")
        elif asked is None:
            problems.append(f"{kind}: the plugin does not ask for it")
        elif not ceiling.permits(kind):
            problems.append(f"{kind}: the operator does not permit it")
        else:
            problems += [f"{kind}: not asked for: {words}" for words in spec.exceeds(scope, asked)]
            bound = ceiling.scope(kind)
            if bound is not None:
                problems += [f"{kind}: not permitted: {words}" for words in spec.exceeds(scope, bound)]
    for name in ("provides", "lookups", "declares"):
        for pattern in getattr(grant, name):
            for side, patterns in (("asked for", getattr(manifest, name)), ("permitted", getattr(ceiling, name))):
                if not _covered(pattern, patterns):
                    problems.append(f"{name}: not {side}: {pattern}")
    if problems:
        raise GrantError("grant", "; ".join(problems), "what the plugin asks for and the operator permits")


def _covered(pattern: str, patterns: Iterable[str]) -> bool:
    return any(covers(wide, pattern) for wide in patterns)


def diff(manifest: Manifest, had: Grant | Manifest | None, specs: Mapping[str, Spec]) -> list[str]:
    """
    What a manifest asks beyond what was granted, or beyond what another manifest asked, in words; [] where nothing.

    Without either it is all that is asked.
    """
    words: list[str] = []
    for request in manifest.capabilities:
        spec = specs.get(request.kind)
        before = None if had is None else had.scope(request.kind)
        if spec is None:
            words.append(f"{request.kind}: there is no such capability here")
        elif before is None:
            words.append(f"{request.kind}: {spec.risk(request.scope)}")
        elif type(before) is not spec.scope:
            words.append(f"{request.kind}: it was of another kind before")
        else:
            words += [f"{request.kind}: {more}" for more in spec.exceeds(request.scope, before)]
    for name, verb in (("provides", "provide"), ("lookups", "look up"), ("declares", "declare")):
        patterns: tuple[str, ...] = () if had is None else getattr(had, name)
        words += [f"{verb} {pattern}" for pattern in getattr(manifest, name) if not _covered(pattern, patterns)]
    return words


def runtime_words(manifest: Manifest, had: Manifest) -> list[str]:
    """In words, that a manifest is of another runtime than one before it; [] where it is not."""
    if manifest.runtime == had.runtime:
        return []
    was, now = (one if one == "data" else f"{one} code" for one in (had.runtime, manifest.runtime))
    return [f"be {now}, where it was {was}"]

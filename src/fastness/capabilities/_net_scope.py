"""
The scope of the capability ``net``: what of the network may be reached, and its words for manifests, grants and owners.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from fastness.capabilities._hosts import BadHost, covers, meet_patterns, pattern_of
from fastness.capability import Scope

__all__ = ["NetScope", "exceeds", "meet", "risk"]

T = TypeVar("T")

_MOST = 256
_SECRET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class NetScope(Scope, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="net"):
    """
    What of the network may be reached.

    ``hosts``: patterns.  ``a.example.com`` is itself; ``*.example.com`` is every name that ends in ``.example.com`` and
    not ``example.com``; ``*`` is every host.  Addresses that are not public stay out of reach under all of them.
    ``schemes``: ``https``, ``http``.  ``ports``: numbers.
    ``secrets``: names of the host's credentials that are added to requests which they are bound to.

    Patterns are kept as they are compared: in ASCII and lower case.  Raises ValueError.
    """

    hosts: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ("https",)
    ports: tuple[int, ...] = (443,)
    secrets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("hosts", "schemes", "ports", "secrets"):
            if len(getattr(self, name)) > _MOST:
                raise ValueError(f"{name}: at most {_MOST}")
        try:
            hosts = tuple(dict.fromkeys(pattern_of(pattern) for pattern in self.hosts))
        except BadHost as error:
            raise ValueError(f"hosts: {error}; a name, *.name or *") from None
        if not set(self.schemes) <= {"http", "https"}:
            raise ValueError("schemes: http and https")
        if any(isinstance(port, bool) or not 1 <= port <= 65_535 for port in self.ports):
            raise ValueError("ports: 1 to 65535")
        if not all(_SECRET.fullmatch(name) for name in self.secrets):
            raise ValueError("secrets: names; a pattern is none")
        msgspec.structs.force_setattr(self, "hosts", hosts)


def meet(asked: NetScope, allowed: NetScope) -> NetScope | None:
    """The widest scope within both, or None where that is nothing."""
    both = NetScope(
        hosts=meet_patterns(asked.hosts, allowed.hosts),
        schemes=_shared(asked.schemes, allowed.schemes),
        ports=_shared(asked.ports, allowed.ports),
        secrets=_shared(asked.secrets, allowed.secrets),
    )
    return both if _reaches(both) else None


def _reaches(scope: NetScope) -> bool:
    return bool(scope.hosts and scope.schemes and scope.ports)


def _shared(asked: tuple[T, ...], allowed: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(one for one in dict.fromkeys(asked) if one in allowed)


def exceeds(asked: NetScope, allowed: NetScope) -> list[str]:
    """What the first has beyond the second, in words; what reaches nothing has nothing."""
    if not _reaches(asked):
        return []
    more = [f"the host {host}" for host in asked.hosts if not any(covers(wide, host) for wide in allowed.hosts)]
    more += [f"the scheme {scheme}" for scheme in asked.schemes if scheme not in allowed.schemes]
    more += [f"the port {port}" for port in asked.ports if port not in allowed.ports]
    more += [f"the credential {name!r}" for name in asked.secrets if name not in allowed.secrets]
    return more


def risk(scope: NetScope) -> str:
    """What it lets a plugin do at worst."""
    if not _reaches(scope):
        return "It reaches nothing."
    if "*" in scope.hosts:
        where = "any server on the internet"
        said = f"It can send everything that it sees to {where}, and fetch anything from there."
    else:
        wild = [host for host in scope.hosts if host.startswith("*.")]
        where = ", ".join(scope.hosts)
        said = f"It can send everything that it sees to {where}, and fetch anything from there."
        if any(host.count(".") == 1 for host in wild):
            said += " One of these takes in names that anybody may register."
    if "http" in scope.schemes:
        said += " Over http everybody in between can read and change it."
    if scope.secrets:
        said += f" It acts there with your credentials: {', '.join(scope.secrets)}."
    return said

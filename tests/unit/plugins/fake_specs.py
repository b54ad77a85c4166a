"""Two small capabilities for tests: one that reaches hosts, one that reaches a number of bytes."""

from __future__ import annotations

from fastness.capability import Scope, Spec
from fastness.errors import ConfigurationError


class WebScope(Scope, frozen=True, tag="web"):
    hosts: tuple[str, ...] = ()
    methods: tuple[str, ...] = ("GET",)

    def __post_init__(self) -> None:
        for host in self.hosts:
            if not host.replace(".", "").isalnum():
                raise ValueError(f"{host!r} is no host")


class BoxScope(Scope, frozen=True, tag="box"):
    size: int = 0

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ConfigurationError("size", self.size, "0 or more")


def _web_meet(asked: WebScope, allowed: WebScope) -> WebScope | None:
    hosts = tuple(host for host in asked.hosts if host in allowed.hosts)
    methods = tuple(one for one in asked.methods if one in allowed.methods)
    return WebScope(hosts=hosts, methods=methods) if hosts and methods else None


def _web_exceeds(asked: WebScope, allowed: WebScope) -> list[str]:
    return [f"host {host}" for host in asked.hosts if host not in allowed.hosts] + [
        f"method {one}" for one in asked.methods if one not in allowed.methods
    ]


WEB = Spec(
    kind="web",
    scope=WebScope,
    operations=(),
    meet=_web_meet,
    exceeds=_web_exceeds,
    risk=lambda scope: f"It can send what it sees to {', '.join(scope.hosts) or 'nobody'}.",
    enforced=(),
)
BOX = Spec(
    kind="box",
    scope=BoxScope,
    operations=(),
    meet=lambda a, b: BoxScope(size=min(a.size, b.size)) if min(a.size, b.size) else None,
    exceeds=lambda a, b: [f"{a.size} bytes where {b.size} are allowed"] if a.size > b.size else [],
    risk=lambda scope: f"It can keep {scope.size} bytes.",
    enforced=(),
)
SPECS = {"web": WEB, "box": BOX}


def plain(**more: object) -> dict[str, object]:
    """A manifest as plain data."""
    return {"id": "weather", "version": "1.0.0", "api": 1, "runtime": "python", "entry": "main.py", **more}

"""
Where an engine is: from a name, from the environment, from Docker's current context, or at its usual place.

What somebody named is used or refused, and nothing else is tried in its place.  Without a name the usual sockets are
looked at in turn.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fastness._container.faults import EngineFault

#: Our own variable, those of Docker and of Podman, in the order in which they count.
VARIABLES = ("FASTNESS_ENGINE", "DOCKER_HOST", "CONTAINER_HOST")
_CONFIG_CAP = 1 << 20
_FORMS = "unix:///PATH, tcp://127.0.0.1:PORT, or tcp://HOST:2376 with TLS"


class Tls(msgspec.Struct, frozen=True):
    """Files in PEM: who vouches for the engine, and who we are to it."""

    ca: str
    cert: str
    key: str


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """
    One engine's address.  ``path`` of a local socket, or ``host`` and ``port``.  ``source`` says who named it; empty
    where it is a usual place.
    """

    path: str = ""
    host: str = ""
    port: int = 0
    tls: Tls | None = None
    source: str = ""

    @property
    def local(self) -> bool:
        """Whether it is a socket of this machine's file system."""
        return bool(self.path)

    def __str__(self) -> str:
        if self.path:
            return f"unix://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"


def find(variables: Mapping[str, str], named: str | None = None) -> tuple[Endpoint, ...]:
    """
    Where to look: one place where somebody named it, else every usual place that has something of that name.

    Raises EngineFault for a name that means nothing or is not safe to use, and where there is nothing at all.
    """
    if named:
        return (parse(named, variables, "the engine that was asked for"),)
    for variable in VARIABLES:
        if variables.get(variable):
            return (parse(variables[variable], variables, variable),)
    if (context := _context(variables)) is not None:
        return (context,)
    places = [Endpoint(path=path) for path in usual(variables) if os.path.lexists(path)]
    if not places:
        looked = ", ".join(usual(variables))
        raise EngineFault(
            "absent",
            f"there is no engine: none of {looked} exists",
            "install and start Docker or Podman (systemctl start docker, or systemctl start podman.socket), or name "
            "one with FASTNESS_ENGINE=unix:///PATH",
        )
    return tuple(places)


def usual(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Where engines have their sockets by default: root's first, then this user's own."""
    found = ["/var/run/docker.sock", "/run/podman/podman.sock"]
    own = variables.get("XDG_RUNTIME_DIR")
    if own and os.path.isabs(own):
        found += [os.path.join(own, "docker.sock"), os.path.join(own, "podman", "podman.sock")]
    return tuple(found)


def parse(text: str, variables: Mapping[str, str], source: str) -> Endpoint:
    """
    The endpoint that a text names.

    One over a network must have TLS or be on this machine's loopback, for whoever can talk to an engine is root where
    it runs.  Raises EngineFault.
    """
    if text.startswith("/"):
        return Endpoint(path=text, source=source)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise EngineFault("unsupported", f"{source} is not an address: {text[:200]!r}", f"use {_FORMS}") from None
    if parts.scheme == "unix":
        path = text.removeprefix("unix://")
        if not path.startswith("/"):
            raise EngineFault("unsupported", f"{source} names no absolute path: {text[:200]!r}", f"use {_FORMS}")
        return Endpoint(path=path, source=source)
    if parts.scheme not in ("tcp", "http", "https") or not parts.hostname:
        raise EngineFault(
            "unsupported",
            f"{source} is no address that this client speaks: {text[:200]!r}",
            f"use {_FORMS}; an engine behind ssh can have its socket forwarded (ssh -L)",
        )
    tls = None
    if parts.scheme == "https" or variables.get("DOCKER_TLS_VERIFY"):
        tls = _tls(variables.get("DOCKER_CERT_PATH") or _docker_folder(variables), source)
    return _over_network(parts.hostname, port or (2376 if tls else 2375), tls, source)


def is_loopback(host: str) -> bool:
    """Whether this is an address of loopback, as a number, or ``localhost``, which is never looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _over_network(host: str, port: int, tls: Tls | None, source: str) -> Endpoint:
    if tls is None and not is_loopback(host):
        raise EngineFault(
            "insecure",
            f"{source} leads to {host} without TLS: whoever is on the way there would be root where the engine runs",
            "set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH to a folder with ca.pem, cert.pem and key.pem, or use a "
            "socket of this machine",
        )
    return Endpoint(host=host, port=port, tls=tls, source=source)


def _tls(folder: str, source: str) -> Tls:
    found = Tls(*(os.path.join(folder, name) for name in ("ca.pem", "cert.pem", "key.pem")))
    for path in (found.ca, found.cert, found.key):
        if not os.path.isfile(path):
            raise EngineFault(
                "insecure",
                f"{source} asks for TLS and there is no {path}",
                "put ca.pem, cert.pem and key.pem into the folder that DOCKER_CERT_PATH names",
            )
    return found


def _docker_folder(variables: Mapping[str, str]) -> str:
    return variables.get("DOCKER_CONFIG") or os.path.join(variables.get("HOME") or "/nonexistent", ".docker")


def _context(variables: Mapping[str, str]) -> Endpoint | None:
    """What Docker's current context names, where it is not the default one.  Raises EngineFault."""
    folder = _docker_folder(variables)
    name = variables.get("DOCKER_CONTEXT") or _read(os.path.join(folder, "config.json")).get("currentContext")
    if not isinstance(name, str) or name in ("", "default"):
        return None
    source = f"the Docker context {name[:100]!r}"
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    meta = _read(os.path.join(folder, "contexts", "meta", digest, "meta.json"))
    endpoints = meta.get("Endpoints")
    docker = endpoints.get("docker") if isinstance(endpoints, dict) else None
    host = docker.get("Host") if isinstance(docker, dict) else None
    if not isinstance(docker, dict) or not isinstance(host, str) or not host:
        raise EngineFault(
            "absent", f"{source} names no engine", "run: docker context use default, or name one with FASTNESS_ENGINE"
        )
    if docker.get("SkipTLSVerify"):
        raise EngineFault(
            "insecure", f"{source} does not check who it talks to (SkipTLSVerify)", "give the context its ca.pem"
        )
    tls = os.path.join(folder, "contexts", "tls", digest, "docker")
    if host.startswith("tcp://") and os.path.isdir(tls):
        parts = urlsplit(host)
        return _over_network(parts.hostname or "", parts.port or 2376, _tls(tls, source), source)
    return parse(host, {}, source)


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(_CONFIG_CAP))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

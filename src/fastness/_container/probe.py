"""
What an engine says of itself, within eight seconds whatever it does, and what stands in the way of using it.

An answer to a ping proves nothing: the version and the state of the engine are asked for too, under the same deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fastness._container.client import Client
from fastness._container.deadline import Deadline
from fastness._container.endpoint import Endpoint, find
from fastness._container.faults import EngineFault
from fastness._container.typed import as_list
from fastness.tier import Guarantee, ProbeFailure

#: Seconds for everything that is asked of an engine before it is used.
PROBE_S = 8.0
#: Versions of the API that this client was written for.
API_OLDEST, API_NEWEST = (1, 40), (1, 47)
_CGROUPS = "use the engine as root, or rootless on a machine whose control groups are of version 2 and delegated"


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """
    What an engine told.

    ``kind`` is ``docker`` or ``podman``; ``api`` the version that both sides speak; ``runtime`` the one that containers
    get by default, ``paths`` where the program of each is.
    """

    endpoint: Endpoint
    kind: str
    version: str
    api: str
    machine: str = ""
    system: str = ""
    identity: str = ""
    rootless: bool = False
    remapped: bool = False
    seccomp: bool = False
    cgroup_version: str = ""
    cgroup_driver: str = ""
    memory_limit: bool = False
    pids_limit: bool = False
    cpu_quota: bool = False
    runtime: str = ""
    runtimes: tuple[str, ...] = ()
    paths: tuple[tuple[str, str], ...] = ()
    driver: str = ""

    def client(self) -> Client:
        """A client that speaks the agreed version."""
        return Client(self.endpoint, self.api)


def reach(variables: Mapping[str, str], named: str | None = None, seconds: float = PROBE_S) -> Engine:
    """
    The engine that was named, or the first usual one that answers.  Raises EngineFault.

    All of it takes no longer than ``seconds``.
    """
    places = find(variables, named)
    met: list[EngineFault] = []
    for place in places:
        try:
            # None of them may use up the others' time.
            return look(place, Deadline(seconds / len(places), f"the engine at {place}"))
        except EngineFault as fault:
            met.append(fault)
    if len(met) == 1:
        raise met[0]
    causes = "; ".join(fault.cause for fault in met)
    raise EngineFault(met[0].kind, causes, met[0].remedy)


def look(endpoint: Endpoint, deadline: Deadline) -> Engine:
    """Ask one engine.  Raises EngineFault."""
    plain = Client(endpoint)
    plain.call("GET", "/_ping", deadline, cap=1 << 12)
    version = _table(plain.call("GET", "/version", deadline, cap=1 << 20).json())
    api = negotiate(version.get("ApiVersion"), version.get("MinAPIVersion"))
    info = _table(Client(endpoint, api).call("GET", "/info", deadline).json())
    components = version.get("Components")
    names = [str(_table(one).get("Name")) for one in components] if isinstance(components, list) else []
    kind = "podman" if "Podman Engine" in names else "docker"
    options = [str(one) for one in as_list(info.get("SecurityOptions"))]
    runtimes = info.get("Runtimes")
    return Engine(
        endpoint=endpoint,
        kind=kind,
        version=str(version.get("Version", ""))[:64],
        api=api,
        machine=str(info.get("Architecture", ""))[:32],
        system=str(info.get("OSType") or version.get("Os") or "")[:32],
        identity=str(info.get("ID", ""))[:128],
        # Podman has a field of its own for this; both have the option.
        rootless=bool(info.get("Rootless")) or any(one.startswith("name=rootless") for one in options),
        remapped=any(one.startswith("name=userns") for one in options),
        seccomp=any(one.startswith("name=seccomp") and "profile=unconfined" not in one for one in options),
        cgroup_version=str(info.get("CgroupVersion") or "1")[:8],
        cgroup_driver=str(info.get("CgroupDriver", ""))[:32],
        memory_limit=bool(info.get("MemoryLimit")),
        pids_limit=bool(info.get("PidsLimit")),
        # The two spell it differently.
        cpu_quota=bool(info.get("CpuCfsQuota") or info.get("CPUCfsQuota")),
        runtime=str(info.get("DefaultRuntime", ""))[:64],
        runtimes=tuple(sorted(str(name)[:64] for name in runtimes)) if isinstance(runtimes, dict) else (),
        paths=_paths(runtimes) if isinstance(runtimes, dict) else (),
        driver=str(info.get("Driver", ""))[:64],
    )


def negotiate(newest: object, oldest: object) -> str:
    """The newest version of the API that both sides speak.  Raises EngineFault."""
    theirs, least = _numbers(newest), _numbers(oldest) or (1, 0)
    if theirs is None:
        raise EngineFault(
            "broken", "what answered there names no version of the API", "name the engine's socket with FASTNESS_ENGINE"
        )
    chosen = min(theirs, API_NEWEST)
    if chosen < API_OLDEST or chosen < least:
        wanted = f"{API_OLDEST[0]}.{API_OLDEST[1]} to {API_NEWEST[0]}.{API_NEWEST[1]}"
        raise EngineFault(
            "unsupported",
            f"the engine speaks versions {least[0]}.{least[1]} to {theirs[0]}.{theirs[1]} of the API, this client "
            f"{wanted}",
            "use Docker 19.03 or newer, or Podman 4 or newer",
        )
    return f"{chosen[0]}.{chosen[1]}"


def refusals(engine: Engine) -> tuple[ProbeFailure, ...]:
    """What of this engine's own account stands in the way; what it says in its favour is proven later."""
    found: list[ProbeFailure] = []

    def refuse(guarantee: str, cause: str, remedy: str) -> None:
        found.append(ProbeFailure(guarantee=guarantee, cause=f"{engine.kind} {engine.version}: {cause}", remedy=remedy))

    if engine.system and engine.system != "linux":
        refuse("all", f"it runs containers of {engine.system}", "use an engine on Linux")
    if engine.machine not in ("x86_64", "amd64"):
        machine = engine.machine or "an unknown machine"
        refuse(Guarantee.SYSCALL_FILTERED, f"it runs on {machine}, untested", "use an engine on x86-64")
    if engine.rootless and engine.cgroup_version == "1":
        # It takes the limits and drops them without a word: only inspecting a container shows it.
        refuse(
            Guarantee.TOTAL_MEM_CAP,
            "it is rootless on control groups of version 1, where it ignores every limit of memory, processes and "
            "processor time",
            _CGROUPS,
        )
    for there, guarantee, what in (
        (engine.memory_limit, Guarantee.TOTAL_MEM_CAP, "memory"),
        (engine.pids_limit, Guarantee.PIDS_CAP, "processes"),
        (engine.cpu_quota, Guarantee.WALL_KILL, "processor time"),
    ):
        if not there:
            refuse(guarantee, f"it cannot limit {what} here", _CGROUPS)
    if not engine.seccomp:
        refuse(Guarantee.SYSCALL_FILTERED, "it filters no system calls", "use a build of the engine with seccomp")
    if engine.kind == "podman" and not engine.endpoint.local:
        refuse(
            Guarantee.SYSCALL_FILTERED,
            "it reads filters of system calls from its own disk, and it is not on this machine",
            "use its socket (systemctl start podman.socket)",
        )
    return tuple(found)


def _paths(runtimes: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Where each runtime's program is, as far as the engine tells."""
    found = ((str(name)[:64], one.get("path")) for name, one in sorted(runtimes.items()) if isinstance(one, dict))
    return tuple((name, path[:1024]) for name, path in found if isinstance(path, str))


def _numbers(text: object) -> tuple[int, int] | None:
    parts = str(text).split(".")
    if len(parts) != 2 or not all(part.isdecimal() and len(part) < 5 for part in parts):
        return None
    return int(parts[0]), int(parts[1])


def _table(found: object) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise EngineFault("broken", "the engine answered with JSON that is no object")
    return found

"""
What a container is asked to be, in the engine's words, and what of it an engine has not done.

An engine that drops a limit says nothing about it in its answer; only looking at what it made shows it.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from fastness._container import profile
from fastness._container.bind import Bind
from fastness._container.image import Image
from fastness._container.layer import USER
from fastness._container.probe import Engine
from fastness._container.typed import as_list, as_table
from fastness.limits import MIB

OWNER_LABEL = "fastness.owner"
#: Bytes of /tmp at most, of /dev/shm, and of folders that an engine would make writable without being asked.
TMP = 64 * MIB
SHM = 16 * MIB
SMALL = 64 << 10
#: Processes of one user on the whole machine: engines of root count them so; the group counts those of a container.
_NPROC = 4096
#: Open files that the supervisor needs; the guest sets its own limit below that.
_FDS_LEAST = 128
_BOOT = """\
import os,sys,json,types
def r(n):
 b=bytearray()
 while len(b)<n:
  d=os.read(0,n-len(b))
  if not d:os._exit(9)
  b+=d
 return bytes(b)
c=json.loads(r(int.from_bytes(r(4),"big")))
if c["compiled"]:sys.path.insert(0,c["compiled"])
for n in c["supervisor"]:
 if c["compiled"]:__import__(n)
 else:
  m=sys.modules[n]=types.ModuleType(n)
  exec(compile(c["texts"][n],"<%s>"%n,"exec"),m.__dict__)
sys.modules["_fastness_supervisor"].main(c)
"""
_FLAGS = ["-I", "-S", "-B", "-X", "utf8", "-c"]
_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp/matplotlib",  # noqa: S108  # inside
    "NO_COLOR": "1",
}


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """
    What decides how a container is made: bytes of ``memory`` in all, of ``work`` for /work and how many ``files`` in
    it, of ``tmp`` for /tmp, processes with the supervisor among them, open files, processors.

    ``programs``: whether files of /work may be executed.  ``runtime`` is an engine's name for one, such as ``runsc``.
    ``bind`` is a folder of this machine that is /work itself; ``work`` and ``files`` then bound nothing.
    """

    memory: int
    work: int
    files: int
    pids: int
    fds: int
    cpus: float = 1.0
    tmp: int = TMP
    programs: bool = False
    runtime: str = ""
    bind: Bind | None = None


def tmpfs(engine: Engine, ask: Ask) -> dict[str, str]:
    """Every writable folder, and the options of its tmpfs."""
    plain = "rw,nosuid,nodev"
    work = f"{plain},{'exec' if ask.programs else 'noexec'},size={ask.work},mode=1777"
    if engine.kind == "docker":
        # Podman knows neither owners nor a number of files here; there the folder is everybody's, and files are counted
        # when they are collected.
        work = work.removesuffix("mode=1777") + f"mode=0700,uid={USER},gid={USER},nr_inodes={ask.files + 1}"
    found = {
        "/work": work,
        "/tmp": f"{plain},noexec,size={ask.tmp},mode=1777",  # noqa: S108  # inside
        "/run": f"{plain},noexec,size={SMALL},mode=0755",
        "/var/tmp": f"{plain},noexec,size={SMALL},mode=1777",  # noqa: S108  # inside
    }
    if ask.bind is not None:
        del found["/work"]
    if engine.kind == "podman":
        # Else it copies what the image has there, modes and all.
        found = {place: f"{options},notmpcopyup" for place, options in found.items()}
    return found


def mounts(engine: Engine, ask: Ask) -> list[dict[str, Any]]:
    """What of this machine is in the container: nothing that says anything of it, unless that was asked for."""
    options = {"Propagation": "rprivate", "NonRecursive": True}
    wanted = [(ask.bind.path, "/work", False)] if ask.bind is not None else []
    if engine.kind == "podman":
        # Else it puts this machine's own list of hosts there, with its address.
        wanted.append((profile.hosts(), "/etc/hosts", True))
    return [
        {"Type": "bind", "Source": source, "Target": target, "ReadOnly": closed, "BindOptions": options}
        for source, target, closed in wanted
    ]


def rlimits(ask: Ask) -> dict[str, int]:
    """Hard limits of every process, by the names that engines have for them."""
    return {"nofile": max(ask.fds, _FDS_LEAST), "nproc": _NPROC, "core": 0}


def body(engine: Engine, image: Image, ask: Ask, labels: dict[str, str]) -> dict[str, Any]:
    """What is sent to make a container."""
    seccomp = profile.text() if engine.kind == "docker" else profile.path()
    host: dict[str, Any] = {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "Privileged": False,
        "SecurityOpt": ["no-new-privileges", f"seccomp={seccomp}"],
        "Memory": ask.memory,
        "MemorySwap": ask.memory,
        "PidsLimit": ask.pids,
        "NanoCpus": round(ask.cpus * 1e9),
        "IpcMode": "private",
        "ShmSize": SHM,
        "Tmpfs": tmpfs(engine, ask),
        "Mounts": mounts(engine, ask),
        "Ulimits": [{"Name": name, "Soft": value, "Hard": value} for name, value in rlimits(ask).items()],
        # Nothing that a guest writes goes to the engine's disk; its output is read from the attached stream.
        "LogConfig": {"Type": "none"},
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "OomScoreAdj": 0,
    }
    if ask.runtime:
        host["Runtime"] = ask.runtime
    if engine.kind == "docker" and engine.cgroup_version != "1":
        host["CgroupnsMode"] = "private"
    return {
        # By its identity: a name may have become another image's.
        "Image": image.id,
        "Entrypoint": ["python3"],
        "Cmd": [*_FLAGS, _BOOT],
        "User": f"{USER}:{USER}",
        "WorkingDir": "/work",
        "Hostname": "guest",
        "Env": [f"{name}={value}" for name, value in _ENVIRONMENT.items()],
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": True,
        # The end of the connection is the end of its input, and with that of the container.
        "StdinOnce": True,
        "Tty": False,
        "NetworkDisabled": True,
        "Labels": labels,
        # An image may have one: a program beside the guest, whose output the engine keeps.
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": host,
    }


def differences(found: dict[str, Any], engine: Engine, image: Image, ask: Ask) -> list[str]:
    """What an engine says of a container that is not what it was asked for."""
    host, config = as_table(found.get("HostConfig")), as_table(found.get("Config"))
    wrong: list[str] = []

    def check(what: str, seen: object, wanted: object) -> None:
        if seen != wanted:
            wrong.append(f"{what} is {json.dumps(seen)[:200]}, not {json.dumps(wanted)[:200]}")

    runtime = host.get("Runtime") if engine.kind == "docker" else found.get("OCIRuntime")
    check("Runtime", str(runtime) if ask.runtime else "", ask.runtime)
    check("Image", str(found.get("Image", "")).removeprefix("sha256:"), image.id)
    check("User", config.get("User"), f"{USER}:{USER}")
    check("Tty", config.get("Tty"), False)
    # Podman tells of none where there is none.
    health = config.get("Healthcheck") or {}
    check("Healthcheck", (health.get("Test") or ["NONE"]) if isinstance(health, dict) else health, ["NONE"])
    check("NetworkMode", host.get("NetworkMode"), "none")
    check("ReadonlyRootfs", host.get("ReadonlyRootfs"), True)
    check("Privileged", host.get("Privileged"), False)
    check("Memory", host.get("Memory"), ask.memory)
    check("MemorySwap", host.get("MemorySwap"), ask.memory)
    check("PidsLimit", host.get("PidsLimit"), ask.pids)
    check("NanoCpus", host.get("NanoCpus"), round(ask.cpus * 1e9))
    check("ShmSize", host.get("ShmSize"), SHM)
    check("LogConfig", as_table(host.get("LogConfig")).get("Type"), "none")
    check("CapAdd", host.get("CapAdd") or [], [])
    for name in ("VolumesFrom", "Devices", "DeviceRequests", "GroupAdd", "DeviceCgroupRules"):
        check(name, host.get(name) or [], [])
    asked = mounts(engine, ask)
    # Podman lists a mount among these too, with its options.
    known = tuple(f"{one['Source']}:{one['Target']}:" for one in asked)
    check("Binds", [one for one in map(str, as_list(host.get("Binds"))) if not known or not one.startswith(known)], [])
    names = ("Type", "Source", "Destination", "RW", "Propagation")
    there = sorted([str(as_table(one).get(name)) for name in names] for one in as_list(found.get("Mounts")))
    check(
        "Mounts",
        there,
        sorted(["bind", one["Source"], one["Target"], str(not one["ReadOnly"]), "rprivate"] for one in asked),
    )
    for name in ("PidMode", "UTSMode", "UsernsMode"):
        check(name, host.get(name) in ("", "private", None), True)
    check("IpcMode", host.get("IpcMode") in ("private", "shareable"), True)
    dropped = [str(one).upper().removeprefix("CAP_") for one in as_list(host.get("CapDrop"))]
    # Podman tells what it dropped by name; that nothing is left is seen from inside.
    check("CapDrop", "ALL" in dropped or (engine.kind == "podman" and len(dropped) > 0), True)
    security = [str(one) for one in as_list(host.get("SecurityOpt"))]
    check("no-new-privileges", any(one.startswith("no-new-privileges") for one in security), True)
    wanted = profile.text() if engine.kind == "docker" else profile.path()
    check("seccomp", any(one == f"seccomp={wanted}" for one in security), True)
    check("Tmpfs", sorted(as_table(host.get("Tmpfs"))), sorted(tmpfs(engine, ask)))
    rows = [as_table(one) for one in as_list(host.get("Ulimits"))]
    limits = {str(one.get("Name", "")).lower().removeprefix("rlimit_"): one.get("Hard") for one in rows}
    check("Ulimits", limits, rlimits(ask))
    return wrong


def is_ours(found: dict[str, Any]) -> bool:
    """Whether a container is made as this module makes them, by any version of it, whatever labels it has."""
    host, config = as_table(found.get("HostConfig")), as_table(found.get("Config"))
    command = config.get("Cmd")
    return (
        config.get("User") == f"{USER}:{USER}"
        and config.get("Entrypoint") in (["python3"], "python3")
        and isinstance(command, list)
        and command[:-1] == _FLAGS
        and (host.get("NetworkMode"), host.get("ReadonlyRootfs"), host.get("Privileged")) == ("none", True, False)
        and as_table(host.get("LogConfig")).get("Type") == "none"
    )


def expected(ask: Ask, *, gvisor_of: str = "") -> dict[str, Any]:
    """
    What the supervisor is to find from inside.

    ``gvisor_of`` is the release of this machine's kernel where the runtime is to be gVisor, which must show another.
    """
    return {
        "gvisor_of": gvisor_of,
        "user": USER,
        "memory": ask.memory,
        "pids": ask.pids,
        "cpus": round(ask.cpus, 3),
        "rlimits": rlimits(ask),
        "bind": [ask.bind.device, ask.bind.inode] if ask.bind is not None else None,
        "mounts": {
            **({} if ask.bind is not None else {"/work": {"size": ask.work, "exec": ask.programs}}),
            "/tmp": {"size": ask.tmp},  # noqa: S108  # inside
            "/run": {"size": SMALL},
            "/var/tmp": {"size": SMALL},  # noqa: S108  # inside
            "/dev/shm": {"size": SHM},  # noqa: S108  # inside
        },
    }

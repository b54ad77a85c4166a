"""
What the first process of a container knows of the container it is in, and what it compares with what was promised.

Its text is executed by the image's Python beside the supervisor's.  An engine's own account is not taken for it: the
numbers here are the kernel's, and some promises are tried.
"""

from __future__ import annotations

import os
import resource
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_V1 = "/sys/fs/cgroup/"
#: Where there are writable things beside what was asked for: all of them are the kernel's or hold no content.
_KERNELS = ("/proc", "/sys", "/dev")
#: Files that an engine may put into an image, and what may be in them: this container under its own names.
_LISTS = ("/etc/hosts", "/etc/resolv.conf")
_NEAR = ("127.", "::1", "fe00::", "ff00::", "ff02::")
_OWN = {"localhost", "guest", "ip6-localhost", "ip6-loopback", "ip6-localnet", "ip6-mcastprefix", "ip6-allnodes",
        "ip6-allrouters"}  # fmt: skip


def read_number(paths: tuple[str, ...], field: str = "") -> int:
    """A number of the first of these files that is there; -1 where there is none, or no limit."""
    for path in paths:
        try:
            with open(path) as file:
                text = file.read(4096)
        except OSError:
            continue
        if not field:
            word = text.split()[0] if text.split() else ""
            return int(word) if word.isdecimal() else -1
        for line in text.splitlines():
            name, _, value = line.partition(" ")
            if name == field and value.strip().isdecimal():
                return int(value)
    return -1


def oom_kills() -> int:
    """How often the kernel has ended something here for want of memory."""
    return read_number((_V1 + "memory/memory.oom_control", _V1 + "memory.events"), "oom_kill")


def memory_peak() -> int:
    """Bytes that this container has used at most."""
    return read_number((_V1 + "memory/memory.max_usage_in_bytes", _V1 + "memory.peak"))


def processor_s() -> float:
    """Seconds of processor time of everything in this container."""
    found = read_number((_V1 + "cpuacct/cpuacct.usage", _V1 + "cpu/cpuacct.usage", _V1 + "cpu,cpuacct/cpuacct.usage"))
    if found >= 0:
        return found / 1e9
    found = read_number((_V1 + "cpu.stat",), "usage_usec")
    if found >= 0:
        return found / 1e6
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def tasks() -> int:
    """How many processes and threads there are beside this one, where no control group counts them."""
    found = -1
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                found += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                # It has just ended.
                continue
    return found


# checks


def protect() -> None:
    """Be closed to everybody of the same user (PR_SET_DUMPABLE of prctl(2)).  Raises ``OSError``."""
    import ctypes

    # SAFETY: PR_SET_DUMPABLE (4) and PR_GET_DUMPABLE (3) take plain numbers and no memory.
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(4, 0, 0, 0, 0) or library.prctl(3, 0, 0, 0, 0) != 0:
        raise OSError("this process could not be closed to its own user")


def differences(expect: dict[str, Any]) -> list[str]:
    """What is not as it was asked for, seen from inside."""
    found: list[str] = []

    def check(what: str, seen: object, wanted: object) -> None:
        if seen != wanted:
            found.append(f"{what} is {seen}, not {wanted}")

    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file.read().splitlines() if ":" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        # gVisor knows no capabilities that outlast a change of program.
        absent = "0" if expect["gvisor_of"] and name == "CapAmb" else "1"
        check(name, int(status.get(name, absent), 16), 0)
    check("NoNewPrivs", _no_new_privileges(), 1)
    for name in ("Uid", "Gid"):
        check(name, status.get(name, "").split(), [str(expect["user"])] * 4)
    check("Groups", [one for one in status.get("Groups", "").split() if one != str(expect["user"])], [])
    check("the number of this process", os.getpid(), 1)
    if expect["gvisor_of"]:
        # Its kernel is a program of the machine's, whose filter and control groups hold that program.
        if os.uname().release == expect["gvisor_of"]:
            found.append("the kernel is the machine's own, so the runtime is no gVisor")
    else:
        check("Seccomp", status.get("Seccomp", "").strip(), "2")
        found += _groups(expect)
    for name, limit in expect["rlimits"].items():
        check(name, resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1], limit)
    found += _mounts(expect["mounts"], expect["bind"], () if expect["gvisor_of"] else ("nosuid", "nodev"))
    with open("/proc/net/dev") as file:
        networks = sorted(line.split(":")[0].strip() for line in file if ":" in line)
    check("networks", [name for name in networks if name != "lo"], [])
    found += _tried()
    return found


def _no_new_privileges() -> int:
    import ctypes

    # SAFETY: PR_GET_NO_NEW_PRIVS (39) takes plain numbers and no memory.
    return int(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))


def _groups(expect: dict[str, Any]) -> list[str]:
    """What the control groups of this container say otherwise than was asked for."""
    found: list[str] = []

    def check(what: str, seen: object, wanted: object) -> None:
        if seen != wanted:
            found.append(f"{what} is {seen}, not {wanted}")

    page = resource.getpagesize()
    memory = expect["memory"] // page * page
    check("memory", read_number((_V1 + "memory/memory.limit_in_bytes", _V1 + "memory.max")), memory)
    swap = read_number((_V1 + "memory/memory.memsw.limit_in_bytes",))
    if swap >= 0:
        check("memory with swap", swap, memory)
    elif os.path.exists(_V1 + "memory.swap.max"):
        check("swap", read_number((_V1 + "memory.swap.max",)), 0)
    elif _has_swap():
        found.append("swap is not limited")
    check("pids", read_number((_V1 + "pids/pids.max", _V1 + "pids.max")), expect["pids"])
    check("processor time", _cpus(), expect["cpus"])
    return found


def _has_swap() -> bool:
    with open("/proc/swaps") as file:
        return len(file.read().splitlines()) > 1


def _cpus() -> float:
    quota = read_number((_V1 + "cpu/cpu.cfs_quota_us", _V1 + "cpu,cpuacct/cpu.cfs_quota_us"))
    period = read_number((_V1 + "cpu/cpu.cfs_period_us", _V1 + "cpu,cpuacct/cpu.cfs_period_us"))
    if quota < 0:
        try:
            with open(_V1 + "cpu.max") as file:
                words = file.read().split()
            quota, period = int(words[0]), int(words[1])
        except (OSError, ValueError, IndexError):
            return -1.0
    return round(quota / period, 3) if period > 0 else -1.0


def _named(place: str) -> str:
    """The first line of an engine's file that names more than this container itself."""
    with open(place, errors="replace") as file:
        for line in file.read(1 << 16).splitlines():
            words = line.partition("#")[0].split()
            own = words[1:] and words[0].startswith(_NEAR) and set(words[1:]) <= _OWN
            if words and words[0] != "options" and not own:
                return line.strip()
    return ""


def _mounts(wanted: dict[str, dict[str, Any]], bind: list[int] | None, always: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    seen: dict[str, tuple[str, list[str]]] = {}
    with open("/proc/self/mounts") as file:
        for line in file:
            _, place, kind, options, *_ = line.split(" ")
            # What was mounted last is what is met.
            seen[place] = (kind, options.split(","))
    if "ro" not in seen.get("/", ("", []))[1]:
        found.append("the root is not read-only")
    for place, how in wanted.items():
        kind, flags = seen.get(place, ("nothing", []))
        if kind != "tmpfs":
            found.append(f"{place} is {kind}, not a tmpfs")
            continue
        needed = (*always, *(() if how.get("exec") else ("noexec",)))
        found += [f"{place} lacks {name}" for name in needed if name not in flags]
        size = os.statvfs(place)
        if size.f_blocks * size.f_frsize > how["size"] + resource.getpagesize():
            found.append(f"{place} is larger than asked for")
    if not os.access("/work", os.W_OK):
        why = "Podman gives it the mode that the image's own /work has"
        found.append(f"/work cannot be written ({why if bind is None else 'the folder is closed to the guest'})")
    if bind is not None:
        status = os.stat("/work")
        if [status.st_dev, status.st_ino] != bind or any(place.startswith("/work/") for place in seen):
            found.append("/work is another folder than the one that was looked at, or holds another file system")
    for place in _LISTS:
        if place in seen and (named := _named(place)):
            found.append(f"{place} has something of the machine's: {named[:80]}")
    ours = (*wanted, *(() if bind is None else ("/work",)))
    for place, (_, flags) in seen.items():
        known = place in ours or f"{place}/".startswith(tuple(f"{one}/" for one in _KERNELS))
        if "rw" in flags and not known and os.access(place, os.W_OK):
            found.append(f"{place} can be written")
    return found


def _tried() -> list[str]:
    """Attempts that must fail at every start."""
    found: list[str] = []
    # Of netlink the protocol of a machine's drivers (16): gVisor has the one of routes for its own network.
    for name, family, protocol in (("AF_VSOCK", 40, 0), ("AF_NETLINK", 16, 16), ("AF_PACKET", 17, 0)):
        try:
            socket.socket(family, socket.SOCK_RAW if family == 17 else socket.SOCK_DGRAM, protocol).close()
        except OSError:
            continue
        found.append(f"a socket of {name} can be made")
    for place in ("/", "/etc", "/usr/lib"):
        try:
            os.close(os.open(place, os.O_TMPFILE | os.O_WRONLY, 0o600))
        except OSError:
            continue
        found.append(f"{place} can be written")
    try:
        os.setuid(0)
    except OSError:
        pass
    else:
        found.append("it can become root")
    return found

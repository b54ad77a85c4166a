"""
What a refused call was about, in a word, from its registers alone: the family of a socket, the number of a signal.

The guest chooses these numbers, so each detail is either a word from a table here or a number of bounded length.
"""

from __future__ import annotations

_FAMILIES = {
    0: "AF_UNSPEC",
    1: "AF_UNIX",
    2: "AF_INET",
    4: "AF_IPX",
    9: "AF_X25",
    10: "AF_INET6",
    15: "AF_KEY",
    16: "AF_NETLINK",
    17: "AF_PACKET",
    21: "AF_RDS",
    29: "AF_CAN",
    30: "AF_TIPC",
    31: "AF_BLUETOOTH",
    38: "AF_ALG",
    40: "AF_VSOCK",
    44: "AF_XDP",
}

_NAMESPACES = {
    0x00000080: "time",
    0x00020000: "mnt",
    0x02000000: "cgroup",
    0x04000000: "uts",
    0x08000000: "ipc",
    0x10000000: "user",
    0x20000000: "pid",
    0x40000000: "net",
}

# The argument that is the signal's number.
_SIGNAL_AT = {"kill": 1, "tkill": 1, "tgkill": 2, "rt_sigqueueinfo": 1, "rt_tgsigqueueinfo": 2, "pidfd_send_signal": 1}

# The argument that is an operation's number.
_OPERATION_AT = {
    "ioctl": 1,
    "fcntl": 1,
    "prctl": 0,
    "arch_prctl": 0,
    "madvise": 2,
    "keyctl": 0,
    "bpf": 0,
    "ptrace": 0,
    "personality": 0,
    "fallocate": 1,
    "setsockopt": 2,
}

_CLONE_VM = 0x100
_LOW = 0xFFFFFFFF


def detail(name: str, args: tuple[int, ...]) -> str:
    """The detail of call ``name`` with the six register values ``args``; empty where there is nothing to add."""
    if name in ("socket", "socketpair"):
        family = args[0] & _LOW
        return _FAMILIES.get(family, f"family {family}")
    if name in _SIGNAL_AT:
        return f"signal {args[_SIGNAL_AT[name]] & _LOW}"
    if name in ("clone", "unshare", "setns"):
        flags = args[1 if name == "setns" else 0] & _LOW
        # In clone(2) the lowest byte is a signal number.
        made = [word for bit, word in _NAMESPACES.items() if flags & bit and not (name == "clone" and bit < 0x100)]
        if made:
            return "+".join(made) + " namespace"
        return "" if name != "clone" else "thread" if flags & _CLONE_VM else "process"
    if name in _OPERATION_AT:
        return f"operation {args[_OPERATION_AT[name]] & _LOW:#x}"
    return ""

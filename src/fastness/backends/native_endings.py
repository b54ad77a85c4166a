"""
What the kernel says of a native guest, in the words of a result: the signal that ended it, the calls that were refused.
"""

from __future__ import annotations

import signal
from typing import Any

from fastness.runs import Denial, DenialCode, OutcomeKind

#: The kind of power that a refused system call belongs to; whatever is not listed is the kernel's own.
_CAPABILITIES = {
    "net": ("socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "sendto"),
    "process": (
        "execve", "execveat", "fork", "vfork", "clone", "clone3", "kill", "tkill", "tgkill", "rt_sigqueueinfo",
        "rt_tgsigqueueinfo", "pidfd_open", "pidfd_send_signal", "pidfd_getfd", "ptrace", "process_vm_readv",
        "process_vm_writev", "setsid", "setpgid", "prlimit64",
    ),
    "fs": (
        "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes",
        "utimensat", "futimesat", "mount", "umount2", "mknod", "mknodat", "setxattr", "lsetxattr", "fsetxattr",
        "getxattr", "lgetxattr", "fgetxattr", "open_by_handle_at", "name_to_handle_at", "chroot", "pivot_root",
    ),
}  # fmt: skip
_CAPABILITY_OF = {name: capability for capability, names in _CAPABILITIES.items() for name in names}


def signalled(number: str) -> tuple[OutcomeKind, str, int | None, int | None]:
    """Kind, detail, exit code and signal of a guest that ended for the signal of this number."""
    if not number.isdecimal() or not 0 < int(number) < 65:
        return OutcomeKind.PROTOCOL, "the guest ended for a signal that there is not", None, None
    one = int(number)
    if one == signal.SIGXCPU:
        return OutcomeKind.CPU, "", None, one
    try:
        name = signal.Signals(one).name
    except ValueError:
        name = f"signal {one}"
    return OutcomeKind.CRASHED, f"it was ended by {name}", None, one


def denial(record: dict[str, Any]) -> Denial:
    """The row of a system call that was refused."""
    return Denial(
        capability=_CAPABILITY_OF.get(record["operation"], "kernel"),
        operation=record["operation"],
        target=record["target"],
        code=DenialCode.SYSCALL,
        layer="seccomp",
        count=record["count"],
    )

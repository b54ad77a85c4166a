"""
Why native guests cannot be made on a host, in words that its operator can act on.
"""

from __future__ import annotations

import os

from fastness._linux import landlock
from fastness.errors import BackendError, FastnessError, TierUnavailable
from fastness.tier import Guarantee, ProbeFailure, Tier

_APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_CLONE = "/proc/sys/kernel/unprivileged_userns_clone"
_MAXIMUM = "/proc/sys/user/max_user_namespaces"
_MORE = "as root: sysctl -w user.max_user_namespaces=10000"
#: Calls that make namespaces and trees, as errors name them.
_NAMESPACES = (
    "unshare", "clone3", "clone:", "setns", "uid_map", "gid_map", "setgroups", "mount", "umount", "pivot_root",
)  # fmt: skip
#: What no fix but another kernel, or another filter around this process, helps against.
_ABSENT = "Function not implemented"


def _setting(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read(64).strip()
    except OSError:
        return ""


def in_container() -> bool:
    """Whether this process seems to run in a container of an engine."""
    return os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")


def refused(tier: Tier, error: BackendError) -> FastnessError:
    """
    What a caller is told where a guest could not be made: TierUnavailable where it is this host that lacks something.

    What was proven earlier may have been proven under other circumstances, in another container or service.
    """
    failure = explain(tier, error)
    return error if failure.guarantee == "all" else TierUnavailable(tier.value, (failure,))


def explain(tier: Tier, error: FastnessError) -> ProbeFailure:
    """The cause of a guest that could not be made, with the fix that goes with it."""
    cause, hint = str(error), ""
    if isinstance(error, BackendError):
        cause, hint = f"{error.step} failed: {error.cause}", error.hint
    if isinstance(error, BackendError) and error.step.startswith(("starting", "making a guest")):
        found = _known(tier, cause)
        if found is not None:
            return found
    return ProbeFailure(guarantee="all", cause=cause, remedy=hint or "see the cause")


def _known(tier: Tier, cause: str) -> ProbeFailure | None:
    if "landlock" in cause:
        return ProbeFailure(guarantee=Guarantee.FS_CONFINED.value, cause=cause, remedy=_landlock())
    if "seccomp" in cause:
        return ProbeFailure(
            guarantee=Guarantee.SYSCALL_FILTERED.value,
            cause=cause,
            remedy="use a kernel with CONFIG_SECCOMP_FILTER; in a container, one whose own filter allows seccomp(2)",
        )
    wanted = Guarantee.OWN_ROOT if tier is Tier.ISOLATED else Guarantee.FS_CONFINED
    if _ABSENT in cause:
        return ProbeFailure(
            guarantee=wanted.value,
            cause=cause,
            remedy="use Linux 5.13 or newer; in a container, an engine whose filter knows the calls of such a kernel",
        )
    if "Resource temporarily unavailable" in cause or "can't start new thread" in cause:
        return ProbeFailure(guarantee="all", cause=cause, remedy="let this user have more processes: ulimit -u")
    if any(name in cause for name in _NAMESPACES):
        if "No space left" in cause:
            return ProbeFailure(guarantee=wanted.value, cause=cause, remedy=_MORE)
        if "uid_map" in cause and os.geteuid() == 0:
            fix = "give root CAP_SETFCAP (Linux 5.12), or run as an ordinary user"
            return ProbeFailure(guarantee=wanted.value, cause=cause, remedy=fix)
        return ProbeFailure(guarantee=wanted.value, cause=cause, remedy=_namespaces(tier))
    if "RLIMIT_NOFILE" in cause:
        return ProbeFailure(guarantee=wanted.value, cause=cause, remedy="raise the hard limit: ulimit -Hn 4096")
    return None


def _landlock() -> str:
    """What would give this process Landlock."""
    if landlock.abi():
        return "please report this: the kernel has Landlock"
    return (
        "use Linux 5.13 or newer with landlock among its security modules (boot with lsm=landlock,...); in a "
        "container, an engine whose filter allows the landlock calls"
    )


def _namespaces(tier: Tier) -> str:
    """What would let this user have namespaces here."""
    instead = "or use the tier confined" if tier is Tier.ISOLATED else "or use the tier wasm"
    if _setting(_CLONE) == "0":
        return "as root: sysctl -w kernel.unprivileged_userns_clone=1"
    if _setting(_APPARMOR) == "1":
        return (
            "allow user namespaces to this interpreter with an AppArmor profile (flags=(unconfined) { userns, }), or "
            "as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        )
    if _setting(_MAXIMUM) == "0":
        return _MORE
    if in_container():
        return (
            "in a container: start it with --security-opt seccomp=PROFILE that allows clone, unshare, setns, mount, "
            "umount2, mount_setattr and pivot_root (compose: security_opt; a pod: securityContext.seccompProfile), "
            f"{instead}"
        )
    return f"allow user and mount namespaces to this user, {instead}"

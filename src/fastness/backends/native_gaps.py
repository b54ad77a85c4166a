"""
Why native guests cannot be made on a host, in words that its operator can act on.
"""

from __future__ import annotations

import os

from fastness._linux import landlock
from fastness.tier import Guarantee, ProbeFailure, Tier

_APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_CLONE = "/proc/sys/kernel/unprivileged_userns_clone"
_MAXIMUM = "/proc/sys/user/max_user_namespaces"


def _setting(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read(64).strip()
    except OSError:
        return ""


def in_container() -> bool:
    """Whether this process seems to run in a container of an engine."""
    return os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")


def explain(tier: Tier, cause: str) -> ProbeFailure:
    """The cause of a guest that could not be made, with the fix that goes with it."""
    if tier is Tier.ISOLATED and ("unshare" in cause or "clone3" in cause or "uid_map" in cause or "mount" in cause):
        return ProbeFailure(guarantee=Guarantee.OWN_ROOT.value, cause=cause, remedy=_namespaces())
    if "landlock" in cause or not landlock.abi():
        return ProbeFailure(
            guarantee=Guarantee.FS_CONFINED.value,
            cause=cause,
            remedy="use Linux 5.13 or newer with landlock among its security modules (boot with lsm=landlock,...)",
        )
    if "seccomp" in cause:
        return ProbeFailure(
            guarantee=Guarantee.SYSCALL_FILTERED.value, cause=cause, remedy="use a kernel with CONFIG_SECCOMP_FILTER"
        )
    return ProbeFailure(guarantee="all", cause=cause, remedy="see the cause; then run: fastness doctor")


def _namespaces() -> str:
    """What would let this user have namespaces here."""
    if _setting(_CLONE) == "0":
        return "as root: sysctl -w kernel.unprivileged_userns_clone=1"
    if _setting(_APPARMOR) == "1":
        return (
            "allow user namespaces to this interpreter with an AppArmor profile (flags=(unconfined) { userns, }), or "
            "as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        )
    if _setting(_MAXIMUM) == "0":
        return "as root: sysctl -w user.max_user_namespaces=10000"
    if in_container():
        return (
            "in a container: start it with --security-opt seccomp=PROFILE that allows clone, unshare, mount and "
            "pivot_root (compose: security_opt; a pod: securityContext.seccompProfile), or use the tier confined"
        )
    return "allow user and mount namespaces to this user, or use the tier confined or wasm"

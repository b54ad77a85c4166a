"""
What ``fastness doctor`` warns of: what holds and is weaker than it could be, and what should not be as it is.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping

import msgspec

from fastness.errors import FastnessError
from fastness.tier import Guarantee, Probe, Tier

#: Kinds of folders of ours, with what somebody who may read or write there gets.
_FOLDERS = {
    "cache": "it holds native code that is loaded into processes",
    "config": "it holds the operator's settings and keys",
    "data": "it holds plugins, what they keep, and the audit trail",
    "runtime": "it holds the work folders of guests",
}


class Warned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    One warning.  ``about`` is a word for programs: ``unsandboxed``, ``root``, ``permissions``, ``stale``, ``left`` or
    ``engine``; ``cause`` says what is so, ``remedy`` what mends it, and ``check`` is the command that looks again.
    """

    about: str
    cause: str
    remedy: str
    check: str = "fastness doctor"


def warnings(probes: Mapping[str, Probe]) -> list[Warned]:
    """All that this machine, this user and these probes give reason for."""
    return [*_unsandboxed(), *_root(), *_permissions(), *_stale(), *_left(), *_engines(probes)]


def _unsandboxed() -> Iterator[Warned]:
    from fastness.backends.local import VARIABLE, allowed

    if allowed():
        cause = f"{VARIABLE}=1 is set: tier='local' would run code WITHOUT any sandbox"
        yield Warned("unsandboxed", cause, f"unset {VARIABLE}")


def _root() -> Iterator[Warned]:
    if os.geteuid() == 0:
        cause = "this is root: what gets past the walls of a tier has all of this machine, and the tier worker has few"
        yield Warned("root", cause, "run Fastness as an ordinary user; no tier but container needs more")


def _permissions() -> Iterator[Warned]:
    """Folders that somebody else may write to, which are refused when they are needed, or may read."""
    from fastness._wasi import home

    seen: set[str] = set()
    for kind, what in _FOLDERS.items():
        for path in (home.place(kind), *([home.place(kind, "guests")] if kind == "cache" else [])):
            try:
                status = os.lstat(path)
                home.check(path, status)
            except FileNotFoundError:
                continue
            except (OSError, FastnessError) as error:
                told = str(error)
                if told not in seen:
                    remedy = "as it says; or set FASTNESS_HOME to a folder of your own"
                    yield Warned("permissions", f"the {kind} folder is not safe: {told}; {what}", remedy)
                seen.add(told)
                continue
            if status.st_mode & 0o055:
                mode = f"{status.st_mode & 0o7777:04o}"
                cause = f"others may look into the {kind} folder {path}, whose mode is {mode}: {what}"
                yield Warned("permissions", cause, f"chmod 700 {shlex.quote(path)}")


def _stale() -> Iterator[Warned]:
    """What was built for guests, and is of no use to those of this version."""
    from fastness._wasi import home, inventory
    from fastness._wasi.cache import Cache
    from fastness.cli.console import size

    if not os.path.isdir(home.place("cache", "guests")):
        return
    try:
        unused = inventory.unused(Cache())
        guests = inventory.list_guests()
    except FastnessError:
        # A cache that may not be used is told as one whose permissions are wrong.
        return
    if unused:
        cause = f"{len(unused)} files of other versions' guests take {size(sum(entry.size for entry in unused))}"
        yield Warned("stale", cause, "fastness guest prune", "fastness guest list")
    for guest in guests:
        if guest.note and guest.state != "building":
            cause = f"the guest {guest.name} is {guest.state}: {guest.note}"
            yield Warned("stale", cause, f"fastness guest build {guest.name}", "fastness guest verify")


def _left() -> Iterator[Warned]:
    from fastness import runtime
    from fastness._wasi import home

    if not os.path.isdir(home.place("runtime")):
        return
    try:
        left = runtime.dead_owners()
    except FastnessError:
        return
    if left:
        cause = (
            f"{len(left)} process{'es' if len(left) > 1 else ''} of this user ended and left folders or control groups"
        )
        yield Warned("left", cause, "fastness doctor --sweep")


def _engines(probes: Mapping[str, Probe]) -> Iterator[Warned]:
    """Tiers that hold with fewer walls than they have elsewhere."""
    for name, probe in probes.items():
        if not probe.holds:
            continue
        again = f"fastness doctor --tier {name}"
        files = probe.layers.get(Guarantee.FS_CONFINED.value, "")
        if name == Tier.WASM.value and Guarantee.SYSCALL_FILTERED.value not in probe.guarantees:
            cause = "the engine of wasm is not confined here: a bug in wasmtime would have this user's rights"
            yield Warned("engine", cause, "use a kernel with seccomp and user namespaces", again)
        elif name in (Tier.WASM.value, Tier.CONFINED.value, Tier.ISOLATED.value) and "landlock" not in files:
            cause = f"the tier {name} is without Landlock here: one wall less around files"
            yield Warned("engine", cause, "use Linux 5.13 or later with landlock among lsm= of its command line", again)
        if name == Tier.CONTAINER.value and Guarantee.OWN_UID.value not in probe.guarantees:
            cause = "guests of container have no user of their own on this engine: one wall less around this machine"
            yield Warned("engine", cause, "have the engine map users (userns-remap, or a rootless engine)", again)


def words(warned: Warned) -> str:
    """A warning for people, in one paragraph."""
    return f"WARNING: {warned.cause}.  Fix: {warned.remedy}.  Check again: {warned.check}"

"""
Tiers are promises: a tier is a named, closed set of guarantees.  Backends keep them.
"""

from __future__ import annotations

import enum
import functools

import msgspec

from fastness.errors import ConfigurationError, meant


class Guarantee(enum.StrEnum):
    """One thing that is promised; a backend lists it only where a probe made it deny something here."""

    ENV_SCRUBBED = "ENV_SCRUBBED"
    ADDRESS_SPACE = "ADDRESS_SPACE"
    WALL_KILL = "WALL_KILL"
    MEM_CAP = "MEM_CAP"
    OUTPUT_CAP = "OUTPUT_CAP"
    CRASH_CONTAINED = "CRASH_CONTAINED"
    FS_CONFINED = "FS_CONFINED"
    NET_CONFINED = "NET_CONFINED"
    SYSCALL_FILTERED = "SYSCALL_FILTERED"
    NO_NEW_PRIVS = "NO_NEW_PRIVS"
    NO_PRIVILEGE = "NO_PRIVILEGE"
    PID_HIDDEN = "PID_HIDDEN"
    PIDS_CAP = "PIDS_CAP"
    TOTAL_MEM_CAP = "TOTAL_MEM_CAP"
    OWN_ROOT = "OWN_ROOT"
    IMAGE_ROOT = "IMAGE_ROOT"
    NO_SYSCALLS = "NO_SYSCALLS"
    NO_EXEC = "NO_EXEC"
    OWN_UID = "OWN_UID"
    PRIVATE_KERNEL = "PRIVATE_KERNEL"


class Tier(enum.StrEnum):
    """A promise by name.  ``strength`` orders them; two tiers of one strength differ in kind, not in rank."""

    MEDIATED = "mediated"
    WORKER = "worker"
    CONFINED = "confined"
    ISOLATED = "isolated"
    CONTAINER = "container"
    WASM = "wasm"
    VM = "vm"

    @property
    def strength(self) -> int:
        """0 (no isolation) to 4 (a kernel of its own)."""
        return _STRENGTH[self]

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        """What the tier promises."""
        return _PROMISES[self]

    @classmethod
    def parse(cls, name: object, more: tuple[str, ...] = ()) -> Tier:
        """The tier called ``name``.  Raises ConfigurationError, which names the words ``more`` beside the tiers."""
        if isinstance(name, Tier):
            return name
        try:
            return cls(str(name))
        except ValueError:
            names = [*(tier.value for tier in cls), *more]
            raise ConfigurationError("tier", name, f"{', '.join(names)}{meant(name, names)}") from None


_WORKER = frozenset(
    {
        Guarantee.ENV_SCRUBBED,
        Guarantee.ADDRESS_SPACE,
        Guarantee.WALL_KILL,
        Guarantee.MEM_CAP,
        Guarantee.OUTPUT_CAP,
        Guarantee.CRASH_CONTAINED,
    }
)
_CONFINED = _WORKER | {
    Guarantee.FS_CONFINED,
    Guarantee.NET_CONFINED,
    Guarantee.SYSCALL_FILTERED,
    Guarantee.NO_NEW_PRIVS,
    Guarantee.NO_PRIVILEGE,
}
_ISOLATED = _CONFINED | {Guarantee.PID_HIDDEN, Guarantee.PIDS_CAP, Guarantee.TOTAL_MEM_CAP, Guarantee.OWN_ROOT}

_PROMISES: dict[Tier, frozenset[Guarantee]] = {
    Tier.MEDIATED: frozenset(),
    Tier.WORKER: _WORKER,
    Tier.CONFINED: _CONFINED,
    Tier.ISOLATED: _ISOLATED,
    Tier.CONTAINER: _ISOLATED | {Guarantee.IMAGE_ROOT},
    Tier.WASM: _WORKER | {Guarantee.NO_SYSCALLS, Guarantee.FS_CONFINED, Guarantee.NET_CONFINED, Guarantee.NO_EXEC},
    Tier.VM: _ISOLATED | {Guarantee.IMAGE_ROOT, Guarantee.PRIVATE_KERNEL},
}
_STRENGTH = {
    Tier.MEDIATED: 0,
    Tier.WORKER: 1,
    Tier.CONFINED: 2,
    Tier.ISOLATED: 3,
    Tier.CONTAINER: 3,
    Tier.WASM: 3,
    Tier.VM: 4,
}

#: What each tier is for and what it does not stop, for ``fastness explain`` and the documentation.
LIMITS_OF: dict[Tier, str] = {
    Tier.MEDIATED: "no isolation: first-party code only",
    Tier.WORKER: "same user and same files; same network where the module firewall is undone",
    Tier.CONFINED: "shared kernel; metadata of all files is readable; files and threads are counted now and then, not "
    "by the kernel",
    Tier.ISOLATED: "shared kernel; /usr and package folders are readable; an ordinary user's kernel limits are shared "
    "with the caller; without control groups no program can be run",
    Tier.CONTAINER: "shared kernel; needs an engine, access to which is root, and an image",
    Tier.WASM: "engine bugs (behind a second wall on Linux); only what the guest image holds",
    Tier.VM: "bugs of the virtual machine monitor",
}


class ProbeFailure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One guarantee that could not be proven here: which, why, and what would mend it."""

    guarantee: str
    cause: str
    remedy: str


class Proof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One guarantee that was proven here: what was tried and what was observed."""

    guarantee: str
    mechanism: str
    observed: str


class Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    What a backend found out about this host by trying.

    ``guarantees`` were proven; ``failures`` were not; ``layers`` names the mechanism behind each;
    ``versions`` are of the pieces involved; ``micros`` is how long the probe took.  ``notes`` say in words what the
    tier can do here beside its guarantees, or cannot and why.
    """

    backend: str
    tier: str
    guarantees: tuple[str, ...] = ()
    failures: tuple[ProbeFailure, ...] = ()
    proofs: tuple[Proof, ...] = ()
    layers: dict[str, str] = {}
    versions: dict[str, str] = {}
    micros: int = 0
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every guarantee of the tier was proven."""
        return not self.failures and _promised(self.tier).issubset(self.guarantees)


@functools.cache
def _promised(tier: str) -> frozenset[str]:
    # Asked for each run.
    return frozenset(guarantee.value for guarantee in Tier(tier).guarantees)

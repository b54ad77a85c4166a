"""
What an attack is, and what may come of one.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from fastness.tier import Guarantee

if TYPE_CHECKING:
    from fastness.attack.arena import Arena
    from fastness.runs import RunResult


class Layer(enum.Enum):
    """What is expected to stop an attack.  Closed."""

    #: A refusal that the host recorded: a row of ``denials`` of the WASI layer.
    WASI = "wasi"
    #: A refusal inside the guest, before the host saw anything: a claimed row of ``denials``.
    GUEST = "guest"
    #: The broker's decision on a call: a row of ``denials`` of the layer ``broker``.
    BROKER = "broker"
    #: A limit: the outcome names it.
    LIMIT = "limit"
    #: What the attack needs does not exist in the guest; nothing had to be refused.
    ABSENT = "absent"
    #: Each run starts from clean memory.
    FRESH = "fresh"
    #: The engine process: what happened inside ended there.
    ENGINE = "engine"
    #: A check on the way out: by the reader of frames, the collector of files, or the command line.
    HOST = "host"
    #: A system call that the filter refused and that was recorded: a row of ``denials`` of the layer ``seccomp``.
    SECCOMP = "seccomp"
    #: A filter of system calls that refuses and records nothing.
    FILTER = "filter"
    #: The filter ended the process, for a call that no honest program makes.
    KILLED = "killed"
    #: The kernel's rules for files (Landlock), which refuse and record nothing.
    LANDLOCK = "landlock"
    #: A namespace of the guest's own, in which what the attack is after cannot even be named.
    NAMESPACE = "namespace"
    #: The counters of the guest's control group.
    CGROUP = "cgroup"
    #: A resource limit of the guest's process, or of its user.
    RLIMIT = "rlimit"
    #: The guest has no power and can gain none: no capability, no other user, no set-user-id program.
    PRIVILEGE = "privilege"
    #: Nothing: what the tier is said not to stop, and must be seen not to.
    NOTHING = "nothing"


#: Layers that leave a row in ``denials``.
RECORDING = frozenset({Layer.WASI, Layer.GUEST, Layer.BROKER, Layer.SECCOMP})


class Rule(enum.StrEnum):
    """What the broker and the host of plugins keep to, whatever the tier.  Closed; beside the guarantees of tiers."""

    #: What was not granted is not done, nor what was revoked or has expired, whoever asks and however.
    GRANTED = "GRANTED"
    #: What is kept or sent on behalf of one plugin and owner reaches no other.
    OWNED = "OWNED"
    #: What calls may use up has a ceiling that no way of asking gets past.
    BOUNDED = "BOUNDED"
    #: Nothing is done without a record before it, and what is done to the records is found.
    RECORDED = "RECORDED"
    #: What runs is what was shown and granted, byte for byte, and nothing of it runs before.
    PACKAGED = "PACKAGED"


class Verdict(enum.Enum):
    """What came of an attack.  Closed.  Only ``held``, ``allowed`` and ``skipped`` are good."""

    #: The effect did not happen, for the stated reason, and it did happen in the control.
    HELD = "held"
    #: The effect happened, as is said of this tier: it does not stop this.
    ALLOWED = "allowed"
    #: The effect happened.
    ESCAPED = "escaped"
    #: The effect did not happen in the control either, so nothing is proven.
    VOID = "void"
    #: The effect did not happen, but not for the stated reason: what we say about it is wrong.
    UNEXPECTED = "unexpected"
    #: Not run, for a stated reason.
    SKIPPED = "skipped"

    @property
    def good(self) -> bool:
        """Whether the suite may pass with it."""
        return self in (Verdict.HELD, Verdict.ALLOWED, Verdict.SKIPPED)


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """The guarantee or the rule that an attack tests, and what we say about it, in one sentence."""

    guarantee: Guarantee | Rule
    says: str


@dataclasses.dataclass(frozen=True, slots=True)
class Expect:
    """
    How one tier stops an attack.

    ``layer`` is what stops it; ``code`` is the ``DenialCode`` value of the row that must be there, for layers that
    record one; ``outcomes`` are the ``OutcomeKind`` values that the run may end with.  ``calls`` are the operations of
    which the row must be one; empty for any.  ``says`` is, where nothing stops it, what is said of this tier instead of
    the claim, in one sentence.
    """

    layer: Layer
    code: str | None = None
    outcomes: tuple[str, ...] = ("ok", "guest_error")
    calls: tuple[str, ...] = ()
    says: str = ""

    def __post_init__(self) -> None:
        if (self.layer in RECORDING) != (self.code is not None):
            raise ValueError("a denial code goes with the layers that record denials, and with no other")
        if self.calls and self.code is None:
            raise ValueError("calls are looked for in the rows of layers that record denials")
        if (self.layer is Layer.NOTHING) != self.says.endswith("."):
            raise ValueError("what nothing stops is said in a sentence, and nothing else is")


def refused(*calls: str, outcomes: tuple[str, ...] = ("ok", "guest_error")) -> Expect:
    """What is expected where the filter of a native guest refuses one of ``calls``."""
    return Expect(Layer.SECCOMP, "syscall", outcomes, calls)


def allowed(says: str) -> Expect:
    """What is expected of a tier that is said, by the sentence ``says``, not to stop the attack."""
    return Expect(Layer.NOTHING, says=says)


@dataclasses.dataclass(frozen=True, slots=True)
class Effect:
    """
    What an attempt did, as seen from outside the guest.

    ``happened`` is whether the attacker got what they were after; ``seen`` says what was observed, in one sentence;
    ``result`` is the run's, where a sandbox ran it; ``also`` are those of the same attempt made in other ways, each of
    which must have been stopped as was stated.
    """

    happened: bool
    seen: str
    result: RunResult | None = None
    also: tuple[RunResult, ...] = ()


class Skip(Exception):
    """Raised by an attack, or by its control, that cannot be tried here; the message is the reason."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attack:
    """
    One attack.

    ``attack`` tries for an effect inside a tier and ``control`` tries for the same effect where nothing stops it; both
    observe it from outside.  ``tiers`` has an entry for each tier that the attack applies to.
    ``slow`` attacks take more than about a second and a half.  ``alone`` ones look at what all of the machine shares,
    such as the times of a device: nothing else of the corpus runs beside them.
    """

    id: str
    claim: Claim
    tiers: Mapping[str, Expect]
    attack: Callable[[Arena], Effect]
    control: Callable[[Arena], Effect]
    slow: bool = False
    alone: bool = False

    def __post_init__(self) -> None:
        family, _, name = self.id.partition(".")
        if not family or not name or not self.claim.says.endswith("."):
            raise ValueError(f"{self.id}: an id is family.name, and a claim is a sentence")

    @property
    def family(self) -> str:
        """The part of the id before the dot; also the folder that the attack's file is in."""
        return self.id.partition(".")[0]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """
    One attack against one tier.

    ``stopped_by`` says what was seen to stop it; ``detail`` says why a verdict is not ``held``; ``seen`` and
    ``control`` say what was observed inside and in the control.  ``seconds`` is how long both took, as far as they were
    made for this tier, and ``control_seconds`` how long the control took; it is 0 where the control is that of another
    tier, made a moment before by the same process.  ``before`` is what came of it at first, where it was tried twice.
    """

    attack: Attack
    tier: str
    verdict: Verdict
    stopped_by: str = ""
    detail: str = ""
    seen: str = ""
    control: str = ""
    seconds: float = 0.0
    control_seconds: float = 0.0
    before: str = ""

    @property
    def layer(self) -> str:
        """What stopped it, in one word: a value of :class:`Layer`; empty where nothing is known to have."""
        return self.stopped_by.partition(":")[0] if self.verdict is Verdict.HELD else ""

    @property
    def says(self) -> str:
        """What is said of the tier: the attack's claim, or that this is not stopped."""
        expect = self.attack.tiers.get(self.tier)
        return (expect.says if expect else "") or self.attack.claim.says

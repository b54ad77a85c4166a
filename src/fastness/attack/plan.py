"""
What is tried where: the tiers that hold on this machine, and the attacks that ``--quick`` leaves in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fastness.attack.arena import NATIVE
from fastness.attack.model import Attack, Rule
from fastness.tier import Guarantee, Probe, Tier

if TYPE_CHECKING:
    from fastness.attack.lanes import Task


#: Why an attack was skipped that ``--quick`` does not ask for.
LEFT_OUT = "left out by --quick"


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """Whether a tier holds here, by its probe."""

    tier: str
    probe: Probe

    @property
    def holds(self) -> bool:
        """Whether guests run in it here; nothing is tried in one that does not hold."""
        return self.probe.holds


#: What need not be promised where guest code can make no system call at all: without one nothing of it can be tried.
_NEED_A_CALL = frozenset(
    {
        Guarantee.SYSCALL_FILTERED,
        Guarantee.NO_NEW_PRIVS,
        Guarantee.NO_PRIVILEGE,
        Guarantee.PID_HIDDEN,
        Guarantee.PIDS_CAP,
        Guarantee.TOTAL_MEM_CAP,
        Guarantee.OWN_ROOT,
        Guarantee.IMAGE_ROOT,
    }
)


def unpromised(attack: Attack, tier: str) -> bool:
    """Whether an attack that is not made in a tier is on what that tier does not promise."""
    guarantee, promised = attack.claim.guarantee, Tier(tier).guarantees
    if tier in attack.tiers or isinstance(guarantee, Rule) or guarantee in promised:
        return False
    return not (Guarantee.NO_SYSCALLS in promised and guarantee in _NEED_A_CALL)


def tasks(attacks: Iterable[Attack], tiers: Sequence[str], quick: bool) -> tuple[list[Task], list[tuple[Attack, str]]]:
    """What is to be tried, and what ``quick`` leaves out."""
    from fastness.attack import registry

    # A control that was made for one of the others stands for native tiers too, and not the other way round.
    order = sorted(tiers, key=lambda tier: tier in NATIVE)
    every = [(attack, tuple(tier for tier in order if tier in attack.tiers)) for attack in attacks]
    wanted = _few(every) if quick else {(attack.id, tier) for attack, there in every for tier in there}
    found, left = [], []
    for attack, there in every:
        kept = tuple(tier for tier in there if (attack.id, tier) in wanted)
        left += [(attack, tier) for tier in there if tier not in kept]
        if kept:
            found.append((attack, registry.module_of(attack), kept))
    return found, left


def _few(every: Sequence[tuple[Attack, tuple[str, ...]]]) -> set[tuple[str, str]]:
    """
    A few attacks with their tiers, such that each family is tried in each tier that it has attacks for, and so is each
    guarantee and rule that one attacks which is not slow.  Slow ones, and those that must be alone, are taken only for
    families that have no others there.
    """
    easy: dict[tuple[str, str], set[tuple[str, str]]] = {}
    hard: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for attack, there in every:
        for tier in there:
            family, guarantee = (attack.family, tier), (attack.claim.guarantee.value, tier)
            if attack.slow or attack.alone:
                hard[attack.id, tier] = {family}
            else:
                easy[attack.id, tier] = {family, guarantee}
    covered = {name for covers in easy.values() for name in covers}
    last = {one: covers - covered for one, covers in hard.items()}
    return _cover(easy, covered) | _cover(last, set().union(*last.values()))


def _cover(covers: Mapping[tuple[str, str], set[tuple[str, str]]], left: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Few of the keys, of attacks and tiers, whose values have all that is in ``left``."""
    left = set(left)
    chosen: set[tuple[str, str]] = set()
    while useful := {one: there & left for one, there in covers.items() if there & left}:
        # What is shown for one tier by a control is shown for the next, so one attack on all of them costs the least.
        gain: dict[str, int] = {}
        for (name, _), there in useful.items():
            gain[name] = gain.get(name, 0) + len(there)
        best = min(gain, key=lambda name: (-gain[name], name))
        for (name, tier), there in useful.items():
            if name == best:
                chosen.add((name, tier))
                left -= there
    return chosen


def unheld(standings: Mapping[str, Standing]) -> list[str]:
    """What is said of tiers that do not hold, a line or more each: the cause, the fix, and what checks it again."""
    lines = []
    for name, standing in standings.items():
        if standing.holds:
            continue
        lines.append(f"tier {name} does not hold here, so nothing was tried in it")
        lines += [f"  {one.guarantee}: {one.cause}.  Fix: {one.remedy}" for one in standing.probe.failures]
        lines.append(f"  Check again: fastness doctor --tier {name}")
    return lines

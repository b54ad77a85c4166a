"""What is tried where: the quick set, controls that tiers share, and what a tier allows by design."""

from __future__ import annotations

from typing import Any

import pytest

from fastness.attack import matrix, plan, registry, runner
from fastness.attack.arena import Arena
from fastness.attack.control import Controls
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Outcome, Rule, Skip, Verdict
from fastness.runs import Outcome as RunOutcome
from fastness.runs import OutcomeKind, RunResult
from fastness.tier import Guarantee, Probe, ProbeFailure

TIERS = ("worker", "confined", "isolated", "container", "wasm")


def nothing(arena: Arena) -> Effect:
    return Effect(False, "nothing happened", RunResult(outcome=RunOutcome(OutcomeKind.OK)))


def make(name: str = "family.name", **more: Any) -> Attack:
    fields: dict[str, Any] = {
        "id": name,
        "claim": Claim(Guarantee.FS_CONFINED, "Nothing happens."),
        "tiers": {tier: Expect(Layer.ABSENT) for tier in TIERS},
        "attack": nothing,
        "control": lambda arena: Effect(True, "it happened"),
    }
    return Attack(**{**fields, **more})


# the quick set


def test_the_quick_set_has_each_family_in_each_tier() -> None:
    """Of the shipped corpus, whatever tiers hold: each family where it has attacks, and far fewer than all."""
    attacks = registry.load()
    for tiers in (TIERS, ("wasm",), ("isolated", "worker")):
        todo, left = plan.tasks(attacks, tiers, quick=True)
        chosen = {(attack.id, tier) for attack, _, there in todo for tier in there}
        every = {(attack.id, tier) for attack in attacks for tier in tiers if tier in attack.tiers}
        assert chosen | {(attack.id, tier) for attack, tier in left} == every
        family = {attack.id: attack.family for attack in attacks}
        assert {(family[name], tier) for name, tier in chosen} == {(family[name], tier) for name, tier in every}
        assert len(chosen) < len(every) / 8


def test_a_family_of_slow_ones_is_not_left_out() -> None:
    """Where a family has none in a tier that is quick, a slow one stands for it there, and for nothing else."""
    attacks = [
        make("quick.a", tiers={"wasm": Expect(Layer.ABSENT)}),
        make("slow.a", slow=True, claim=Claim(Guarantee.WALL_KILL, "It ends.")),
        make("mixed.a", slow=True, claim=Claim(Guarantee.WALL_KILL, "It ends.")),
        make("mixed.b"),
    ]
    todo, _ = plan.tasks(attacks, ("wasm", "worker"), quick=True)
    assert {attack.id: set(there) for attack, _, there in todo} == {
        "quick.a": {"wasm"},
        "slow.a": {"wasm", "worker"},
        "mixed.b": {"wasm", "worker"},
    }


def test_all_of_it_is_all_of_it() -> None:
    """Without --quick nothing is left out."""
    attacks = registry.load()
    todo, left = plan.tasks(attacks, TIERS, quick=False)
    assert not left
    assert sum(len(there) for _, _, there in todo) == sum(len(attack.tiers) for attack in attacks)


# controls


class Counted:
    """A control that counts how often it was made."""

    def __init__(self, *effects: Effect | Skip, asks: bool = False) -> None:
        self.effects = list(effects) or [Effect(True, "it happened")]
        self.asks = asks
        self.made: list[str] = []

    def __call__(self, arena: Arena) -> Effect:
        self.made.append(arena._tier)
        if self.asks:
            assert arena.tier
        effect = self.effects.pop(0) if len(self.effects) > 1 else self.effects[0]
        if isinstance(effect, Skip):
            raise effect
        return effect


def judged(control: Counted, *tiers: str) -> list[Outcome]:
    attack = make(control=control)
    controls = Controls(attack)
    return [runner.tried(attack, tier, None, controls) for tier in tiers]  # type: ignore[arg-type]  # no sandbox is used


def test_a_control_that_knows_no_tier_is_made_once() -> None:
    """It stands for the next tiers, which say that they have not made it."""
    control = Counted()
    outcomes = judged(control, "wasm", "worker", "isolated")
    assert control.made == ["wasm"]
    assert [one.verdict for one in outcomes] == [Verdict.HELD] * 3
    assert [bool(one.control_seconds) for one in outcomes] == [True, False, False]


def test_a_control_that_asks_for_its_tier_is_made_for_each() -> None:
    """What it did may have hung on that."""
    control = Counted(asks=True)
    judged(control, "wasm", "worker", "isolated")
    assert control.made == ["wasm", "worker", "isolated"]


def test_a_control_among_files_that_are_open_to_all_stands_for_native_tiers_only() -> None:
    """Elsewhere its files would have had modes under which it might have failed."""
    control = Counted()
    judged(control, "isolated", "confined", "wasm")
    assert control.made == ["isolated", "wasm"]


def test_a_control_that_failed_is_made_anew() -> None:
    """A failure is never taken over by the next tier, and voids its own only."""
    control = Counted(Effect(False, "nothing"), Effect(True, "it happened"))
    outcomes = judged(control, "wasm", "worker", "isolated")
    assert control.made == ["wasm", "worker"]
    assert [one.verdict for one in outcomes] == [Verdict.VOID, Verdict.HELD, Verdict.HELD]


def test_a_control_that_this_machine_lacks_is_asked_once() -> None:
    """A reason to skip is the same for the next tier."""
    control = Counted(Skip("there is no such thing"))
    assert [one.verdict for one in judged(control, "wasm", "worker")] == [Verdict.SKIPPED] * 2
    assert control.made == ["wasm"]


# what is allowed, and what is said of it


@pytest.mark.parametrize(
    ("guarantee", "tier", "allowed"),
    [
        (Guarantee.FS_CONFINED, "worker", True),
        (Guarantee.NO_EXEC, "isolated", True),
        (Guarantee.SYSCALL_FILTERED, "worker", True),
        # Guests that can make no call at all need no list of those that they may make.
        (Guarantee.SYSCALL_FILTERED, "wasm", False),
        (Guarantee.MEM_CAP, "worker", False),
        (Rule.GRANTED, "worker", False),
    ],
)
def test_what_a_tier_does_not_promise_is_known(guarantee: Guarantee | Rule, tier: str, allowed: bool) -> None:
    """An attack on a promise that the tier has not made is let through by design; on any other one it is not."""
    attack = make(claim=Claim(guarantee, "Nothing happens."), tiers={"container": Expect(Layer.ABSENT)})
    assert plan.unpromised(attack, tier) is allowed
    assert not plan.unpromised(attack, "container")


def test_a_cell_counts_what_came_of_its_family() -> None:
    """By verdict, and by layer for what was stopped; what was left out or allowed is counted apart."""
    attack = make()
    other = make("family.other", tiers={"container": Expect(Layer.ABSENT)})
    outcomes = [
        Outcome(attack, "wasm", Verdict.HELD, "limit: timeout"),
        Outcome(attack, "wasm", Verdict.HELD, "wasi: absent"),
        Outcome(attack, "wasm", Verdict.HELD, "limit: memory"),
        Outcome(attack, "wasm", Verdict.ESCAPED, "", "it got out"),
        Outcome(attack, "wasm", Verdict.SKIPPED, detail=plan.LEFT_OUT),
    ]
    made = matrix.make([attack, other], ("wasm", "worker"), outcomes)
    cell = made["family"]["wasm"]
    assert cell.to_dict() == {
        "held": 3, "escaped": 1, "void": 0, "unexpected": 0, "skipped": 0, "left_out": 1,
        "allowed": 0, "by": {"limit": 2, "wasi": 1}, "not_promised": [],
    }  # fmt: skip
    assert [words for words, _ in matrix.lines(cell)] == ["1 ESCAPED", "3 stopped", "limit 2", "wasi 1"]
    assert made["family"]["worker"].not_promised == ["family.other"]
    let_through = [Outcome(attack, "wasm", Verdict.ALLOWED, "nothing")]
    cell = matrix.make([attack], ("wasm",), let_through)["family"]["wasm"]
    assert cell.to_dict()["allowed"] == 1
    assert [words for words, _ in matrix.lines(cell)] == ["1 allowed"]


def test_a_tier_that_does_not_hold_is_told_with_its_cause_and_fix() -> None:
    """What is missing, what mends it, and what checks it again."""
    failure = ProbeFailure(guarantee="all", cause="there is no engine", remedy="install one")
    standing = plan.Standing("container", Probe(backend="", tier="container", failures=(failure,)))
    text = "\n".join(plan.unheld({"container": standing}))
    for words in ("container does not hold", "there is no engine", "Fix: install one", "fastness doctor"):
        assert words in text

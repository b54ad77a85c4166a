"""Lanes: what runs beside what, what is tried once more, and what becomes of attacks whose lane has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fastness.attack import lanes
from fastness.attack.lane import Came, Lane
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Outcome, Verdict
from fastness.tier import Guarantee

TIERS = ("wasm", "worker")


def make(name: str, **more: Any) -> Attack:
    def attempt(arena: Any) -> Effect:
        raise NotImplementedError

    tiers = {tier: Expect(Layer.ABSENT) for tier in TIERS}
    return Attack(f"family.{name}", Claim(Guarantee.WALL_KILL, "It ends."), tiers, attempt, attempt, **more)


def tasks(*attacks: Attack) -> list[lanes.Task]:
    return [(attack, "somewhere", TIERS) for attack in attacks]


class Office:
    """Starts lanes that answer by a script, and knows which of them were at work at once."""

    def __init__(self, answers: Callable[[Attack, str], Verdict | Exception]) -> None:
        self.answers = answers
        self.started = self.closed = self.interrupted = 0
        self.working: list[str] = []
        self.beside: dict[str, set[str]] = {}
        self.lock = threading.Lock()

    def start(self) -> Any:
        self.started += 1
        return Scripted(self)


class Scripted:
    def __init__(self, office: Office) -> None:
        self.office = office

    def tried(self, attack: Attack, module: str, tiers: tuple[str, ...]) -> Iterator[Outcome]:
        office = self.office
        with office.lock:
            office.working.append(attack.id)
            for one in office.working:
                office.beside.setdefault(one, set()).update(office.working)
        try:
            for tier in tiers:
                threading.Event().wait(0.01)
                answer = office.answers(attack, tier)
                if isinstance(answer, Exception):
                    raise answer
                yield Outcome(attack, tier, answer, detail="" if answer.good else "a reason")
        finally:
            with office.lock:
                office.working.remove(attack.id)

    def interrupt(self) -> None:
        self.office.interrupted += 1

    def close(self) -> None:
        self.office.closed += 1


def run(office: Office, attacks: list[Attack], count: int = 3) -> tuple[list[Outcome], list[Outcome]]:
    shown: list[Outcome] = []
    with Lane() as lane:
        return lanes.run(tasks(*attacks), lane, count, shown.append, office.start), shown


def test_every_attack_comes_once_from_every_tier_in_order() -> None:
    """However lanes share the work, nothing is left out and nothing is there twice."""
    attacks = [make(f"a{number}", slow=number == 7) for number in range(10)]
    office = Office(lambda attack, tier: Verdict.HELD)
    found, shown = run(office, attacks)
    assert [(one.attack.id, one.tier) for one in found] == [(each.id, tier) for each in attacks for tier in TIERS]
    assert len(shown) == 20
    assert office.started == office.closed == 3


def test_what_must_be_alone_has_nothing_beside_it() -> None:
    """An attack that looks at the whole machine runs when all lanes but its own have ended."""
    attacks = [make("a"), make("whole", alone=True), *(make(f"b{number}") for number in range(8))]
    office = Office(lambda attack, tier: Verdict.HELD)
    found, _ = run(office, attacks)
    assert office.beside["family.whole"] == {"family.whole"}
    assert any(len(others) > 1 for others in office.beside.values())
    assert found[2].attack.id == "family.whole"


@pytest.mark.parametrize("verdict", [Verdict.VOID, Verdict.UNEXPECTED])
def test_what_is_doubtful_is_tried_once_more_by_itself(verdict: Verdict) -> None:
    """The second time counts, says that it is one, and is not beside anything."""
    times: list[str] = []

    def answers(attack: Attack, tier: str) -> Verdict:
        if attack.id == "family.odd" and tier == "wasm":
            times.append(tier)
            return verdict if len(times) == 1 else Verdict.HELD
        return Verdict.HELD

    office = Office(answers)
    found, shown = run(office, [make("odd"), *(make(f"b{number}") for number in range(6))])
    (odd,) = [one for one in found if one.before]
    assert (odd.attack.id, odd.tier, odd.verdict) == ("family.odd", "wasm", Verdict.HELD)
    assert odd.before == f"{verdict.value}: a reason"
    assert [one for one in shown if one.attack.id == "family.odd" and one.tier == "wasm"] == [odd]
    assert len(times) == 2


def test_what_is_doubtful_twice_is_so() -> None:
    """A second time is not asked for a third."""
    asked: list[str] = []

    def answers(attack: Attack, tier: str) -> Verdict:
        asked.append(tier)
        return Verdict.VOID

    found, _ = run(Office(answers), [make("odd")])
    assert [one.verdict for one in found] == [Verdict.VOID] * 2
    assert len(asked) == 4


def test_what_escaped_is_not_tried_again() -> None:
    """No second time takes an escape back."""
    asked: list[str] = []

    def answers(attack: Attack, tier: str) -> Verdict:
        asked.append(tier)
        return Verdict.ESCAPED if len(asked) == 1 else Verdict.HELD

    found, _ = run(Office(answers), [make("a")], count=2)
    assert [one.verdict for one in found] == [Verdict.ESCAPED, Verdict.HELD]
    assert len(asked) == 2


def test_a_lane_that_ends_takes_no_other_attack_with_it() -> None:
    """What it was at has not been stopped as stated; another lane goes on with the rest."""

    def answers(attack: Attack, tier: str) -> Verdict | Exception:
        return lanes.Silent("it ended") if attack.id == "family.deadly" and tier == "worker" else Verdict.HELD

    office = Office(answers)
    found, _ = run(office, [make("deadly"), *(make(f"b{number}") for number in range(6))], count=2)
    bad = [one for one in found if not one.verdict.good]
    assert [(one.attack.id, one.tier, one.verdict) for one in bad] == [("family.deadly", "worker", Verdict.UNEXPECTED)]
    assert "it ended" in bad[0].detail
    assert office.closed == office.started


def test_a_lane_that_leaves_a_tier_out_is_no_pass() -> None:
    """Where nothing comes of a tier, that is said; it is not taken for held."""

    class Forgetful(Scripted):
        def tried(self, attack: Attack, module: str, tiers: tuple[str, ...]) -> Iterator[Outcome]:
            return super().tried(attack, module, tiers[:-1])

    office = Office(lambda attack, tier: Verdict.HELD)
    office.start = lambda: Forgetful(office)  # type: ignore[method-assign]  # a lane of another kind
    found, _ = run(office, [make("a")], count=2)
    assert [one.verdict for one in found] == [Verdict.HELD, Verdict.UNEXPECTED]


def test_an_interrupt_ends_every_lane() -> None:
    """Ctrl-C while outcomes are waited for interrupts and closes all of them, and is raised."""
    office = Office(lambda attack, tier: Verdict.HELD)

    def each(outcome: Outcome) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Lane() as lane:
        lanes.run(tasks(*(make(f"b{number}") for number in range(50))), lane, 3, each, office.start)
    assert office.closed == office.started
    assert office.interrupted
    assert not office.working


@pytest.mark.parametrize(
    "change", [{"id": "family.other"}, {"tier": "isolated"}, {"verdict": "fine"}], ids=["attack", "tier", "verdict"]
)
def test_a_lane_speaks_of_what_it_was_asked(change: dict[str, str]) -> None:
    """An outcome of another attack, of a tier that it is not for, or of no verdict, is none."""
    told = Came("family.a", "wasm", "held", "absent", "", "", "", 0.1, 0.1)
    assert told.outcome(make("a")).verdict is Verdict.HELD
    changed = Came(**{**{name: getattr(told, name) for name in told.__struct_fields__}, **change})
    with pytest.raises(ValueError, match=r"asked for|not a valid"):
        changed.outcome(make("a"))


def test_few_tries_are_worth_no_more_than_one_lane() -> None:
    """Each lane starts guests of every tier; what was asked for by number is taken as it is."""
    few = tasks(*(make(f"b{number}") for number in range(3)))
    many = tasks(*(make(f"b{number}") for number in range(500)))
    assert lanes.how_many(few, None) == 1
    assert lanes.how_many(few, 3) == 3
    assert 1 < lanes.how_many(many, None) <= lanes.MOST
    assert lanes.how_many([], None) == 1

"""
Which attacks are behind which sentence, and what is wrong with that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fastness.attack.boundaries.failures import FAILURES
from fastness.attack.boundaries.guarantees import BOUNDARIES
from fastness.attack.boundaries.model import Breach, Limit
from fastness.attack.boundaries.questions import QUESTIONS
from fastness.attack.boundaries.rules import RULES
from fastness.attack.boundaries.tiers import LIMITS
from fastness.attack.model import Attack, Layer, Rule
from fastness.attack.rows import Row
from fastness.backends.registry import SERVED
from fastness.tier import Guarantee, Tier

#: Tiers of this version, weakest first.
TIERS = tuple(sorted((tier.value for tier in SERVED), key=lambda name: (Tier(name).strength, name)))

#: Tiers in which, taken together, every rule of the broker is tried.
_OF_RULES = {Tier.ISOLATED.value, Tier.WASM.value}


@dataclasses.dataclass(frozen=True, slots=True)
class Backed:
    """A breach, for one tier or for all where it is a rule's, with the ids of the attacks behind it."""

    of: Guarantee | Rule
    breach: Breach
    attacks: tuple[str, ...]


def shipped(attacks: Iterable[Attack]) -> list[Attack]:
    """Those of this package's own corpus; others prove nothing to whoever does not have them."""
    return [one for one in attacks if one.attack.__module__.startswith("fastness.attack.corpus.")]


def is_test(name: str) -> bool:
    """Whether a name is that of a file of tests, and not of an attack."""
    return name.startswith("tests/")


def breaches(tier: str, attacks: Sequence[Attack]) -> Iterator[Backed]:
    """Of each guarantee of a tier, in their order."""
    tried = [one for one in attacks if tier in one.tiers and one.tiers[tier].layer is not Layer.NOTHING]
    for boundary in BOUNDARIES:
        if boundary.of in Tier(tier).guarantees:
            said = [one for one in boundary.breaches if not one.tiers or tier in one.tiers]
            yield from _backed(boundary.of, said, tried)


def rules(attacks: Sequence[Attack]) -> Iterator[Backed]:
    """Of each rule, whatever the tier."""
    for boundary in RULES:
        yield from _backed(boundary.of, boundary.breaches, attacks)


def _backed(of: Guarantee | Rule, said: Sequence[Breach], attacks: Sequence[Attack]) -> Iterator[Backed]:
    ids = [one.id for one in attacks if one.claim.guarantee is of]
    for breach in said:
        if breach.attacks:
            found = [name for name in ids if breach.names(name)]
        else:
            found = [name for name in ids if not any(other.names(name) for other in said)]
        yield Backed(of, breach, tuple(found))


def limits(tier: str, attacks: Sequence[Attack]) -> list[tuple[str, Limit, tuple[str, ...]]]:
    """
    What a tier does not stop: beside which guarantee, in which words, and shown by which attacks.

    Attacks that are allowed and that no sentence names have sentences of their own.
    """
    shown = {one.id: one for one in attacks if tier in one.tiers and one.tiers[tier].layer is Layer.NOTHING}
    found = list(_said(tier))
    named = {name for _, limit in found for name in limit.shown}
    for name, attack in shown.items():
        if name not in named:
            found.append((attack.claim.guarantee.value, Limit(attack.tiers[tier].says, shown=(name,))))
    return [(of, limit, tuple(name for name in limit.shown if name in shown)) for of, limit in found]


def _said(tier: str) -> Iterator[tuple[str, Limit]]:
    """What is said not to be stopped, and beside which guarantee."""
    yield from (("", limit) for limit in LIMITS[Tier(tier)])
    for boundary in BOUNDARIES:
        promised = boundary.of in Tier(tier).guarantees
        for limit in boundary.limits:
            if tier in limit.tiers if limit.tiers else promised:
                yield boundary.of.value, limit


# what is wrong


def faults(attacks: Sequence[Attack], held: Mapping[str, Sequence[Row]], tiers: Sequence[str] = TIERS) -> list[str]:
    """
    What is wrong with the sentences, the attacks and the rows of what came of them, on ``tiers``; empty for nothing.

    A breach needs an attack that held, or where it is tried instead; an attack needs a breach; a limit is shown by
    attacks that are allowed, and an attack that is allowed is behind a limit.
    """
    good = {tier: {row.id for row in held.get(tier, ()) if row.good} for tier in tiers}
    wrong = [*_unknown(attacks), *_unmatched(attacks, held, tiers)]
    for tier in tiers:
        said = list(breaches(tier, attacks))
        missing = Tier(tier).guarantees - {one.of for one in said}
        wrong += (f"{tier}: no sentence says what would break {guarantee.value}" for guarantee in sorted(missing))
        wrong += _unbacked(tier, said, good[tier])
        wrong += _homeless(tier, said, attacks)
        wrong += (
            f"{tier}: nothing shows and nothing explains: {limit.says}"
            for _, limit, ids in limits(tier, attacks)
            if not good[tier].intersection(ids) and not limit.why
        )
    everywhere = set().union(*good.values())
    here = {one.id for one in attacks if not one.tiers.keys().isdisjoint(tiers)}
    named = [(one.what, name) for rows in FAILURES.values() for one in rows for name in one.tried]
    wrong += (f"{name} has not held: {what}" for what, name in named if name in here and name not in everywhere)
    if set(tiers) >= _OF_RULES:
        wrong += _unbacked("the broker", list(rules(attacks)), everywhere)
        wrong += (f"no sentence says what would break {rule.value}" for rule in set(Rule) - {one.of for one in RULES})
    return wrong


def _unbacked(where: str, said: Sequence[Backed], good: set[str]) -> Iterator[str]:
    for one in said:
        if good.intersection(one.attacks):
            if where in one.breach.elsewhere:
                yield f"{where}: {one.of.value} is attacked by now, so it is not tried elsewhere: {one.breach.says}"
        elif where not in one.breach.elsewhere:
            yield f"{where}: {one.of.value}: no attack that held is behind: {one.breach.says}"


def _homeless(tier: str, said: Sequence[Backed], attacks: Sequence[Attack]) -> Iterator[str]:
    for attack in attacks:
        expect = attack.tiers.get(tier)
        if expect is None or expect.layer is Layer.NOTHING or isinstance(attack.claim.guarantee, Rule):
            continue
        count = sum(attack.id in one.attacks for one in said)
        if count != 1:
            yield f"{tier}: {attack.id} is behind {count} sentences of {attack.claim.guarantee.value}, not one"


def _unknown(attacks: Sequence[Attack]) -> Iterator[str]:
    """Names in sentences that are not those of attacks that could be behind them."""
    of = {one.id: one for one in attacks}
    families = {one.family for one in attacks}
    for boundary in (*BOUNDARIES, *RULES):
        for name in (name for breach in boundary.breaches for name in breach.attacks):
            if name.endswith(".*"):
                known = name[:-2] in families
            else:
                known = name in of and of[name].claim.guarantee is boundary.of
            if not known:
                yield f"{boundary.of.value}: no attack on it is called {name}"
    for tier in TIERS:
        for name in (name for _, limit in _said(tier) for name in limit.shown):
            expect = of[name].tiers.get(tier) if name in of else None
            if expect is None or expect.layer is not Layer.NOTHING:
                yield f"{tier}: no attack called {name} is allowed there"
    said = [(question.asked, name) for question in QUESTIONS for name in question.attacks]
    said += [(failure.what, name) for rows in FAILURES.values() for failure in rows for name in failure.tried]
    for text, name in said:
        if not is_test(name) and name not in of:
            yield f"no attack is called {name}: {text}"


def _unmatched(attacks: Sequence[Attack], held: Mapping[str, Sequence[Row]], tiers: Sequence[str]) -> Iterator[str]:
    """Attacks without a row, and rows that are not what attacks say."""
    for tier in tiers:
        rows = {row.id: row for row in held.get(tier, ())}
        tried = {one.id: one for one in attacks if tier in one.tiers}
        for name in sorted({*rows, *tried}):
            row, attack = rows.get(name), tried.get(name)
            if attack is None:
                yield f"{tier}: a row for {name}, which is no attack there"
            elif row is None:
                yield f"{tier}: no row for {name}"
            elif (row.guarantee, row.says) != (
                attack.claim.guarantee.value,
                attack.tiers[tier].says or attack.claim.says,
            ):
                yield f"{tier}: the row of {name} says something else than the attack"
            elif row.allowed != (attack.tiers[tier].layer is Layer.NOTHING) and row.good:
                yield f"{tier}: the row of {name} was made when it was expected to end otherwise"

"""Which sentences an attack comes to stand behind, by what it says of itself alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fastness.attack import registry
from fastness.attack.boundaries import behind
from fastness.attack.boundaries.model import Breach, Limit
from fastness.attack.boundaries.page import page, told
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule, allowed
from fastness.attack.rows import Row
from fastness.tier import Guarantee, Tier

ATTACKS = behind.shipped(registry.load())


def _try(arena: Any) -> Effect:
    return Effect(False, "nothing happened")


def made(name: str, of: Guarantee | Rule, **tiers: Expect) -> Attack:
    return Attack(name, Claim(of, "Nothing new happens."), tiers, _try, _try)


def held(attacks: list[Attack]) -> dict[str, list[Row]]:
    """Rows as if each had come to what is said of it."""
    found: dict[str, list[Row]] = {}
    for one in attacks:
        for tier, expect in one.tiers.items():
            row = Row(one.claim.guarantee.value, one.id, expect.says or one.claim.says, expect.layer.value)
            found.setdefault(tier, []).append(row)
    return found


def section(tier: str, text: str) -> str:
    return text.split(f"\n## `{tier}`\n")[1].split("\n## ", maxsplit=1)[0]


def test_a_new_attack_lands_by_its_own_fields() -> None:
    """Behind the sentence of its guarantee that takes what no other names, in its tiers and in no other."""
    new = made("kernel.new_call", Guarantee.SYSCALL_FILTERED, isolated=Expect(Layer.FILTER))
    every = [*ATTACKS, new]
    assert behind.faults(every, held(every)) == []
    text = page(every)
    assert "`kernel.new_call`" in section("isolated", text)
    assert text.count("`kernel.new_call`") == 1


def test_a_family_that_is_named_takes_new_ones() -> None:
    """A sentence may name a family, so that a new attack of it needs no edit either."""
    every = [*ATTACKS, made("state.new_place", Guarantee.ADDRESS_SPACE, wasm=Expect(Layer.FRESH))]
    (found,) = [one for one in behind.breaches("wasm", every) if "state.new_place" in one.attacks]
    assert found.breach.says == "Guest code reads what another run or tenant left."


def test_a_rule_takes_an_attack_of_any_tier() -> None:
    """What the broker keeps to is one list."""
    every = [*ATTACKS, made("broker.new_way", Rule.OWNED, confined=Expect(Layer.HOST))]
    assert behind.faults(every, held(every)) == []
    assert page(every).count("`broker.new_way`") == 1


def test_what_is_allowed_says_its_own_sentence() -> None:
    """It stands among what is no vulnerability, in the words of the tier, and behind no breach."""
    new = made("files.new_sight", Guarantee.FS_CONFINED, isolated=allowed("A guest sees something."))
    every = [*ATTACKS, new]
    assert behind.faults(every, held(every)) == []
    assert "| FS_CONFINED | A guest sees something. | shown by `files.new_sight` |" in section("isolated", page(every))
    assert all("files.new_sight" not in one.attacks for one in behind.breaches("isolated", every))


def test_an_attack_without_a_sentence_is_found() -> None:
    """Of a guarantee that the tier does not promise there is none."""
    every = [*ATTACKS, made("files.new_one", Guarantee.OWN_ROOT, confined=Expect(Layer.LANDLOCK))]
    assert behind.faults(every, held(every)) == ["confined: files.new_one is behind 0 sentences of OWN_ROOT, not one"]


def test_an_attack_that_is_gone_is_missed() -> None:
    """By the sentences that name it, by those that rest on it alone, and by its row."""
    rest = [one for one in ATTACKS if one.id != "output.terminal_escapes"]
    wrong = behind.faults(rest, held(ATTACKS))
    assert "OUTPUT_CAP: no attack on it is called output.terminal_escapes" in wrong
    assert "wasm: a row for output.terminal_escapes, which is no attack there" in wrong
    assert any(line.startswith("wasm: OUTPUT_CAP: no attack that held is behind: A terminal acts") for line in wrong)


def test_rows_that_say_something_else_are_found() -> None:
    """A claim that was edited, and one that was tried when it was expected to end otherwise."""
    rows = held(ATTACKS)
    (at,) = [index for index, row in enumerate(rows["wasm"]) if row.id == "wasi.sockets"]
    right = rows["wasm"][at]
    rows["wasm"][at] = dataclasses.replace(right, says="Something else.")
    assert behind.faults(ATTACKS, rows) == ["wasm: the row of wasi.sockets says something else than the attack"]
    rows["wasm"][at] = dataclasses.replace(right, by="nothing")
    wrong = behind.faults(ATTACKS, rows)
    assert wrong == ["wasm: the row of wasi.sockets was made when it was expected to end otherwise"]


@pytest.mark.parametrize("tier", behind.TIERS)
def test_a_tiers_part_has_each_sentence_of_the_page(tier: str) -> None:
    """What ``fastness explain`` shows is what the page says of the tier."""
    part = section(tier, page(ATTACKS))
    shown = "\n".join(told(tier, ATTACKS))
    said = [one.breach.says for one in behind.breaches(tier, ATTACKS)]
    said += [limit.says for _, limit, _ in behind.limits(tier, ATTACKS)]
    assert len(said) > len(Tier(tier).guarantees)
    for text in said:
        assert text in part
        assert text in shown


def test_sentences_are_sentences() -> None:
    """And what is not stopped is shown or explained."""
    with pytest.raises(ValueError, match="not a sentence"):
        Breach("something happens")
    with pytest.raises(ValueError, match="neither shown nor explained"):
        Limit("Something happens.")
    with pytest.raises(ValueError, match="in a sentence"):
        allowed("something happens")
    with pytest.raises(ValueError, match="in a sentence"):
        Expect(Layer.ABSENT, says="Something happens.")

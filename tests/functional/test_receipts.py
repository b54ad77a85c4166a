"""What a result lists as proven is what the probes proved that doctor shows: a receipt, and not a promise by name."""

from __future__ import annotations

import json

import pytest

import fastness
import house
from fastness.cli.main import main

NEEDS = {"wasm": "python guest", "worker": "worker tier", "confined": "confined tier", "isolated": "isolated tier"}


@pytest.mark.parametrize("tier", NEEDS)
def test_a_result_is_the_receipt_of_the_probes(tier: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same guarantees, each with the proof behind it, and at least the tier's; layers name what kept them."""
    house.require(NEEDS[tier])
    assert main(["doctor", "--tier", tier, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["tiers"][tier]
    with fastness.Sandbox(tier=tier) as box:
        result = box.run("1")
    assert set(result.guarantees) == set(shown["guarantees"])
    assert set(result.guarantees) == {proof["guarantee"] for proof in shown["proofs"]}
    assert all(proof["observed"] for proof in shown["proofs"])
    assert {one.value for one in fastness.Tier(tier).guarantees} <= set(result.guarantees)
    assert set(result.guarantees) <= set(result.layers)


def test_what_a_program_goes_without_is_not_on_its_receipt() -> None:
    """A command starts programs, so its result does not list what was proven of guests that start none."""
    for needed in ("isolated tier", "control groups"):
        house.require(needed)
    with fastness.Sandbox(tier="isolated") as box:
        code, program = box.run("1"), box.run(command=["true"])
    assert set(code.guarantees) - set(program.guarantees) == {fastness.Guarantee.NO_EXEC}
    assert fastness.Guarantee.NO_EXEC not in program.layers

"""What a result claims is what was proven of such a run."""

from __future__ import annotations

import anyio

from fastness.testing import FakeBackend, fake_sandbox
from fastness.tier import Guarantee


def test_a_command_is_not_said_to_start_no_program() -> None:
    """NO_EXEC is proven of guests that start nothing, and is left out where programs are what was asked for."""

    async def both() -> tuple[set[str], set[str]]:
        async with fake_sandbox(FakeBackend()) as box:
            code, command = await box.run("1"), await box.run(command=["true"])
        return set(code.guarantees), set(command.guarantees)

    code, command = anyio.run(both)
    assert code - command == {Guarantee.NO_EXEC.value}

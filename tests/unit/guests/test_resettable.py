"""A guest's module may be reset through its memory only where memory is its whole state."""

from __future__ import annotations

import pytest

from fastness._wasi import binding, guests, resettable
from fastness._wasi.wasmbin import InvalidModule

LIBRARY = binding.load(binding.find_library())

GOOD = "(module (memory 1) (global $sp (mut i32) (i32.const 65536)) (global i32 (i32.const 7)) (table 2 2 funcref))"


def check(text: str) -> None:
    resettable.check(binding.wat2wasm(LIBRARY, text))


def test_one_stack_pointer_is_fine() -> None:
    """One mutable i32, constants beside it, and a table that cannot grow."""
    check(GOOD)


@pytest.mark.parametrize(
    "text",
    [
        "(module (memory 1))",
        "(module (global (mut i32) (i32.const 1)) (global (mut i32) (i32.const 2)))",
        "(module (global (mut i64) (i64.const 1)))",
        '(module (global (export "sp") (mut i32) (i32.const 1)))',
        "(module (global (mut i32) (i32.const 1)) (table 2 3 funcref))",
        "(module (global (mut i32) (i32.const 1)) (table 2 funcref))",
        "(module (func $f) (elem declare func $f) (global (mut i32) (i32.const 1)) (global funcref (ref.func $f)))",
    ],
    ids=["none", "two", "wide", "exported", "table that grows", "table without end", "reference"],
)
def test_more_state_than_memory_is_refused(text: str) -> None:
    """Anything else that a run could change and a reset would not put back."""
    with pytest.raises(InvalidModule):
        check(text)


@pytest.mark.parametrize("name", sorted(guests.GUESTS))
def test_shipped_guests_are_resettable(name: str) -> None:
    """The artefacts of the catalogue themselves."""
    guest = guests.get(name)
    with open(guests.open_verified(guest, guest.code), "rb") as stream:
        resettable.check(stream.read())

"""The binding to QuickJS: what the artefact must be like, and a guest that lies to the driver."""

from __future__ import annotations

import ctypes
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

import house
from fastness._wasi import guest_javascript as driver
from fastness._wasi import guests, quickjs, wasmbin


@pytest.mark.parametrize(
    ("code", "may_be"),
    [
        (b"import x from 'y'", True),
        (b"1;\n  export const a = 1", True),
        (b"import{a}from'b'", True),
        (b"export{a}", True),
        (b"await import('x')", False),
        (b"import('x')", False),
        (b"import.meta", False),
        (b"exports.a = 1", False),
        (b"let important = 1", False),
    ],
)
def test_which_code_may_be_a_module(code: bytes, may_be: bool) -> None:
    """Only code that a script cannot be is tried as a module."""
    assert driver._may_be_module(code) is may_be


def test_the_artefact_can_be_an_image() -> None:
    """Memory is the guest's whole state: one mutable global (the stack pointer), and a table that cannot grow."""
    house.require("javascript guest")
    fd = guests.open_verified(guests.JAVASCRIPT, guests.JAVASCRIPT.code)
    with open(fd, "rb") as file:
        data = file.read()
    found = {section: data[start:end] for section, start, end in wasmbin.sections(data) if section}
    reader = wasmbin.Reader(found[wasmbin.GLOBAL])
    mutable = 0
    for _ in range(reader.u32()):
        assert reader.byte() == 0x7F  # i32
        mutable += reader.byte()
        assert reader.byte() == 0x41  # i32.const
        reader.skip_leb(5)
        assert reader.byte() == 0x0B
    assert mutable == 1
    table = wasmbin.Reader(found[wasmbin.TABLE])
    assert (table.u32(), table.byte(), table.byte()) == (1, 0x70, 1)
    assert table.u32() == table.u32()


class _Liar:
    """An instance whose exports answer whatever the test says, over a small memory."""

    def __init__(self, size: int = 4096, **answers: int) -> None:
        self._memory = ctypes.create_string_buffer(size)
        self._base = ctypes.addressof(self._memory)
        self._size = size
        self._answers = answers

    def base(self) -> int:
        return self._base

    def size(self) -> int:
        return self._size

    def call(self, name: bytes, *args: int) -> int:
        return self._answers.get(name.decode(), 0)

    def call_raw(self, name: bytes, args: tuple[int, ...]) -> list[int]:
        value = self._answers.get(name.decode(), 0)
        return [value & 0xFFFFFFFF, value >> 32]

    def put(self, address: int, data: bytes) -> None:
        ctypes.memmove(self._base + address, data, len(data))


def _interpreter(instance: _Liar) -> quickjs.Interpreter:
    return quickjs.Interpreter(instance, {"context": 64, "runtime": 64, "scratch": 128})  # type: ignore[arg-type]  # stands in


@pytest.mark.parametrize(
    ("address", "size", "refused"),
    [(4000, 96, False), (4000, 97, True), (2**32 - 1, 4, True), (4096, 1, True), (8, 2**32 - 1, False)],
)
def test_an_answer_outside_memory_is_refused(address: int, size: int, refused: bool) -> None:
    """Address and length of an answer are the guest's words: nothing outside its memory is read."""
    liar = _Liar(JS_ToCStringLen2=address)
    liar.put(128, struct.pack("<I", size))
    if refused:
        with pytest.raises(RuntimeError, match="outside"):
            _interpreter(liar).text(0)
    else:
        assert len(_interpreter(liar).text(0)) == (size if size < 4096 else 0)


def test_a_request_is_not_written_outside_memory() -> None:
    """An allocator that hands out an address at the end of memory does not make the host write past it."""
    with pytest.raises(RuntimeError, match="outside"):
        _interpreter(_Liar(malloc=4090)).evaluate(b"1 + 1 + 1", b"<run>", 0)
    assert _interpreter(_Liar(malloc=0)).evaluate(b"1", b"<run>", 0) is None


@given(word=st.integers(1, 2**64 - 1))
def test_the_generators_step(word: int) -> None:
    """One step of the state is a bijection on the non-zero words, computed here from its definition bit by bit."""
    mask = 2**64 - 1
    a = word ^ (word >> 12)
    b = (a ^ (a << 25)) & mask
    assert quickjs._xorshift(word) == (b ^ (b >> 27)) & mask != 0

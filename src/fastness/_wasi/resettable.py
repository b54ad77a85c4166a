"""
What must be true of a guest's module, so that its linear memory alone is its state.

Memory images and reset in place rest on it (see :mod:`fastness._wasi.image`).  It is checked where the module is
compiled, from its bytes: a new version of an artefact that breaks it is not compiled at all.
"""

from __future__ import annotations

from fastness._wasi import wasmbin
from fastness._wasi.wasmbin import InvalidModule, Reader

_I32 = 0x7F
_I32_CONST, _END = 0x41, 0x0B


def check(wasm: bytes) -> None:
    """
    Exactly one mutable global, a number that is not exported: the stack pointer, which every export call that
    returns has put back.  At most one table, of fixed size.  Raises
    :class:`~fastness._wasi.wasmbin.InvalidModule`.

    That no code writes to the table is a property of what C compilers make: they have no instruction for it.
    """
    mutable = 0
    first_exported = -1
    for section, start, end in wasmbin.sections(wasm):
        reader = Reader(wasm, start, end)
        if section == wasmbin.GLOBAL:
            mutable = _mutable_globals(reader)
        elif section == wasmbin.TABLE:
            _fixed_table(reader)
        elif section == wasmbin.EXPORT:
            first_exported = _exported_global(reader)
    if mutable != 1:
        raise InvalidModule(f"it has {mutable} mutable globals; one, the stack pointer, is expected")
    if first_exported >= 0:
        raise InvalidModule("it exports a global")


def _mutable_globals(reader: Reader) -> int:
    found = 0
    for _ in range(reader.count(5)):
        kind, mutable, opcode = reader.byte(), reader.byte(), reader.byte()
        if mutable and kind != _I32:
            raise InvalidModule("a mutable global that is no i32")
        if opcode != _I32_CONST:
            raise InvalidModule("a global that is not a constant number")
        reader.skip_leb(5)
        if reader.byte() != _END:
            raise InvalidModule("a global that is not a constant number")
        found += mutable
    return found


def _fixed_table(reader: Reader) -> None:
    for _ in range(reader.count(3)):
        reader.byte()
        flags = reader.byte()
        least = reader.u32()
        if flags != 1 or reader.u32() != least:
            raise InvalidModule("a table that could grow")


def _exported_global(reader: Reader) -> int:
    for _ in range(reader.count(3)):
        reader.skip(reader.u32())
        kind, index = reader.byte(), reader.u32()
        if kind == 3:
            return index
    return -1

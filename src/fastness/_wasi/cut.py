"""
Removes functions from a trusted module, renumbering the rest, without touching tables or memory.

Table slots keep their numbers, so a memory image (in which function pointers are slots) fits the cut module as it
fits the whole one.  A removed function's slots, and calls to it, go to a stub of the same type, so that calling it
traps as ``unreachable`` and never as a wrong signature.

Instructions are scanned, not decoded: one regular expression steps over everything that has no function index in
it.  Every body must scan exactly to its end, or the cut is refused; the artefact is pinned by digest, so what was
scanned correctly once always is.  Source: WebAssembly Core Specification 2.0, 5.4, and the exception proposal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fastness._wasi import wasmbin
from fastness._wasi.wasmbin import InvalidModule, Reader, uleb

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

_CALL, _RETURN_CALL, _REF_FUNC, _BR_TABLE, _TRY_TABLE = 0x10, 0x12, 0xD2, 0x0E, 0x1F

#: Instructions that one match steps over at most.
_STEPS = 5000

_LEB = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
#: One instruction without a function index, by what follows its opcode.
_INSTRUCTION = (
    rb"[\x20-\x26\x41\x42\x0c\x0d\x02-\x04\x08\x3f\x40\xd0]" + _LEB,
    rb"[\x00\x01\x05\x0a\x0b\x0f\x1a\x1b\x45-\xc4\xd1]",
    rb"[\x28-\x3e\x11]" + _LEB + _LEB,
    rb"\x44[\x00-\xff]{8}",
    rb"\x43[\x00-\xff]{4}",
    rb"\x1c\x01[\x00-\xff]",
    rb"\xfc(?:[\x00-\x07]|[\x09\x0b\x0d\x0f-\x11]" + _LEB + rb"|[\x08\x0a\x0c\x0e]" + _LEB + _LEB + rb")",
)


def _scanner(unchanged: int) -> re.Pattern[bytes]:
    """
    Steps over instructions up to the next that may need a new index.

    Calls to functions numbered below ``unchanged`` (rounded down to a multiple of 128, and up to 16,384) are stepped
    over, too: they are most calls, and keep their numbers.
    """
    parts = [*_INSTRUCTION]
    if high := min(unchanged >> 7, 0x80):
        # Numbers of one byte, or of two of which the second is below `high`, be they padded to five bytes or not.
        short, padded = high - 1, 0x80 + high - 1
        near = rb"\x10(?:[\x00-\x7f]|[\x80-\xff](?:[\x00-\x%02x]|[\x80-\x%02x]\x80\x80\x00))" % (short, padded)
        parts.insert(2, near)
    # Bounded, because every step is remembered for backtracking that never comes.  A possessive repeat would not need
    # that, but in CPython 3.11 before 3.11.5 it goes wrong with a group in it.
    return re.compile(rb"(?:" + rb"|".join(parts) + rb"){0,%d}" % _STEPS)


class _Numbers:
    """New numbers of functions, imports included; stubs are made as they are asked for."""

    def __init__(self, types: list[int], imports: int, trap: AbstractSet[int], skip: AbstractSet[int]) -> None:
        self.types = types
        self.imports = imports
        self.trap = trap
        self.skip = skip
        self.kept = [k for k in range(len(types)) if k not in trap and k not in skip]
        self._new = {k: number for number, k in enumerate(self.kept)}
        #: (type, whether it returns at once) -> place after the kept functions
        self.stubs: dict[tuple[int, bool], int] = {}

    def of(self, old: int) -> int:
        """The new index of what had index ``old``."""
        if old < self.imports:
            return old
        k = old - self.imports
        if k >= len(self.types):
            raise InvalidModule(f"there is no function {old}")
        new = self._new.get(k)
        if new is None:
            stub = (self.types[k], k in self.skip)
            new = len(self.kept) + self.stubs.setdefault(stub, len(self.stubs))
        return self.imports + new


def drop_functions(data: bytes, trap: AbstractSet[int], skip: AbstractSet[int]) -> bytes:
    """
    The module without the defined functions (numbered from 0 after the imports) of ``trap`` and ``skip``, and
    without custom sections.  Calls to the first kind trap, calls to the second (which have no result) return.

    Raises :class:`~fastness._wasi.wasmbin.InvalidModule` where the module has anything that the cut does not know.
    """
    where = {section: (start, end) for section, start, end in wasmbin.sections(data)}
    imports = wasmbin.imported_functions(data)
    reader = Reader(data, *where[wasmbin.FUNCTION])
    types = [reader.u32() for _ in range(reader.count())]
    numbers = _Numbers(types, imports, trap, skip)
    bodies = _bodies(data, where[wasmbin.CODE], numbers, imports + min(trap | skip))
    parts: list[tuple[int, bytes]] = []
    for section, (start, end) in where.items():
        reader = Reader(data, start, end)
        content = data[start:end]
        if section == wasmbin.ELEMENT:
            content = _elements(reader, numbers)
        elif section == wasmbin.EXPORT:
            content = _exports(reader, numbers)
        elif section == wasmbin.START:
            content = uleb(numbers.of(reader.u32()))
        elif section == wasmbin.GLOBAL:
            _check_globals(reader)
        if section != wasmbin.CUSTOM:
            parts.append((section, content))
    # Only now is it known which stubs are needed.
    stubs = list(numbers.stubs)
    kinds = [types[k] for k in numbers.kept] + [kind for kind, _ in stubs]
    bodies += [wasmbin.BODY_EMPTY if returns else wasmbin.BODY_UNREACHABLE for _, returns in stubs]
    rewritten = {
        wasmbin.FUNCTION: uleb(len(kinds)) + b"".join(map(uleb, kinds)),
        wasmbin.CODE: uleb(len(bodies)) + b"".join(bodies),
    }
    return wasmbin.rebuild((section, rewritten.get(section, content)) for section, content in parts)


def _bodies(data: bytes, span: tuple[int, int], numbers: _Numbers, unchanged: int) -> list[bytes]:
    scan = _scanner(unchanged)
    reader = Reader(data, *span)
    kept = iter(numbers.kept)
    wanted = next(kept, None)
    bodies = []
    for k in range(reader.count(3)):
        begin = reader.pos
        size = reader.u32()
        start = reader.pos
        reader.skip(size)
        if k != wanted:
            continue
        wanted = next(kept, None)
        bodies.append(_body(data, begin, start, reader.pos, scan, numbers))
    return bodies


def _body(data: bytes, begin: int, start: int, end: int, scan: re.Pattern[bytes], numbers: _Numbers) -> bytes:
    """One body with its size, calls renumbered."""
    reader = Reader(data, start, end)
    for _ in range(reader.count(2)):
        reader.u32()
        reader.byte()
    pieces: list[bytes] = []
    copied = start
    while True:
        match = scan.match(data, reader.pos, end)
        assert match is not None  # the pattern matches the empty string
        if match.end() == end:
            reader.pos = end
            break
        if match.end() != reader.pos:
            # It may have ended at the bound of its steps: only an empty match says that an opcode of ours is next.
            reader.pos = match.end()
            continue
        opcode = reader.byte()
        if opcode in (_CALL, _RETURN_CALL, _REF_FUNC):
            place = reader.pos
            old = reader.u32()
            new = numbers.of(old)
            if new != old:
                pieces += (data[copied:place], uleb(new))
                copied = reader.pos
        elif opcode == _BR_TABLE:
            for _ in range(reader.count() + 1):
                reader.u32()
        elif opcode == _TRY_TABLE:
            reader.skip_leb(5)
            for _ in range(reader.count(2)):
                if reader.byte() < 2:
                    reader.u32()
                reader.u32()
        else:
            raise InvalidModule(f"instruction {opcode:#x} at byte {reader.pos - 1} is not known to the cut")
    if data[end - 1] != 0x0B:
        raise InvalidModule(f"the body at byte {start} does not end with `end`")
    if not pieces:
        return data[begin:end]
    pieces.append(data[copied:end])
    body = b"".join(pieces)
    return uleb(len(body)) + body


def _elements(reader: Reader, numbers: _Numbers) -> bytes:
    """Only what linkers emit: active segments of function indices for table 0 at a constant offset."""
    count = reader.count(4)
    out = [uleb(count)]
    for _ in range(count):
        begin = reader.pos
        if reader.byte() != 0 or reader.byte() != 0x41:
            raise InvalidModule("an element segment of another kind than linkers emit")
        reader.skip_leb(5)
        if reader.byte() != 0x0B:
            raise InvalidModule("an element segment whose offset is not a constant")
        out.append(reader.data[begin : reader.pos])
        length = reader.count()
        out.append(uleb(length))
        out += [uleb(numbers.of(reader.u32())) for _ in range(length)]
    reader.done()
    return b"".join(out)


def _exports(reader: Reader, numbers: _Numbers) -> bytes:
    count = reader.count(3)
    out = [uleb(count)]
    for _ in range(count):
        begin = reader.pos
        reader.skip(reader.u32())
        kind = reader.byte()
        out.append(reader.data[begin : reader.pos])
        index = reader.u32()
        out.append(uleb(numbers.of(index) if kind == 0 else index))
    reader.done()
    return b"".join(out)


def _check_globals(reader: Reader) -> None:
    """A global that starts as a reference to a function would need a new index: refuse all but i32 constants."""
    for _ in range(reader.count(5)):
        kind, _mutable, opcode = reader.byte(), reader.byte(), reader.byte()
        if (kind, opcode) != (0x7F, 0x41):
            raise InvalidModule("a global that is not a constant number")
        reader.skip_leb(5)
        if reader.byte() != 0x0B:
            raise InvalidModule("a global that is not a constant number")
    reader.done()

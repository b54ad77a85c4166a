"""
Reads and rewrites the binary format of WebAssembly modules.

Source: WebAssembly Core Specification 2.0, chapter 5 (binary format), and the appendix on the name section.

The reader is used on trusted artefacts (their digests are in our catalogue) and on modules that a user
brought, so every length is checked against what is left before anything is sliced or allocated, every
malformed byte raises :class:`InvalidModule`, and no loop runs longer than the input is long.  The rewriting
functions are for trusted artefacts only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAGIC = b"\0asm\x01\0\0\0"

CUSTOM, TYPE, IMPORT, FUNCTION, TABLE, MEMORY, GLOBAL, EXPORT, START, ELEMENT, CODE, DATA, DATA_COUNT, TAG = range(14)

#: Order in which the known sections must appear (the tag section, of the exception proposal, is 13).
SECTION_ORDER = {
    section: rank
    for rank, section in enumerate(
        (TYPE, IMPORT, FUNCTION, TABLE, MEMORY, TAG, GLOBAL, EXPORT, START, ELEMENT, DATA_COUNT, CODE, DATA)
    )
}

_EXPORT_FUNCTION = 0
_NAMES_OF_FUNCTIONS = 1

#: ``unreachable``, ``end`` with no locals: traps when called, valid under every function type.
BODY_UNREACHABLE = b"\x03\x00\x00\x0b"
#: ``end`` with no locals: returns at once, valid where the function type has no result.
BODY_EMPTY = b"\x02\x00\x0b"


class InvalidModule(ValueError):
    """The bytes are not a WebAssembly module that this reader accepts; the message says where and why."""


class Reader:
    """A cursor over ``data[pos:end]`` that never reads outside it."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes, pos: int = 0, end: int | None = None) -> None:
        self.data = data
        self.pos = pos
        self.end = len(data) if end is None else end

    def byte(self) -> int:
        """The next byte."""
        pos = self.pos
        if pos >= self.end:
            raise InvalidModule(f"unexpected end at byte {pos}")
        self.pos = pos + 1
        return self.data[pos]

    def u32(self) -> int:
        """An unsigned LEB128 number of at most 32 bits (specification 5.2.2)."""
        value = 0
        for shift in (0, 7, 14, 21, 28):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                if value > 0xFFFFFFFF:
                    break
                return value
        raise InvalidModule(f"number is longer than 32 bits at byte {self.pos}")

    def skip_leb(self, most: int) -> None:
        """Step over a LEB128 number of at most ``most`` bytes whose value does not matter."""
        for _ in range(most):
            if not self.byte() & 0x80:
                return
        raise InvalidModule(f"number is too long at byte {self.pos}")

    def skip(self, count: int) -> None:
        """Step over ``count`` bytes."""
        if count > self.end - self.pos:
            raise InvalidModule(f"length {count} at byte {self.pos} passes the end")
        self.pos += count

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        start = self.pos
        self.skip(count)
        return self.data[start : self.pos]

    def count(self, least_size: int = 1) -> int:
        """The length of a vector whose items take at least ``least_size`` bytes each; it must fit what is left."""
        number = self.u32()
        if number * least_size > self.end - self.pos:
            raise InvalidModule(f"{number} items at byte {self.pos} do not fit")
        return number

    def name(self) -> str:
        """A name (specification 5.2.4)."""
        try:
            return self.take(self.u32()).decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidModule(f"name is not UTF-8 at byte {self.pos}") from None

    def done(self) -> None:
        """Refuse bytes after the last item."""
        if self.pos != self.end:
            raise InvalidModule(f"{self.end - self.pos} bytes too many at byte {self.pos}")


def uleb(value: int) -> bytes:
    """Unsigned LEB128."""
    out = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        if not value:
            out.append(byte)
            return bytes(out)
        out.append(byte | 0x80)


def sections(data: bytes) -> Iterator[tuple[int, int, int]]:
    """
    Yield ``(id, start, end)`` of each section's contents, in file order.

    Raises :class:`InvalidModule` for a wrong header (a component has another version), an unknown section, a
    section out of order or given twice, or a length past the end.
    """
    if data[:8] != MAGIC:
        if data[:4] == MAGIC[:4] and data[6:8] == b"\x01\0":
            raise InvalidModule("it is a component, not a core module")
        raise InvalidModule("it does not start as a WebAssembly module of version 1 does")
    reader = Reader(data, 8)
    last = -1
    while reader.pos < reader.end:
        section = reader.byte()
        if section != CUSTOM:
            rank = SECTION_ORDER.get(section)
            if rank is None:
                raise InvalidModule(f"unknown section {section}")
            if rank <= last:
                raise InvalidModule(f"section {section} is out of order")
            last = rank
        size = reader.u32()
        start = reader.pos
        reader.skip(size)
        yield section, start, reader.pos


def rebuild(parts: Iterable[tuple[int, bytes]]) -> bytes:
    """A module of the given sections."""
    out = [MAGIC]
    for section, content in parts:
        out += (bytes((section,)), uleb(len(content)), content)
    return b"".join(out)


def strip_custom(data: bytes) -> bytes:
    """The module without its custom sections: names, producers, debug information."""
    return rebuild((s, data[a:b]) for s, a, b in sections(data) if s != CUSTOM)


def _imported_functions(data: bytes, start: int, end: int) -> int:
    """How many functions the import section brings; they come first in the index space."""
    reader = Reader(data, start, end)
    functions = 0
    for _ in range(reader.count(4)):
        reader.skip(reader.u32())
        reader.skip(reader.u32())
        kind = reader.byte()
        if kind == 0:
            functions += 1
            reader.u32()
        elif kind == 1:
            reader.byte()
            _skip_limits(reader)
        elif kind == 2:
            _skip_limits(reader)
        elif kind == 3:
            reader.skip(2)
        elif kind == 4:
            reader.byte()
            reader.u32()
        else:
            raise InvalidModule(f"unknown import kind {kind}")
    return functions


def _skip_limits(reader: Reader) -> None:
    flags = reader.byte()
    reader.u32()
    if flags & 1:
        reader.u32()


def imported_functions(data: bytes) -> int:
    """How many functions the module imports."""
    for section, start, end in sections(data):
        if section == IMPORT:
            return _imported_functions(data, start, end)
    return 0


def function_names(data: bytes) -> dict[int, str]:
    """Names of functions by index (imports first), from the ``name`` section; empty where there is none."""
    names: dict[int, str] = {}
    for section, start, end in sections(data):
        if section != CUSTOM:
            continue
        reader = Reader(data, start, end)
        if reader.name() != "name":
            continue
        while reader.pos < end:
            part = reader.byte()
            size = reader.u32()
            stop = reader.pos + size
            if part != _NAMES_OF_FUNCTIONS:
                reader.skip(size)
                continue
            if stop > end:
                raise InvalidModule("the name section's parts pass its end")
            _read_names(Reader(data, reader.pos, stop), names)
            reader.pos = stop
    return names


def _read_names(reader: Reader, names: dict[int, str]) -> None:
    for _ in range(reader.count(2)):
        index = reader.u32()
        names[index] = reader.take(reader.u32()).decode("utf-8", "replace")


def add_exports(data: bytes, names: Iterable[str]) -> bytes:
    """
    Export internal functions under their names of the name section.

    Raises :class:`InvalidModule` where a name is absent or there is no export section.
    """
    wanted = tuple(names)
    if not wanted:
        return data
    index_of = {name: index for index, name in reversed(function_names(data).items())}
    missing = [name for name in wanted if name not in index_of]
    if missing:
        raise InvalidModule(f"no function is called {', '.join(missing)}")
    extra = b"".join(
        uleb(len(name.encode())) + name.encode() + bytes((_EXPORT_FUNCTION,)) + uleb(index_of[name]) for name in wanted
    )
    parts = []
    found = False
    for section, start, end in sections(data):
        content = data[start:end]
        if section == EXPORT:
            found = True
            reader = Reader(data, start, end)
            count = reader.u32()
            content = uleb(count + len(wanted)) + data[reader.pos : end] + extra
        parts.append((section, content))
    if not found:
        raise InvalidModule("there is no export section")
    return rebuild(parts)


def body_sizes(data: bytes) -> list[int]:
    """Bytes of each defined function's body, in order."""
    for section, start, end in sections(data):
        if section == CODE:
            reader = Reader(data, start, end)
            sizes = []
            for _ in range(reader.count(3)):
                size = reader.u32()
                reader.skip(size)
                sizes.append(size)
            return sizes
    return []


def types_without_result(data: bytes) -> frozenset[int]:
    """Defined functions (numbered from 0 after the imports) whose type has no result."""
    void: list[bool] = []
    for section, start, end in sections(data):
        reader = Reader(data, start, end)
        if section == TYPE:
            for _ in range(reader.count(3)):
                if reader.byte() != 0x60:
                    raise InvalidModule("only plain function types are understood")
                reader.skip(reader.u32())
                results = reader.u32()
                reader.skip(results)
                void.append(results == 0)
        elif section == FUNCTION:
            kinds = [reader.u32() for _ in range(reader.count())]
            if any(kind >= len(void) for kind in kinds):
                raise InvalidModule("a function has a type that does not exist")
            return frozenset(k for k, kind in enumerate(kinds) if void[kind])
    return frozenset()


def stub_bodies(data: bytes, unreachable: Iterable[int], empty: Iterable[int] = ()) -> bytes:
    """
    Replace bodies of defined functions (numbered from 0 after the imports).

    Those of ``unreachable`` trap when called, those of ``empty`` return at once and must have no result.  Indices,
    types, tables and memory stay as they are, so memory images fit both modules.
    """
    replaced = dict.fromkeys(unreachable, BODY_UNREACHABLE)
    replaced.update(dict.fromkeys(empty, BODY_EMPTY))
    parts = []
    for section, start, end in sections(data):
        content = data[start:end]
        if section == CODE:
            reader = Reader(data, start, end)
            count = reader.count(3)
            bodies = [uleb(count)]
            for k in range(count):
                begin = reader.pos
                reader.skip(reader.u32())
                bodies.append(replaced.get(k) or data[begin : reader.pos])
            content = b"".join(bodies)
        parts.append((section, content))
    return rebuild(parts)

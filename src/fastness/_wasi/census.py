"""
Counts what a user's module declares, before anything is compiled, and holds the counts against caps.

Source: WebAssembly Core Specification 2.0, chapter 5.  Only headers are read, not code; the compiler validates the
rest under its own limits.  Features that are off are refused here by their encoding, with their name.
"""

from __future__ import annotations

from fastness._wasi import wasmbin
from fastness._wasi.preview1 import MODULE, SIGNATURES
from fastness._wasi.wasmbin import InvalidModule, Reader

_PAGE = 65536


class Census:
    """Counts, each imported plus defined; ``memory_bytes`` and ``table_elements`` are initial sizes together."""

    __slots__ = (
        "code_bytes", "data_bytes", "data_segments", "element_segments", "exports", "functions", "globals", "imports",
        "largest_body", "memories", "memory_bytes", "table_elements", "tables", "tags", "types",
    )  # fmt: skip

    def __init__(self) -> None:
        self.types = self.imports = self.functions = self.tables = self.memories = self.globals = self.tags = 0
        self.exports = self.element_segments = self.data_segments = 0
        self.code_bytes = self.largest_body = self.data_bytes = self.memory_bytes = self.table_elements = 0


#: Most of each that a user's module may have.
CAPS = {
    "types": 10_000,
    "imports": 1_000,
    "functions": 200_000,
    "tables": 16,
    "table_elements": 1 << 20,
    "memories": 1,
    "memory_bytes": 4 << 30,
    "globals": 10_000,
    "tags": 0,
    "exports": 10_000,
    "element_segments": 10_000,
    "data_segments": 100_000,
    "code_bytes": 64 << 20,
    "largest_body": 4 << 20,
    "data_bytes": 64 << 20,
}


def check(census: Census) -> None:
    """Raises :class:`~fastness._wasi.wasmbin.InvalidModule` naming the first cap that is passed."""
    for name, cap in CAPS.items():
        have = getattr(census, name)
        if have > cap:
            raise InvalidModule(f"it has {have} {name.replace('_', ' ')}; at most {cap} are allowed")


def count(data: bytes) -> Census:
    """
    Count what ``data`` declares.

    Raises :class:`~fastness._wasi.wasmbin.InvalidModule` for bytes that are not a module, for vectors that do not
    fit their sections, and for memories or tables of kinds that are off.  Takes time in proportion to the input.
    """
    census = Census()
    types: list[bytes] = []
    for section, start, end in wasmbin.sections(data):
        reader = Reader(data, start, end)
        if section == wasmbin.TYPE:
            census.types = reader.count()
            types = _types(reader, census)
        elif section == wasmbin.IMPORT:
            _imports(reader, census, types)
        elif section == wasmbin.FUNCTION:
            census.functions += reader.count()
        elif section == wasmbin.TABLE:
            _tables(reader, census)
        elif section == wasmbin.MEMORY:
            for _ in range(reader.count(2)):
                _memory(reader, census)
            reader.done()
        elif section == wasmbin.GLOBAL:
            census.globals += reader.count(3)
        elif section == wasmbin.TAG:
            census.tags += reader.count(2)
        elif section == wasmbin.EXPORT:
            census.exports = reader.count(3)
        elif section == wasmbin.ELEMENT:
            census.element_segments = reader.count(2)
        elif section == wasmbin.CODE:
            census.code_bytes = end - start
            _bodies(reader, census)
        elif section == wasmbin.DATA:
            census.data_segments = reader.count(2)
            census.data_bytes = end - start
    return census


_VALUES = {"i": b"\x7f", "l": b"\x7e"}


def _types(reader: Reader, census: Census) -> list[bytes]:
    """
    The encodings of function types, up to the first entry that is something else.

    Other entries belong to features that are off, which the compiler refuses.
    """
    found: list[bytes] = []
    if census.types > CAPS["types"]:
        return found
    for _ in range(census.types):
        if reader.byte() != 0x60:
            break
        params = reader.take(reader.u32())
        results = reader.take(reader.u32())
        found.append(params + b"\x00" + results)
    return found


def _preview1_type(name: str) -> bytes:
    params = b"".join(_VALUES[kind] for kind in SIGNATURES[name])
    return params + b"\x00" + (b"" if name == "proc_exit" else b"\x7f")


def _imports(reader: Reader, census: Census, types: list[bytes]) -> None:
    number = reader.count(4)
    census.imports = number
    if number > CAPS["imports"]:
        return
    for _ in range(number):
        module, name = reader.take(reader.u32()), reader.take(reader.u32())
        kind = reader.byte()
        if kind != 0 or module != MODULE or name.decode("utf-8", "replace") not in SIGNATURES:
            shown = f"{module[:64].decode('utf-8', 'replace')}.{name[:64].decode('utf-8', 'replace')}"
            raise InvalidModule(f"it imports {shown!r}; only functions of wasi_snapshot_preview1 exist here")
        index = reader.u32()
        if index < len(types) and types[index] != _preview1_type(name.decode()):
            raise InvalidModule(f"it imports {name.decode()!r} with another type than preview 1 gives it")
        census.functions += 1
    reader.done()


def _tables(reader: Reader, census: Census) -> None:
    number = reader.count(3)
    if number > CAPS["tables"]:
        census.tables += number
        return
    for _ in range(number):
        _table(reader, census)
    reader.done()


def _table(reader: Reader, census: Census) -> None:
    if reader.byte() not in (0x70, 0x6F):
        raise InvalidModule("it has a table of a kind that is off (typed references)")
    least, _ = _limits(reader, "table")
    census.tables += 1
    census.table_elements += least


def _memory(reader: Reader, census: Census) -> None:
    least, _ = _limits(reader, "memory")
    if least > 65536:
        raise InvalidModule("its memory is larger than 4 GiB")
    census.memories += 1
    census.memory_bytes += least * _PAGE


def _limits(reader: Reader, what: str) -> tuple[int, int | None]:
    flags = reader.byte()
    if flags & 4:
        raise InvalidModule(f"it has a 64-bit {what}, which is off")
    if flags & 2:
        raise InvalidModule(f"it has a shared {what} (threads), which is off")
    if flags & ~1:
        raise InvalidModule(f"its {what} has unknown flags {flags:#x}")
    least = reader.u32()
    return least, reader.u32() if flags & 1 else None


def _bodies(reader: Reader, census: Census) -> None:
    for _ in range(reader.count(3)):
        size = reader.u32()
        reader.skip(size)
        census.largest_body = max(census.largest_body, size)
    reader.done()

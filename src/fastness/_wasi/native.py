"""
Takes what a run does not need out of compiled code.

Serialised code is an ELF object (64 bit, little endian) in which wasmtime looks its sections up by name.  The
address map (offsets in the wasm file, for backtraces), the symbols and the copied names serve debuggers only; an
absent section counts as an empty one.  Without them the file is an eighth smaller, and so is what must be hashed at
every start.  Only code that our own compiler process made comes here.
"""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_UNNEEDED = frozenset((b".wasmtime.addrmap", b".name.wasm", b".symtab", b".strtab", b".eh_frame"))
_RELOCATIONS = (4, 9)


def slim(code: bytes) -> bytes:
    """
    The same code without sections that serve debuggers only.

    Raises ``ValueError`` where ``code`` is not laid out as expected: the caller may then keep it as it is.
    """
    if len(code) < _HEADER.size or code[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64 bit little endian ELF object")
    header = list(_HEADER.unpack_from(code))
    start, entry_size, count, names_index = header[6], header[11], header[12], header[13]
    if header[10] or entry_size != _SECTION.size or not 0 < names_index < count:
        raise ValueError("an unexpected ELF header")
    if start + count * entry_size > len(code):
        raise ValueError("the section headers pass the end")
    sections = [list(_SECTION.unpack_from(code, start + k * entry_size)) for k in range(count)]
    names = code[sections[names_index][4] : sections[names_index][4] + sections[names_index][5]]
    keep = []
    for k, section in enumerate(sections):
        if section[1] in _RELOCATIONS:
            # Relocations name symbols: such an object cannot do without its symbol table.
            raise ValueError("the object has relocations")
        name = names[section[0] : names.find(b"\0", section[0])]
        if name not in _UNNEEDED:
            keep.append(k)
    place = {old: new for new, old in enumerate(keep)}
    out = bytearray(_HEADER.size)
    headers = []
    for k in keep:
        section = sections[k]
        if section[1]:
            offset, size, alignment = section[4], section[5], max(1, section[8])
            if offset + size > len(code) or alignment > 1 << 21:
                raise ValueError("a section passes the end")
            out += bytes(-len(out) % alignment)
            section[4] = len(out)
            section[6] = place.get(section[6], 0)
            out += memoryview(code)[offset : offset + size]
        headers.append(_SECTION.pack(*section))
    out += bytes(-len(out) % 8)
    header[6], header[12], header[13] = len(out), len(keep), place[names_index]
    out[: _HEADER.size] = _HEADER.pack(*header)
    for packed in headers:
        out += packed
    return bytes(out)

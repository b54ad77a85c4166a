"""
Chooses the functions that the quick module of the Python guest does without.

The guest is one static binary: CPython and its standard library take a tenth of the code, scientific packages
the rest.  Compiling only the tenth gives a first result within seconds while the whole compiles.  The others
become ``unreachable``: a run that meets one traps, and is run again on the whole module.

The linker placed the objects in order: CPython, then everything from numpy to libxslt, then zlib, the C++ runtime,
lzma, bzip2, sqlite, expat and the C library.  So one cut, between two functions known by name, separates them.
The artefact is pinned by digest; the checks below fail loudly where another build is pinned without a new cut.
"""

from __future__ import annotations

from fastness._wasi import cut, wasmbin

#: First function of numpy's objects, and the first of zlib's, which follow the last package's.
_FIRST_DROPPED = "Dragon4_PrintFloat_IEEE_binary16"
_FIRST_KEPT_AGAIN = "adler32_z"

#: Modules of the standard library whose code must stay, and of packages whose code must go.
_MUST_STAY = (
    "PyInit_zlib", "PyInit__bz2", "PyInit__lzma", "PyInit__sqlite3", "PyInit__asyncio", "PyInit__json",
    "PyInit__datetime", "PyInit__stat", "PyInit_pyexpat", "PyInit__decimal", "PyInit_posix", "PyInit__symtable",
)  # fmt: skip
_MUST_GO = ("PyInit__multiarray_umath", "PyInit_algos", "PyInit_etree", "PyInit__stl", "PyInit__imaging")
#: Of these a build may lack some: an absent extension is imported as its pure Python twin.
_MAY_LACK = frozenset({"PyInit__decimal"})

#: Static destructors of dropped C++ objects, registered with ``atexit`` before the snapshot was taken: they must
#: return rather than trap, or a guest that calls ``exit`` would appear to crash.
_DESTRUCTOR = "__cxx_global_array_dtor"

#: Shares of functions and of code bytes that a sensible cut removes.
_FUNCTIONS_DROPPED = (0.75, 0.95)
_BYTES_DROPPED = (0.85, 0.97)


class StubPlan:
    """Function numbers (from 0 after the imports): ``trap`` become ``unreachable``, ``skip`` return at once."""

    __slots__ = ("bytes_left", "skip", "trap")

    def __init__(self, trap: frozenset[int], skip: frozenset[int], bytes_left: int) -> None:
        self.trap = trap
        self.skip = skip
        self.bytes_left = bytes_left


def plan(wasm: bytes) -> StubPlan:
    """
    Where to cut ``wasm``, a trusted artefact with a name section.

    Raises :class:`~fastness._wasi.wasmbin.InvalidModule` where the module is not laid out as the cut expects.
    """
    imports = wasmbin.imported_functions(wasm)
    names = wasmbin.function_names(wasm)
    sizes = wasmbin.body_sizes(wasm)
    where: dict[str, int] = {}
    for index, name in names.items():
        if index >= imports:
            where.setdefault(name, index - imports)
    first = next((k for k in range(len(sizes)) if names.get(k + imports, "").startswith(_FIRST_DROPPED)), None)
    again = where.get(_FIRST_KEPT_AGAIN)
    if first is None or again is None or not 0 < first < again <= len(sizes):
        raise wasmbin.InvalidModule("the functions at which to cut are not where they should be")
    for name in _MUST_STAY:
        spot = where.get(name)
        if spot is None and name in _MAY_LACK:
            continue
        if spot is None or first <= spot < again:
            raise wasmbin.InvalidModule(f"{name} would be lost")
    for name in _MUST_GO:
        if not first <= where.get(name, -1) < again:
            raise wasmbin.InvalidModule(f"{name} would be kept")
    dropped = range(first, again)
    left = sum(sizes) - sum(sizes[first:again])
    _check_share("functions", len(dropped) / len(sizes), _FUNCTIONS_DROPPED)
    _check_share("code bytes", 1 - left / sum(sizes), _BYTES_DROPPED)
    void = wasmbin.types_without_result(wasm)
    skip = frozenset(k for k in dropped if k in void and names.get(k + imports, "").startswith(_DESTRUCTOR))
    return StubPlan(frozenset(dropped) - skip, skip, left)


def _check_share(what: str, share: float, allowed: tuple[float, float]) -> None:
    if not allowed[0] <= share <= allowed[1]:
        raise wasmbin.InvalidModule(f"the cut would drop {share:.0%} of the {what}")


def quick_module(wasm: bytes) -> bytes:
    """The module with only the interpreter and its standard library in it, without custom sections."""
    chosen = plan(wasm)
    return cut.drop_functions(wasm, chosen.trap, chosen.skip)

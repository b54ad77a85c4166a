"""
A small ctypes binding to wasmtime: engines, modules, linkers and instances.

What it calls is in :mod:`fastness._wasi.capi`.  A functype that is passed to the linker is borrowed; every other
object frees what it owns, once.
"""

from __future__ import annotations

import ctypes as C

from fastness._wasi.capi import (
    KIND_FUNC,
    KIND_MEMORY,
    SLOTS,
    Extern,
    Library,
    RawCallback,
    Trap,
    Vec,
    WasmtimeError,
    error_text,
    find_library,
    load,
    raise_error,
    raise_trap,
    take_vec,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "Engine",
    "EngineConfig",
    "Instance",
    "Library",
    "Linker",
    "Module",
    "Trap",
    "WasmtimeError",
    "compile_module",
    "find_library",
    "load",
    "wat2wasm",
]

_P = C.c_void_p


class EngineConfig:
    """
    Settings that decide what native code looks like; compile and load must agree on them.

    ``stack`` is the guest's stack in bytes; the thread that calls guests must have at least 2 MiB more, or a
    deep guest recursion overruns the host's stack.  ``user_module`` turns off every proposal that a user's
    module has no need of: threads, memory64, multi-memory, tail calls, garbage collection, components.
    """

    __slots__ = ("opt_level", "parallel", "regalloc", "stack", "user_module")

    def __init__(
        self,
        stack: int = 8 << 20,
        opt_level: str = "speed",
        regalloc: str = "backtracking",
        user_module: bool = False,
        parallel: bool = True,
    ) -> None:
        self.stack = stack
        self.opt_level = opt_level
        self.regalloc = regalloc
        self.user_module = user_module
        self.parallel = parallel

    def key(self) -> str:
        """A text that is equal exactly where compiled code may be exchanged."""
        return f"stack={self.stack},opt={self.opt_level},regalloc={self.regalloc},user={int(self.user_module)}"

    def make(self, lib: Library) -> int:
        """A ``wasm_config_t`` pointer; the engine takes ownership of it."""
        config: int = lib.wasm_config_new()
        lib.wasmtime_config_epoch_interruption_set(config, True)
        # wasmtime refuses a guest stack larger than its async stack, so that one grows along.
        lib.wasmtime_config_async_stack_size_set(config, self.stack + (2 << 20))
        lib.wasmtime_config_max_wasm_stack_set(config, self.stack)
        lib.wasmtime_config_parallel_compilation_set(config, self.parallel)
        # wasmtime walks guest frames by frame pointer; `.eh_frame` would serve native debuggers only, and costs
        # megabytes of disk and a registration of every function at load.
        lib.wasmtime_config_native_unwind_info_set(config, False)
        if self.opt_level == "none":
            lib.wasmtime_config_cranelift_opt_level_set(config, 0)
        if self.regalloc == "single_pass":
            lib.wasmtime_config_cranelift_flag_set(config, b"regalloc_algorithm", b"single_pass")
        for name in ("threads", "multi_memory", "memory64", "custom_page_sizes", "wide_arithmetic", "relaxed_simd"):
            getattr(lib, f"wasmtime_config_wasm_{name}_set")(config, False)
        lib.wasmtime_config_shared_memory_set(config, False)
        lib.wasmtime_config_wasm_component_model_set(config, False)
        lib.wasmtime_config_wasm_stack_switching_set(config, False)
        if self.user_module:
            lib.wasmtime_config_wasm_gc_set(config, False)
            lib.wasmtime_config_wasm_function_references_set(config, False)
            lib.wasmtime_config_wasm_tail_call_set(config, False)
            lib.wasmtime_config_wasm_exceptions_set(config, False)
        return config


class Engine:
    """One ``wasm_engine_t``.  It lives as long as the process: nothing frees it early."""

    def __init__(self, lib: Library, config: EngineConfig) -> None:
        self.lib = lib
        self.config = config
        # SAFETY: ownership of the configuration passes to the engine.
        self.ptr: int = lib.wasm_engine_new_with_config(config.make(lib))

    def increment_epoch(self) -> None:
        """Make every store whose epoch deadline is reached trap; callable from any thread."""
        self.lib.wasmtime_engine_increment_epoch(self.ptr)


def compile_module(engine: Engine, wasm: bytes) -> bytes:
    """
    Compile ``wasm`` and return the serialised native code.

    Takes all cores where the configuration is parallel, and gigabytes for large modules.
    Raises :class:`WasmtimeError` where the module is invalid.
    """
    lib = engine.lib
    module = _P()
    error = lib.wasmtime_module_new(engine.ptr, wasm, len(wasm), C.byref(module))
    if error:
        raise_error(lib, error)
    vec = Vec()
    error = lib.wasmtime_module_serialize(module, C.byref(vec))
    lib.wasmtime_module_delete(module)
    if error:
        raise_error(lib, error)
    return take_vec(lib, vec)


def wat2wasm(lib: Library, text: str) -> bytes:
    """Assemble the text format.  Raises :class:`WasmtimeError` with the parser's message."""
    data = text.encode()
    vec = Vec()
    error = lib.wasmtime_wat2wasm(data, len(data), C.byref(vec))
    if error:
        raise_error(lib, error)
    return take_vec(lib, vec)


class Module:
    """Compiled code, mapped from a file."""

    def __init__(self, engine: Engine, ptr: int) -> None:
        self.engine = engine
        self.ptr = ptr

    @classmethod
    def deserialize_file(cls, engine: Engine, path: str) -> Module:
        """
        Map serialised code from ``path`` (``/proc/self/fd/N`` keeps to a descriptor that was already checked).

        The file is native code and is trusted: its digest must have been checked on this same descriptor.
        Raises :class:`WasmtimeError` where version or settings differ.
        """
        module = _P()
        error = engine.lib.wasmtime_module_deserialize_file(engine.ptr, path.encode(), C.byref(module))
        if error:
            raise_error(engine.lib, error)
        assert module.value is not None
        return cls(engine, module.value)


_VALTYPE = {"i": 0, "l": 1, "f": 2, "d": 3}


class Linker:
    """Holds our host functions; made once, before the process confines itself."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.ptr: int = engine.lib.wasmtime_linker_new(engine.ptr)
        # The library keeps bare pointers to the callbacks, so they must live as long as it does.
        self._keep: list[Any] = []

    def _types(self, kinds: str) -> Vec:
        lib = self.engine.lib
        vec = Vec()
        items = (_P * len(kinds))(*[lib.wasm_valtype_new(_VALTYPE[kind]) for kind in kinds])
        # SAFETY: the vector copies the pointers and owns the valtypes from here on.
        lib.wasm_valtype_vec_new(C.byref(vec), len(kinds), C.cast(items, _P))
        return vec

    def define(
        self, module: bytes, name: bytes, params: str, results: str, callback: Callable[[Any, Any, Any, int], Any]
    ) -> None:
        """
        Define one import.

        ``params`` and ``results`` are strings of ``i`` (i32) and ``l`` (i64).  ``callback(env, caller, args, n)``
        finds argument ``k`` at ``args[4*k]`` (and the high half of an i64 at ``args[4*k+1]``), writes its result
        to ``args[0]`` and returns None, or a trap from :meth:`trap`.  It must never raise.
        """
        lib = self.engine.lib
        raw = RawCallback(callback)
        self._keep.append(raw)
        p, r = self._types(params), self._types(results)
        functype = lib.wasm_functype_new(C.byref(p), C.byref(r))
        error = lib.wasmtime_linker_define_func_unchecked(
            self.ptr, module, len(module), name, len(name), functype, raw, None, None
        )
        lib.wasm_functype_delete(functype)
        if error:
            raise_error(lib, error)

    def trap(self) -> int:
        """A new trap to return from a callback; ownership passes to the library."""
        pointer: int = self.engine.lib.wasmtime_trap_new(b"host", 4)
        return pointer

    def instantiate_pre(self, module: Module) -> int:
        """Check and resolve the module's imports once.  Raises :class:`WasmtimeError` where one is missing."""
        pre = _P()
        error = self.engine.lib.wasmtime_linker_instantiate_pre(self.ptr, module.ptr, C.byref(pre))
        if error:
            raise_error(self.engine.lib, error)
        assert pre.value is not None
        return pre.value


class Instance:
    """
    One store with one instance in it.

    ``memory_limit`` and the other limits bound what the guest can make the store allocate; a refused growth is
    an ordinary failure of ``memory.grow`` in the guest.  Use from one thread only.
    """

    __slots__ = ("_args", "_exports", "_handle", "_lib", "_memory", "_shapes", "_trap", "context", "store")

    def __init__(
        self,
        engine: Engine,
        pre: int,
        memory_limit: int,
        table_elements: int = 1 << 20,
        tables: int = 16,
        memories: int = 1,
    ) -> None:
        lib = engine.lib
        self._lib = lib
        self._exports: dict[bytes, int] = {}
        self._shapes: dict[bytes, tuple[int, int]] = {}
        self._args = (C.c_uint32 * (4 * SLOTS))()
        self._trap = _P()
        self._handle = C.create_string_buffer(16)
        self.store: int | None = lib.wasmtime_store_new(engine.ptr, None, None)
        self.context: int = lib.wasmtime_store_context(self.store)
        self._memory: Any = None
        lib.wasmtime_store_limiter(self.store, memory_limit, table_elements, 1, tables, memories)
        # A store starts with a deadline of zero ticks beyond the current epoch, which would trap at once.
        lib.wasmtime_context_set_epoch_deadline(self.context, 1)
        error = lib.wasmtime_instance_pre_instantiate(pre, self.context, self._handle, C.byref(self._trap))
        try:
            if error:
                raise_error(lib, error)
            if self._trap.value:
                raise_trap(lib, self._trap.value)
        except BaseException:
            self.close()
            raise
        extern = Extern()
        if lib.wasmtime_instance_export_get(self.context, self._handle, b"memory", 6, C.byref(extern)) and (
            extern.kind == KIND_MEMORY
        ):
            self._memory = (extern, C.addressof(extern) + 8)

    def set_memory_limit(self, limit: int, table_elements: int = 1 << 20, tables: int = 16, memories: int = 1) -> None:
        """Replace the store's limiter; memory already in use stays."""
        self._lib.wasmtime_store_limiter(self.store, limit, table_elements, 1, tables, memories)

    def arm(self) -> None:
        """Make the next ``increment_epoch`` trap this store."""
        self._lib.wasmtime_context_set_epoch_deadline(self.context, 1)

    def has(self, name: bytes) -> bool:
        """Whether the instance exports a function under this name that can be called from here."""
        return self._find(name) is not None

    def shape(self, name: bytes) -> tuple[int, int] | None:
        """How many parameters and results an exported function has; None where there is no such function."""
        self._find(name)
        return self._shapes.get(name)

    def _find(self, name: bytes) -> int | None:
        address = self._exports.get(name)
        if address is None:
            if name in self._shapes:
                return None
            extern = Extern()
            found = self._lib.wasmtime_instance_export_get(self.context, self._handle, name, len(name), C.byref(extern))
            if not found or extern.kind != KIND_FUNC:
                return None
            shape = self._shapes[name] = self._measure(C.addressof(extern) + 8)
            if max(shape) > SLOTS:
                return None
            # The func handle is a plain value: copied into a buffer that the dictionary keeps alive.
            keep = C.create_string_buffer(C.string_at(C.addressof(extern) + 8, 24), 24)
            address = C.addressof(keep)
            self._exports[name] = address
            self._exports[b"keep " + name] = keep  # type: ignore[assignment]  # only held, never read
        return address

    def _measure(self, function: int) -> tuple[int, int]:
        # A raw call reads and writes a slot for each parameter and result of the function's type, whatever length it
        # is told; the type is the module's own, so it decides whether a call from here is safe.
        kind = self._lib.wasmtime_func_type(self.context, function)
        params = int(self._lib.wasm_functype_params(kind).contents.size)
        results = int(self._lib.wasm_functype_results(kind).contents.size)
        self._lib.wasm_functype_delete(kind)
        return params, results

    def base(self) -> int:
        """Address of linear memory, or 0 where the module has none.  It never moves for a 32-bit memory."""
        if self._memory is None:
            return 0
        address: int = self._lib.wasmtime_memory_data(self.context, self._memory[1])
        return address

    def size(self) -> int:
        """Bytes of linear memory now."""
        if self._memory is None:
            return 0
        size: int = self._lib.wasmtime_memory_data_size(self.context, self._memory[1])
        return size

    def grow(self, pages: int) -> None:
        """Grow linear memory by 64 KiB pages.  Raises :class:`WasmtimeError` past the limit."""
        old = C.c_uint64()
        error = self._lib.wasmtime_memory_grow(self.context, self._memory[1], pages, C.byref(old))
        if error:
            raise_error(self._lib, error)

    def call(self, name: bytes, *args: int) -> int:
        """
        Call an exported function with 32-bit integer arguments and return its first result as 32 unsigned bits.

        Raises :class:`Trap`, or ``KeyError`` where there is no such export or it cannot be called from here.
        """
        self.call_raw(name, args)
        return self._args[0]

    def call_raw(self, name: bytes, args: tuple[int, ...]) -> Any:
        """Like :meth:`call`; returns the raw slots (16 bytes each, as 32-bit words) for wider results."""
        function = self._find(name)
        if function is None:
            raise KeyError(name)
        slots = self._args
        for i, value in enumerate(args):
            slots[4 * i] = value & 0xFFFFFFFF
            slots[4 * i + 1] = (value >> 32) & 0xFFFFFFFF
        trap = self._trap
        trap.value = None
        # SAFETY: `_find` gives no function of more parameters or results than there are slots.
        error = self._lib.wasmtime_func_call_unchecked(self.context, function, slots, SLOTS, C.byref(trap))
        if error:
            # A trap that a callback of ours returned comes back as an error, without a code.
            raise Trap("host", error_text(self._lib, error))
        if trap.value:
            raise_trap(self._lib, trap.value)
        return slots

    def close(self) -> None:
        """Free the store: its memory is unmapped.  Idempotent."""
        if self.store is not None:
            self._lib.wasmtime_store_delete(self.store)
            self.store = None
            self._memory = None
            self._exports.clear()

    def __del__(self) -> None:
        self.close()

"""
The C library inside the ``wasmtime`` wheel: its prototypes, its byte vectors, and its errors and traps.

The wheel's own Python layer declares thousands of prototypes and takes tens of milliseconds to import.
An engine process needs about forty functions and starts often, so they are declared here; nothing of the
``wasmtime`` package is imported.  Prototypes follow ``wasmtime.h`` and ``wasm.h`` of the C API.

Ownership rules of the C API that are kept here: an error or trap pointer that a call returns belongs to the caller
and is freed exactly once, in :func:`raise_error`, :func:`error_text` and :func:`raise_trap`; a byte vector filled by
the library is freed with ``wasm_byte_vec_delete``.
"""

from __future__ import annotations

import ctypes as C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_P = C.c_void_p
_Z = C.c_size_t

#: ``wasmtime_func_unchecked_callback_t``: (env, caller, args_and_results, length) -> trap or NULL.
RawCallback = C.CFUNCTYPE(_P, _P, _P, C.POINTER(C.c_uint32), _Z)

#: Names of ``wasmtime_trap_code_enum`` that a preview 1 core module can meet, by number.
TRAP_NAMES = {
    0: "stack_overflow",
    1: "memory_out_of_bounds",
    2: "heap_misaligned",
    3: "table_out_of_bounds",
    4: "indirect_call_to_null",
    5: "bad_signature",
    6: "integer_overflow",
    7: "integer_divide_by_zero",
    8: "bad_conversion_to_integer",
    9: "unreachable",
    10: "interrupt",
    11: "out_of_fuel",
    12: "atomic_wait_non_shared_memory",
    13: "null_reference",
    14: "array_out_of_bounds",
    15: "allocation_too_large",
    16: "cast_failure",
    19: "unhandled_tag",
}

#: Most characters of a message from the library that are kept.
_MESSAGE_CAP = 2000


class WasmtimeError(Exception):
    """The library refused: an invalid module, a failed load, an allocation over a limit."""


class Trap(Exception):
    """
    Guest code trapped.

    ``code`` is a name of :data:`TRAP_NAMES`, or ``"host"`` where one of our own callbacks ended the guest.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


class Vec(C.Structure):
    """``wasm_byte_vec_t``: a length and an address."""

    _fields_ = [("size", _Z), ("data", _P)]


class Extern(C.Structure):
    """``wasmtime_extern_t``: a kind and a union of which the largest member is 24 bytes."""

    _fields_ = [("kind", C.c_uint8), ("a", C.c_uint64), ("b", C.c_uint64), ("c", C.c_uint64)]


#: Parameters, or results, that a function may have to be called from here.
SLOTS = 16
KIND_FUNC = 0
KIND_MEMORY = 3

_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "wasm_config_new": (_P,),
    "wasm_engine_new_with_config": (_P, _P),
    "wasm_engine_delete": (None, _P),
    "wasmtime_config_epoch_interruption_set": (None, _P, C.c_bool),
    "wasmtime_config_max_wasm_stack_set": (None, _P, _Z),
    "wasmtime_config_async_stack_size_set": (None, _P, _Z),
    "wasmtime_config_cranelift_opt_level_set": (None, _P, C.c_uint8),
    "wasmtime_config_cranelift_flag_set": (None, _P, C.c_char_p, C.c_char_p),
    "wasmtime_config_parallel_compilation_set": (None, _P, C.c_bool),
    "wasmtime_config_native_unwind_info_set": (None, _P, C.c_bool),
    "wasmtime_config_wasm_threads_set": (None, _P, C.c_bool),
    "wasmtime_config_shared_memory_set": (None, _P, C.c_bool),
    "wasmtime_config_wasm_tail_call_set": (None, _P, C.c_bool),
    "wasmtime_config_wasm_function_references_set": (None, _P, C.c_bool),
    "wasmtime_config_wasm_gc_set": (None, _P, C.c_bool),
    "wasmtime_config_wasm_relaxed_simd_set": (None, _P, C.c_bool),
    "wasmtime_config_wasm_multi_memory_set": (None, _P, C.c_bool),
    "wasmtime_config_wasm_memory64_set": (None, _P, C.c_bool),
    "wasmtime_config_wasm_exceptions_set": (None, _P, C.c_bool),
    "wasmtime_config_wasm_custom_page_sizes_set": (None, _P, C.c_bool),
    "wasmtime_config_wasm_wide_arithmetic_set": (None, _P, C.c_bool),
    "wasmtime_config_wasm_stack_switching_set": (None, _P, C.c_bool),
    "wasmtime_config_wasm_component_model_set": (None, _P, C.c_bool),
    "wasmtime_engine_increment_epoch": (None, _P),
    "wasmtime_module_new": (_P, _P, C.c_char_p, _Z, C.POINTER(_P)),
    "wasmtime_module_serialize": (_P, _P, C.POINTER(Vec)),
    "wasmtime_module_deserialize_file": (_P, _P, C.c_char_p, C.POINTER(_P)),
    "wasmtime_module_delete": (None, _P),
    "wasmtime_wat2wasm": (_P, C.c_char_p, _Z, C.POINTER(Vec)),
    "wasmtime_store_new": (_P, _P, _P, _P),
    "wasmtime_store_context": (_P, _P),
    "wasmtime_store_delete": (None, _P),
    "wasmtime_store_limiter": (None, _P, C.c_int64, C.c_int64, C.c_int64, C.c_int64, C.c_int64),
    "wasmtime_context_set_epoch_deadline": (None, _P, C.c_uint64),
    "wasmtime_linker_new": (_P, _P),
    "wasmtime_linker_define_func_unchecked": (_P, _P, C.c_char_p, _Z, C.c_char_p, _Z, _P, RawCallback, _P, _P),
    "wasmtime_linker_instantiate_pre": (_P, _P, _P, C.POINTER(_P)),
    "wasmtime_instance_pre_instantiate": (_P, _P, _P, _P, C.POINTER(_P)),
    "wasmtime_instance_export_get": (C.c_bool, _P, _P, C.c_char_p, _Z, C.POINTER(Extern)),
    "wasmtime_memory_data": (_P, _P, _P),
    "wasmtime_memory_data_size": (_Z, _P, _P),
    "wasmtime_memory_grow": (_P, _P, _P, C.c_uint64, C.POINTER(C.c_uint64)),
    "wasmtime_func_type": (_P, _P, _P),
    "wasm_functype_params": (C.POINTER(Vec), _P),
    "wasm_functype_results": (C.POINTER(Vec), _P),
    "wasmtime_func_call_unchecked": (_P, _P, _P, _P, _Z, C.POINTER(_P)),
    "wasmtime_trap_new": (_P, C.c_char_p, _Z),
    "wasmtime_trap_code": (C.c_bool, _P, C.POINTER(C.c_uint8)),
    "wasm_trap_message": (None, _P, C.POINTER(Vec)),
    "wasm_trap_delete": (None, _P),
    "wasmtime_error_message": (None, _P, C.POINTER(Vec)),
    "wasmtime_error_delete": (None, _P),
    "wasm_byte_vec_delete": (None, C.POINTER(Vec)),
    "wasm_valtype_new": (_P, C.c_uint8),
    "wasm_valtype_vec_new": (None, C.POINTER(Vec), _Z, _P),
    "wasm_functype_new": (_P, C.POINTER(Vec), C.POINTER(Vec)),
    "wasm_functype_delete": (None, _P),
}


class Library:
    """The loaded C library; each function of ``_PROTOTYPES`` is an attribute under its own name."""

    def __init__(self, path: str) -> None:
        # SAFETY: the path comes from the installed distribution or from our parent process, never from a guest.
        dll = C.CDLL(path)
        for name, (restype, *argtypes) in _PROTOTYPES.items():
            function = getattr(dll, name)
            function.restype = restype
            function.argtypes = argtypes
            setattr(self, name, function)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def load(path: str) -> Library:
    """Load the library at ``path``.  Raises ``OSError`` where it cannot be loaded."""
    return Library(path)


def find_library() -> str:
    """
    Path of the C library inside the installed ``wasmtime`` distribution, found without importing it.

    Raises ``FileNotFoundError`` where the distribution is absent.
    """
    import importlib.util
    import os
    import platform
    import sys

    spec = importlib.util.find_spec("wasmtime")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the wasmtime distribution is not installed")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine())
    folder, name = {
        "linux": (f"linux-{machine}", "_libwasmtime.so"),
        "darwin": (f"darwin-{machine}", "_libwasmtime.dylib"),
        "win32": (f"win32-{machine}", "_wasmtime.dll"),
    }.get(sys.platform, (sys.platform, "_libwasmtime.so"))
    path = os.path.join(os.path.dirname(spec.origin), folder, name)
    if not os.path.exists(path):
        raise FileNotFoundError(f"the wasmtime distribution has no library for this platform ({folder}/{name})")
    return path


def take_vec(lib: Library, vec: Vec) -> bytes:
    """The bytes of a vector that the library filled; frees it."""
    # SAFETY: the library filled `vec`; its bytes are copied before the vector is freed, once.
    data = C.string_at(vec.data, vec.size) if vec.size else b""
    lib.wasm_byte_vec_delete(C.byref(vec))
    return data


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode("utf-8", "replace")[:_MESSAGE_CAP]


def error_text(lib: Library, error: int) -> str:
    """The message of an error that is owned here; frees it."""
    vec = Vec()
    lib.wasmtime_error_message(error, C.byref(vec))
    message = _text(take_vec(lib, vec))
    lib.wasmtime_error_delete(error)
    return message


def raise_error(lib: Library, error: int) -> NoReturn:
    """Raise :class:`WasmtimeError` for an error that is owned here; frees it."""
    raise WasmtimeError(error_text(lib, error))


def raise_trap(lib: Library, trap: int) -> NoReturn:
    """Raise :class:`Trap` for a trap that is owned here; frees it."""
    vec = Vec()
    code = C.c_uint8(255)
    known = lib.wasmtime_trap_code(trap, C.byref(code))
    lib.wasm_trap_message(trap, C.byref(vec))
    message = _text(take_vec(lib, vec))
    lib.wasm_trap_delete(trap)
    raise Trap(TRAP_NAMES.get(code.value, f"trap_{code.value}") if known else "host", message)

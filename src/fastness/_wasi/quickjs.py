"""
Calls into QuickJS-NG inside an instance: its values, its memory, and where it keeps what only its own code names.

A value of QuickJS is 64 bits here: the high half is a tag, or the value is a double.  Nothing that the guest's memory
says is trusted: addresses and lengths are checked against the memory's size before anything is read or written.
"""

from __future__ import annotations

import ctypes
import struct

from fastness._wasi.binding import WasmtimeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fastness._wasi.binding import Instance

#: High halves of values: QuickJS-NG's ``quickjs.h``, where pointers have 32 bits.
NULL, UNDEFINED, EXCEPTION, OBJECT = 2, 3, 6, 0xFFFFFFFF
#: ``JS_EVAL_*`` of the same header.
GLOBAL, MODULE, COMPILE_ONLY, ASYNC = 0, 1, 1 << 5, 1 << 7
#: ``JSPromiseStateEnum``.
PENDING, REJECTED = 0, 2
#: Longest text that is taken from the guest: its own cap for a value, and what describes a run.
_TEXT_CAP = 4 << 20
#: Bytes of the interpreter's context that are searched.
_CONTEXT_SIZE = 2048


class Interpreter:
    """
    The interpreter of one instance.

    ``state`` are addresses and values that an image keeps: ``context``, ``runtime``, 16 bytes of ``scratch``, and
    functions of the boot code by name.  ``lasting`` says whether the instance goes on after this use: giving memory
    back is a waste of time where it does not.
    """

    __slots__ = ("_lasting", "context", "instance", "state")

    def __init__(self, instance: Instance, state: dict[str, int], lasting: bool = True) -> None:
        self.instance = instance
        self.state = state
        self.context = state["context"]
        self._lasting = lasting

    # memory

    def peek(self, address: int, size: int) -> bytes:
        """Bytes of the guest's memory.  Raises ``RuntimeError`` where there is no such place."""
        if not 0 < address <= self.instance.size() - size:
            raise RuntimeError("an address lies outside the guest's memory")
        # SAFETY: checked to lie inside linear memory just now.
        return ctypes.string_at(self.instance.base() + address, size)

    def poke(self, address: int, data: bytes) -> None:
        """Write into the guest's memory.  Raises ``RuntimeError`` where there is no such place."""
        if not 0 < address <= self.instance.size() - len(data):
            raise RuntimeError("an address lies outside the guest's memory")
        # SAFETY: checked to lie inside linear memory just now.
        ctypes.memmove(self.instance.base() + address, data, len(data))

    def word(self, address: int) -> int:
        """A number of 32 bits."""
        return int.from_bytes(self.peek(address, 4), "little")

    def place(self, data: bytes) -> int:
        """Copy ``data`` into the guest; 0 where it has no room."""
        address = self.instance.call(b"malloc", len(data))
        if address:
            self.poke(address, data)
        return address

    def call(self, name: bytes, *args: int) -> int:
        """Call an export that returns a value of 64 bits."""
        slots = self.instance.call_raw(name, args)
        value: int = slots[0] | slots[1] << 32
        return value

    # values

    def text(self, value: int) -> bytes:
        """A value as UTF-8; nothing where the guest could not make it or it is too long."""
        instance, scratch = self.instance, self.state["scratch"]
        address = instance.call(b"JS_ToCStringLen2", self.context, scratch, value, 0)
        if not address:
            return b""
        size = self.word(scratch)
        if size > _TEXT_CAP:
            return b""
        data = self.peek(address, size)
        if self._lasting:
            instance.call_raw(b"JS_FreeCString", (self.context, address))
        return data

    def property(self, value: int, name: str) -> int:
        """A property of an object.  Raises ``RuntimeError`` where it throws; used before user code runs."""
        address = self.place(name.encode() + b"\0")
        found = self.call(b"JS_GetPropertyStr", self.context, value, address)
        self.instance.call_raw(b"free", (address,))
        if found >> 32 == EXCEPTION:
            raise RuntimeError(f"the boot code has no {name}")
        return found

    def evaluate(self, code: bytes, name: bytes, flags: int) -> int | None:
        """What ``JS_Eval`` makes of ``code``; None where the guest has no room for it."""
        # The parser wants a NUL behind the text.
        address = self.place(code + b"\0" + name + b"\0")
        if not address:
            return None
        value = self.call(b"JS_Eval", self.context, address, len(code), address + len(code) + 1, flags)
        if self._lasting:
            self.instance.call_raw(b"free", (address,))
        return value

    def function(self, name: str, *args: int) -> int:
        """Call a function of the boot code with at most one value."""
        scratch = self.state["scratch"]
        if args:
            self.poke(scratch, args[0].to_bytes(8, "little"))
        return self.call(b"JS_Call", self.context, self.state[name], UNDEFINED << 32, len(args), scratch if args else 0)

    def exception(self) -> int:
        """The pending exception, taken."""
        return self.call(b"JS_GetException", self.context)

    def free(self, value: int) -> None:
        """Give up a reference."""
        if self._lasting:
            self.instance.call_raw(b"JS_FreeValue", (self.context, value))

    def memory_is_full(self) -> bool:
        """Whether the guest's allocator could not get one more page."""
        try:
            self.instance.grow(1)
        except WasmtimeError:
            return True
        return False

    # making an image

    def compile_module(self, name: str, text: str) -> int:
        """Register a module under ``name``, so that imports find it.  Raises ``RuntimeError``."""
        value = self.evaluate(text.encode(), name.encode(), MODULE | COMPILE_ONLY)
        if value is None or value >> 32 == EXCEPTION:
            raise RuntimeError(f"{name}: {self.text(self.exception()).decode('utf-8', 'replace')[:500]}")
        return value

    def boot_module(self, name: str, text: str) -> None:
        """Register a module and evaluate it.  Raises ``RuntimeError`` with what it threw."""
        promise = self.call(b"JS_EvalFunction", self.context, self.compile_module(name, text))
        while self.instance.call(b"JS_ExecutePendingJob", self.state["runtime"], self.state["scratch"]) == 1:
            pass
        if self.instance.call(b"JS_PromiseState", self.context, promise) == REJECTED:
            error = self.call(b"JS_PromiseResult", self.context, promise)
            stack = self.text(self.property(error, "stack"))
            raise RuntimeError(f"{name}: {(self.text(error) + stack).decode('utf-8', 'replace')[:1000]}")

    def global_value(self, name: str) -> int:
        """The value of an expression.  Raises ``RuntimeError``."""
        value = self.evaluate(name.encode(), b"<fastness>", GLOBAL)
        if value is None or value >> 32 == EXCEPTION:
            raise RuntimeError(f"{name}: {self.text(self.exception()).decode('utf-8', 'replace')[:500]}")
        return value

    def cell(self, array: int) -> int:
        """Where a typed array keeps its numbers; its buffer is never resized, so they stay there."""
        scratch = self.state["scratch"]
        address = self.instance.call(b"JS_GetArrayBuffer", self.context, scratch, self.property(array, "buffer"))
        self.peek(address, 32)
        return address

    def find_random(self) -> int:
        """
        Where the interpreter keeps the state of ``Math.random``: the one word that a draw steps as xorshift64* does.

        Raises ``RuntimeError`` where there is no such place.
        """
        before = self.peek(self.context, _CONTEXT_SIZE)
        self.global_value("Math.random()")
        after = self.peek(self.context, _CONTEXT_SIZE)
        found = []
        for at in range(0, _CONTEXT_SIZE, 8):
            old, new = (int.from_bytes(data[at : at + 8], "little") for data in (before, after))
            if old != new and _xorshift(old) == new:
                found.append(self.context + at)
        if len(found) != 1:
            raise RuntimeError("the state of Math.random was not found")
        return found[0]

    def find_rejected(self) -> int:
        """
        Where the interpreter lists rejected promises that nobody has looked at: an empty list that one rejection fills.

        Raises ``RuntimeError`` where there is no such place.
        """
        before = self.peek(1024, self.instance.size() - 1024)
        promise = self.global_value("globalThis.__rejected = Promise.reject(7)")
        found = []
        for at in range(0, len(before) - 8, 4):
            head = 1024 + at
            if before[at : at + 8] != struct.pack("<II", head, head):
                continue
            previous, following = struct.unpack("<II", self.peek(head, 8))
            if previous != following or previous == head:
                continue
            links, rejected, reason = struct.unpack("<QQQ", self.peek(following, 24))
            if links == head | head << 32 and rejected == promise and reason == 7:
                found.append(head)
        if len(found) != 1:
            raise RuntimeError("the list of rejected promises was not found")
        self.global_value("delete globalThis.__rejected")
        # A handler takes it off the list again.
        self.function("forget", promise)
        self.free(promise)
        while self.instance.call(b"JS_ExecutePendingJob", self.state["runtime"], self.state["scratch"]) == 1:
            pass
        if self.word(found[0]) != found[0]:
            raise RuntimeError("the list of rejected promises did not become empty")
        return found[0]


def _xorshift(word: int) -> int:
    """One step of xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's xorshift generators")."""
    word ^= word >> 12
    word ^= word << 25 & 0xFFFFFFFFFFFFFFFF
    return word ^ word >> 27

"""
How an engine drives the JavaScript guest: what it finds in its tree, how it is warmed up, how code and answers travel.

The artefact is QuickJS-NG as a reactor.  Its embedding functions are exported under their own names, so the driver
evaluates code, runs pending jobs and timers, and reads the answer from linear memory; the guest has no channel.

A value of QuickJS is 64 bits here: the high half is a tag, or the value is a double.  Nothing that the guest's memory
says is trusted: addresses and lengths are checked against the memory's size, and an answer is bytes until the parent
has decoded it.
"""

from __future__ import annotations

import ctypes
import struct

from fastness._wasi import memfs, memfs_tree, tiny_json
from fastness._wasi.binding import WasmtimeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fastness._wasi import image as images
    from fastness._wasi.binding import Instance, Linker

#: The boot code's files in the order in which they are evaluated; the image maker hands over ``encode`` by itself and
#: the others as one text with NUL between.
SOURCES = ("encode", "inspect", "boot", "web", "modules")

#: High halves of values: QuickJS-NG's ``quickjs.h``, where pointers have 32 bits.
_NULL, _UNDEFINED, _EXCEPTION, _OBJECT = 2, 3, 6, 0xFFFFFFFF
#: ``JS_EVAL_*`` of the same header.
_GLOBAL, _MODULE, _COMPILE_ONLY, _ASYNC = 0, 1, 1 << 5, 1 << 7
#: ``JSPromiseStateEnum``.
_PENDING, _REJECTED = 0, 2
#: The guest's C stack has 2 MiB; what the interpreter may use of it.  More would let functions that use little of it
#: reach the end of the machine's stack first, which ends the run.
_STACK = 1536 << 10
#: Longest answer that is taken from the guest: its own cap for a value, and what describes a run.
_ANSWER_CAP = 4 << 20
_OUT_OF_MEMORY = (
    b'{"kind":"exception","error_type":"MemoryError","error_message":"the run needed more memory than its limit"}'
)
_UNDESCRIBED = b'{"kind":"exception","error_type":"Error","error_message":"the error could not be described"}'
#: Rejected promises that are taken off their list after a run that failed; whoever makes more has them reported later.
_FORGOTTEN = 1000
#: Bytes of the interpreter's context that are searched.
_CONTEXT_SIZE = 2048
_UNSETTLED = "the program ended while a top-level await was still waiting"


class JavaScriptGuest:
    """Driver of the JavaScript guest."""

    has_image = True
    #: Output looks like a terminal, so that libc passes it on at each line.
    tty = True
    fresh_only = False
    #: None: answers are read from memory.
    channel = -1
    #: A smallest run, made once when an engine starts.
    rehearsal = b"print(1)"

    def __init__(self, options: dict[str, Any]) -> None:
        self.library = _NoLibrary()

    def imports(self, linker: Linker) -> None:
        """Nothing beside preview 1."""

    def arguments(self, args: list[str]) -> list[bytes]:
        """The argument vector that libc sees; a run's own arguments go into ``scriptArgs``."""
        return [b"qjs"]

    def environment(self, env: list[list[str]]) -> list[bytes]:
        """The environment that libc sees when an image is made; a run's own variables are set by the boot code."""
        return []

    def tree(self, quota: memfs.Quota, now: int) -> tuple[list[tuple[bytes, Any]], memfs.Dir]:
        """The one preopen, and the work folder."""
        root = memfs.Dir(quota, True, now)
        work = memfs.Dir(quota, False, now)
        memfs_tree.mount(root, "work", work)
        memfs_tree.mount(root, "tmp", memfs.Dir(quota, False, now))
        return [(b"/", root)], work

    # making an image

    def boot(
        self, instance: Instance, host: Any, sources: dict[str, str], preload: list[str]
    ) -> tuple[list[tuple[int, int]], dict[str, int]]:
        """
        Start the interpreter and evaluate the boot code.  Returns no generators, and the addresses that runs need.

        Raises ``RuntimeError`` where that fails, or where there is something to preload.
        """
        if preload:
            raise RuntimeError("the JavaScript guest has nothing to preload")
        instance.call_raw(b"_initialize", ())
        if instance.call(b"qjs_init"):
            raise RuntimeError("the interpreter did not start")
        context = instance.call(b"qjs_get_context")
        runtime = instance.call(b"JS_GetRuntime", context)
        instance.call_raw(b"JS_SetMaxStackSize", (runtime, _STACK))
        state = {"context": context, "runtime": runtime, "scratch": instance.call(b"malloc", 16)}
        turn = Turn(instance, host, state)
        texts = dict(zip(SOURCES, [sources["encode"], *sources["boot"].split("\0")], strict=True))
        for name, text in texts.items():
            turn.boot_module(f"fastness:{name}", text)
        made = turn.global_value("__fastness")
        for name, text in tiny_json.loads(turn.text(turn.property(made, "aliases")).decode()).items():
            turn.compile_module(name, text)
        for name in ("begin", "done", "fail", "forget", "tick"):
            state[name] = turn.property(made, name)
        state["cell"] = turn.cell(turn.property(made, "cell"))
        turn.evaluate(b"delete globalThis.__fastness", b"<fastness>", _GLOBAL)
        state["random"] = turn.find_random()
        state["rejected"] = turn.find_rejected()
        return [], state

    def warm(self, instance: Instance, host: Any, state: dict[str, int]) -> None:
        """A few runs, so that the image holds what a first run makes."""
        for source in (b"throw new Error('x')", b"console.log(1, [1, {a: 'x'}]); [1, 2.5, 'x', {a: null}]", b"await 1"):
            turn = Turn(instance, host, state)
            turn.run({"filename": "", "op": "run"}, source)
        instance.call_raw(b"JS_RunGC", (state["runtime"],))

    # running

    def run(
        self, instance: Instance, host: Any, image: images.Image | None, invoke: dict[str, Any], code: bytes
    ) -> None:
        """Run the request.  Raises ``Trap`` where the guest did not return."""
        assert image is not None  # the engine makes instances of this guest from an image only
        turn = Turn(instance, host, image.state, bool(invoke.get("session")))
        if invoke.get("op") != "execute":
            turn.prepare()
        turn.run(invoke, code)


class _NoLibrary:
    """This guest has no library; an image of it holds no open files."""

    def locate(self, node: object) -> None:
        return None

    def find(self, label: str, path: str) -> object:
        raise ValueError("this guest has no library")


class Turn:
    """One use of an instance: calls into the interpreter, with everything it says checked."""

    __slots__ = ("_host", "_instance", "_lasting", "_state", "context")

    def __init__(self, instance: Instance, host: Any, state: dict[str, int], lasting: bool = True) -> None:
        self._instance = instance
        #: Whether this instance goes on after the turn.  Giving memory back is a waste of time where it does not.
        self._lasting = lasting
        self._host = host
        self._state = state
        self.context = state["context"]

    # memory

    def _peek(self, address: int, size: int) -> bytes:
        if not 0 < address <= self._instance.size() - size:
            raise RuntimeError("an address lies outside the guest's memory")
        # SAFETY: checked to lie inside linear memory just now.
        return ctypes.string_at(self._instance.base() + address, size)

    def _poke(self, address: int, data: bytes) -> None:
        if not 0 < address <= self._instance.size() - len(data):
            raise RuntimeError("an address lies outside the guest's memory")
        # SAFETY: checked to lie inside linear memory just now.
        ctypes.memmove(self._instance.base() + address, data, len(data))

    def _word(self, address: int) -> int:
        return int.from_bytes(self._peek(address, 4), "little")

    def _place(self, data: bytes) -> int:
        """Copy ``data`` into the guest; 0 where it has no room."""
        address = self._instance.call(b"malloc", len(data))
        if address:
            self._poke(address, data)
        return address

    def _call(self, name: bytes, *args: int) -> int:
        """Call an export that returns a value of 64 bits."""
        slots = self._instance.call_raw(name, args)
        value: int = slots[0] | slots[1] << 32
        return value

    # values

    def text(self, value: int) -> bytes:
        """A value as UTF-8; nothing where the guest could not make it or it is too long."""
        instance, scratch = self._instance, self._state["scratch"]
        address = instance.call(b"JS_ToCStringLen2", self.context, scratch, value, 0)
        if not address:
            return b""
        size = self._word(scratch)
        if size > _ANSWER_CAP:
            return b""
        data = self._peek(address, size)
        if self._lasting:
            instance.call_raw(b"JS_FreeCString", (self.context, address))
        return data

    def property(self, value: int, name: str) -> int:
        """A property of an object.  Raises ``RuntimeError`` where it throws; used before user code runs."""
        address = self._place(name.encode() + b"\0")
        found = self._call(b"JS_GetPropertyStr", self.context, value, address)
        self._instance.call_raw(b"free", (address,))
        if found >> 32 == _EXCEPTION:
            raise RuntimeError(f"the boot code has no {name}")
        return found

    def evaluate(self, code: bytes, name: bytes, flags: int) -> int | None:
        """What ``JS_Eval`` makes of ``code``; None where the guest has no room for it."""
        # The parser wants a NUL behind the text.
        address = self._place(code + b"\0" + name + b"\0")
        if not address:
            return None
        value = self._call(b"JS_Eval", self.context, address, len(code), address + len(code) + 1, flags)
        if self._lasting:
            self._instance.call_raw(b"free", (address,))
        return value

    def function(self, name: str, *args: int) -> int:
        """Call a function of the boot code with at most one value."""
        scratch = self._state["scratch"]
        if args:
            self._poke(scratch, args[0].to_bytes(8, "little"))
        return self._call(
            b"JS_Call", self.context, self._state[name], _UNDEFINED << 32, len(args), scratch if args else 0
        )

    def exception(self) -> int:
        """The pending exception, taken."""
        return self._call(b"JS_GetException", self.context)

    # a run

    def prepare(self) -> None:
        """Give this instance its own randomness and clock origins, which its image cannot have."""
        host = self._host.run.host
        # Xorshift's state must not be zero.
        self._poke(self._state["random"], (int.from_bytes(host.random(8), "little") or 1).to_bytes(8, "little"))
        clock = host.clock
        self._poke(self._state["cell"], struct.pack("<dd", clock.monotonic() / 1e6, clock.realtime() / 1e6))

    def run(self, invoke: dict[str, Any], code: bytes) -> None:
        """Evaluate ``code``, let everything that it started come to its end, and leave the answer with the host."""
        head = {name: invoke[name] for name in ("args", "env", "filename") if invoke.get(name)}
        if head:
            self._begin(head)
        answer = self._answer(code, (invoke.get("filename") or "<run>").encode("utf-8", "replace"))
        # What the program wrote to files and streams of its own may still be in libc's buffers.
        self._instance.call(b"fflush", 0)
        self._host.answer(answer)

    def _begin(self, head: dict[str, Any]) -> None:
        data = tiny_json.dumps(head).encode()
        address = self._place(data)
        if address:
            text = self._call(b"JS_NewStringLen", self.context, address, len(data))
            self._instance.call_raw(b"free", (address,))
            self.function("begin", text)
            self._free(text)

    def _answer(self, code: bytes, name: bytes) -> bytes:
        main = self._start(code, name.replace(b"\0", b"?"))
        while True:
            if main is None:
                return _OUT_OF_MEMORY
            if main >> 32 == _EXCEPTION:
                return self._fail(self.exception())
            failed = self._settle(main)
            if failed is not None:
                return self._fail(failed)
            if self._instance.call(b"JS_PromiseState", self.context, main) == _PENDING:
                return self._fail(self._unsettled())
            result = self._call(b"JS_PromiseResult", self.context, main)
            payload = self.function("done", result)
            self._free(result)
            self._free(main)
            if payload >> 32 != _OBJECT:
                if payload >> 32 == _EXCEPTION:
                    return self._fail(self.exception())
                text = self.text(payload)
                self._free(payload)
                return text or (_OUT_OF_MEMORY if self._memory_is_full() else b"")
            # The completion value is a promise of its own: what comes back is a promise of its result.
            main = payload

    def _start(self, code: bytes, name: bytes) -> int | None:
        """Evaluate as a script with top-level await, or as a module where only that can be parsed."""
        if name.endswith(b".mjs"):
            return self.evaluate(code, name, _MODULE)
        value = self.evaluate(code, name, _ASYNC)
        if value is not None and value >> 32 == _EXCEPTION and _may_be_module(code):
            # A script that does not parse throws at once, and nothing of it has run.
            error = self.exception()
            as_module = self.evaluate(code, name, _MODULE)
            self._free(error)
            return as_module
        return value

    def _settle(self, main: int) -> int | None:
        """Run jobs and timers to the end.  Returns what was thrown and not caught, if anything was."""
        instance, state, context = self._instance, self._state, self.context
        runtime, scratch, timers = state["runtime"], state["scratch"], state["cell"] + 16
        while True:
            while (ran := instance.call(b"JS_ExecutePendingJob", runtime, scratch)) == 1:
                pass
            if ran:
                return self.exception()
            if instance.call(b"JS_PromiseState", context, main) == _REJECTED:
                return self._call(b"JS_PromiseResult", context, main)
            head = state["rejected"]
            entry = self._word(head + 4)
            if entry != head:
                # struct { list link; JSValue promise, reason; }: rejected, and nobody has looked at it.
                return int.from_bytes(self._peek(entry + 16, 8), "little")
            if struct.unpack("<d", self._peek(timers, 8))[0] > 0:
                if self.function("tick") >> 32 == _EXCEPTION:
                    return self.exception()
            elif instance.call(b"js_os_poll_internal", context, 0xFFFFFFFF, 7):
                # Timers of the interpreter's own library; it answers -1 where there are none.
                return None

    def _unsettled(self) -> int:
        error = self.evaluate(b"new Error(%s)" % tiny_json.dumps(_UNSETTLED).encode(), b"fastness:end", _GLOBAL)
        return error if error is not None else _UNDEFINED << 32

    def _fail(self, error: int) -> bytes:
        """The payload for an exception.  Where even describing it fails, memory has run out."""
        if error >> 32 == _NULL and self._memory_is_full():
            # What the interpreter throws where there is no room for an error either.
            self._forget()
            return _OUT_OF_MEMORY
        payload = self.function("fail", error)
        text = b"" if payload >> 32 == _EXCEPTION else self.text(payload)
        full = not text and self._memory_is_full()
        self._forget()
        return text or (_OUT_OF_MEMORY if full else _UNDESCRIBED)

    def _memory_is_full(self) -> bool:
        """Whether the guest's allocator could not get one more page."""
        try:
            self._instance.grow(1)
        except WasmtimeError:
            return True
        return False

    def _forget(self) -> None:
        """Take every promise off the list of rejected ones: a session goes on, and each is reported once."""
        instance, head = self._instance, self._state["rejected"]
        for _ in range(_FORGOTTEN):
            entry = self._word(head + 4)
            if entry == head:
                return
            if self.function("forget", int.from_bytes(self._peek(entry + 8, 8), "little")) >> 32 == _EXCEPTION:
                return
        instance.call_raw(b"JS_RunGC", (self._state["runtime"],))

    def _free(self, value: int) -> None:
        """Give up a reference."""
        if self._lasting:
            self._instance.call_raw(b"JS_FreeValue", (self.context, value))

    # making an image

    def compile_module(self, name: str, text: str) -> int:
        """Register a module under ``name``, so that imports find it.  Raises ``RuntimeError``."""
        value = self.evaluate(text.encode(), name.encode(), _MODULE | _COMPILE_ONLY)
        if value is None or value >> 32 == _EXCEPTION:
            raise RuntimeError(f"{name}: {self.text(self.exception()).decode('utf-8', 'replace')[:500]}")
        return value

    def boot_module(self, name: str, text: str) -> None:
        """Register a module and evaluate it.  Raises ``RuntimeError`` with what it threw."""
        promise = self._call(b"JS_EvalFunction", self.context, self.compile_module(name, text))
        while self._instance.call(b"JS_ExecutePendingJob", self._state["runtime"], self._state["scratch"]) == 1:
            pass
        if self._instance.call(b"JS_PromiseState", self.context, promise) == _REJECTED:
            error = self._call(b"JS_PromiseResult", self.context, promise)
            stack = self.text(self.property(error, "stack"))
            raise RuntimeError(f"{name}: {(self.text(error) + stack).decode('utf-8', 'replace')[:1000]}")

    def global_value(self, name: str) -> int:
        """The value of an expression.  Raises ``RuntimeError``."""
        value = self.evaluate(name.encode(), b"<fastness>", _GLOBAL)
        if value is None or value >> 32 == _EXCEPTION:
            raise RuntimeError(f"{name}: {self.text(self.exception()).decode('utf-8', 'replace')[:500]}")
        return value

    def cell(self, array: int) -> int:
        """Where a typed array keeps its numbers; its buffer is never resized, so they stay there."""
        scratch = self._state["scratch"]
        address = self._instance.call(b"JS_GetArrayBuffer", self.context, scratch, self.property(array, "buffer"))
        self._peek(address, 32)
        return address

    def find_random(self) -> int:
        """
        Where the interpreter keeps the state of ``Math.random``: the one word that a draw steps as xorshift64* does.

        Raises ``RuntimeError`` where there is no such place.
        """
        before = self._peek(self.context, _CONTEXT_SIZE)
        self.global_value("Math.random()")
        after = self._peek(self.context, _CONTEXT_SIZE)
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
        before = self._peek(1024, self._instance.size() - 1024)
        promise = self.global_value("globalThis.__rejected = Promise.reject(7)")
        found = []
        for at in range(0, len(before) - 8, 4):
            head = 1024 + at
            if before[at : at + 8] != struct.pack("<II", head, head):
                continue
            previous, following = struct.unpack("<II", self._peek(head, 8))
            if previous != following or previous == head:
                continue
            links, rejected, reason = struct.unpack("<QQQ", self._peek(following, 24))
            if links == head | head << 32 and rejected == promise and reason == 7:
                found.append(head)
        if len(found) != 1:
            raise RuntimeError("the list of rejected promises was not found")
        self.global_value("delete globalThis.__rejected")
        # A handler takes it off the list again.
        self.function("forget", promise)
        self._free(promise)
        while self._instance.call(b"JS_ExecutePendingJob", self._state["runtime"], self._state["scratch"]) == 1:
            pass
        if self._word(found[0]) != found[0]:
            raise RuntimeError("the list of rejected promises did not become empty")
        return found[0]


def _xorshift(word: int) -> int:
    """One step of xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's xorshift generators")."""
    word ^= word >> 12
    word ^= word << 25 & 0xFFFFFFFFFFFFFFFF
    return word ^ word >> 27


def _may_be_module(code: bytes) -> bool:
    """Whether a line starts like a static import or export, which only a module may have."""
    for line in code.splitlines():
        start = line.lstrip()
        if start[:6] in (b"import", b"export"):
            rest = start[6:].lstrip()
            # A name must stand apart from the keyword: `exports.a` and `import(...)` are something else.
            apart = len(rest) < len(start) - 6
            if rest[:1] in (b"{", b"*", b'"', b"'") or (apart and (rest[:1].isalnum() or rest[:1] in (b"_", b"$"))):
                return True
    return False

"""
How an engine drives the JavaScript guest: what it finds in its tree, how it is warmed up, how code and answers travel.

The artefact is QuickJS-NG as a reactor.  Its embedding functions are exported under their own names, so the driver
evaluates code, runs pending jobs and timers, and reads the answer from linear memory; the guest has no channel.

Nothing that the guest says is trusted: an answer is bytes until the parent has decoded it.
"""

from __future__ import annotations

import struct

from fastness._wasi import memfs, memfs_tree, tiny_json
from fastness._wasi.quickjs import (
    ASYNC,
    COMPILE_ONLY,
    EXCEPTION,
    GLOBAL,
    MODULE,
    NULL,
    OBJECT,
    PENDING,
    REJECTED,
    UNDEFINED,
    Interpreter,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fastness._wasi import image as images
    from fastness._wasi.binding import Instance, Linker
    from fastness._wasi.calls import CallChannel

#: The boot code's files in the order in which they are evaluated; the image maker hands over ``encode`` by itself and
#: the others as one text with NUL between.
SOURCES = ("encode", "inspect", "boot", "web", "modules", "context")

#: The guest's C stack has 2 MiB; what the interpreter may use of it.  More would let functions that use little of it
#: reach the end of the machine's stack first, which ends the run.
_STACK = 1536 << 10
_OUT_OF_MEMORY = (
    b'{"kind":"exception","error_type":"MemoryError","error_message":"the run needed more memory than its limit"}'
)
_UNDESCRIBED = b'{"kind":"exception","error_type":"Error","error_message":"the error could not be described"}'
#: Rejected promises that are taken off their list after a run that failed; whoever makes more has them reported later.
_FORGOTTEN = 1000
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
        for name in ("abandon", "answered", "begin", "done", "fail", "forget", "grant", "run", "tick"):
            state[name] = turn.property(made, name)
        state["cell"] = turn.cell(turn.property(made, "cell"))
        turn.evaluate(b"delete globalThis.__fastness", b"<fastness>", GLOBAL)
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


class _NoRoom(Exception):
    """The guest's memory has no room for what it is to be told."""


class _NoLibrary:
    """This guest has no library; an image of it holds no open files."""

    def locate(self, node: object) -> None:
        return None

    def find(self, label: str, path: str) -> object:
        raise ValueError("this guest has no library")


class Turn(Interpreter):
    """One use of an instance: a run, from the code to the answer."""

    __slots__ = ("_host",)

    def __init__(self, instance: Instance, host: Any, state: dict[str, int], lasting: bool = True) -> None:
        super().__init__(instance, state, lasting)
        self._host = host

    def prepare(self) -> None:
        """Give this instance its own randomness and clock origins, which its image cannot have."""
        host = self._host.run.host
        # Xorshift's state must not be zero.
        self.poke(self.state["random"], (int.from_bytes(host.random(8), "little") or 1).to_bytes(8, "little"))
        clock = host.clock
        self.poke(self.state["cell"], struct.pack("<dd", clock.monotonic() / 1e6, clock.realtime() / 1e6))

    def run(self, invoke: dict[str, Any], code: bytes) -> None:
        """Evaluate ``code``, let everything that it started come to its end, and leave the answer with the host."""
        head = {name: invoke[name] for name in ("args", "env", "filename") if invoke.get(name)}
        if head:
            self._tell("begin", tiny_json.dumps(head).encode())
        name = (invoke.get("filename") or "<run>").encode("utf-8", "replace")
        try:
            answer = self._answer(code, name, invoke.get("op") == "execute")
        except _NoRoom:
            answer = _OUT_OF_MEMORY
        if self._lasting and self._host.run.calls is not None:
            self.function("abandon")
        # What the program wrote to files and streams of its own may still be in libc's buffers.
        self.instance.call(b"fflush", 0)
        self._host.answer(answer)

    def _tell(self, name: str, data: bytes) -> None:
        """Call a function of the boot code with a text.  Raises ``_NoRoom``."""
        address = self.place(data)
        if not address:
            raise _NoRoom
        text = self.call(b"JS_NewStringLen", self.context, address, len(data))
        self.instance.call_raw(b"free", (address,))
        if text >> 32 == EXCEPTION or self.function(name, text) >> 32 == EXCEPTION:
            raise _NoRoom
        self.free(text)

    def _answer(self, code: bytes, name: bytes, again: bool) -> bytes:
        plugin = None
        if context := self._host.run.context:
            self._tell("grant", context)
            plugin = tiny_json.loads(context.decode())["plugin"]
        name = name.replace(b"\0", b"?")
        main = self._start(code, name) if plugin is None else self._start_plugin(code, plugin["module"], again)
        while True:
            if main is None:
                return _OUT_OF_MEMORY
            if main >> 32 == EXCEPTION:
                return self._fail(self.exception())
            failed = self._settle(main)
            if failed is not None:
                return self._fail(failed)
            if self.instance.call(b"JS_PromiseState", self.context, main) == PENDING:
                return self._fail(self._unsettled())
            result = self.call(b"JS_PromiseResult", self.context, main)
            payload = self.function("done", result)
            self.free(result)
            self.free(main)
            if payload >> 32 != OBJECT:
                if payload >> 32 == EXCEPTION:
                    return self._fail(self.exception())
                text = self.text(payload)
                self.free(payload)
                return text or (_OUT_OF_MEMORY if self.memory_is_full() else b"")
            # The completion value is a promise of its own: what comes back is a promise of its result.
            main = payload

    def _start(self, code: bytes, name: bytes) -> int | None:
        """Evaluate as a script with top-level await, or as a module where only that can be parsed."""
        if name.endswith(b".mjs"):
            return self.evaluate(code, name, MODULE)
        value = self.evaluate(code, name, ASYNC)
        if value is not None and value >> 32 == EXCEPTION and _may_be_module(code):
            # A script that does not parse throws at once, and nothing of it has run.
            error = self.exception()
            as_module = self.evaluate(code, name, MODULE)
            self.free(error)
            return as_module
        return value

    def _start_plugin(self, code: bytes, module: str, again: bool) -> int | None:
        """Call the method that the context names; a session has compiled its module at its first execute."""
        if not again:
            name = module.encode("utf-8", "replace").replace(b"\0", b"?")
            made = self.evaluate(code, name, MODULE | COMPILE_ONLY)
            if made is None or made >> 32 == EXCEPTION:
                return made
        return self.function("run")

    def _settle(self, main: int) -> int | None:
        """Run jobs and timers to the end.  Returns what was thrown and not caught, if anything was."""
        instance, state, context = self.instance, self.state, self.context
        runtime, scratch, timers = state["runtime"], state["scratch"], state["cell"] + 16
        while True:
            while (ran := instance.call(b"JS_ExecutePendingJob", runtime, scratch)) == 1:
                pass
            if ran:
                return self.exception()
            if instance.call(b"JS_PromiseState", context, main) == REJECTED:
                return self.call(b"JS_PromiseResult", context, main)
            head = state["rejected"]
            entry = self.word(head + 4)
            if entry != head:
                # struct { list link; JSValue promise, reason; }: rejected, and nobody has looked at it.
                return int.from_bytes(self.peek(entry + 16, 8), "little")
            waiting, due = struct.unpack("<dd", self.peek(timers, 16))
            calls = self._host.run.calls
            if calls is not None and calls.waiting and self._heard(calls, due if waiting > 0 else None):
                continue
            if waiting > 0:
                if self.function("tick") >> 32 == EXCEPTION:
                    return self.exception()
            elif instance.call(b"js_os_poll_internal", context, 0xFFFFFFFF, 7):
                # Timers of the interpreter's own library; it answers -1 where there are none.
                return None

    def _heard(self, calls: CallChannel, due: float | None) -> bool:
        """
        Wait for an answer of the host's, and no longer than until ``due``, in milliseconds; whether there was one.

        Raises ``Stop`` when the run is to end meanwhile, and ``_NoRoom``.
        """
        clock = self._host.run.host.clock
        seconds = None
        if due is not None and not clock.frozen:
            # A number of the guest's: it may be anything.
            left = due / 1e3 - clock.monotonic() / 1e9
            seconds = left if left > 0 else 0.0
        if not calls.wait(seconds):
            return False
        found = calls.take()
        if found is None:
            return False
        _, head, blob = found
        self._tell("answered", b'{"head":%s,"value":%s}' % (head, blob or b"null"))
        return True

    def _unsettled(self) -> int:
        error = self.evaluate(b"new Error(%s)" % tiny_json.dumps(_UNSETTLED).encode(), b"fastness:end", GLOBAL)
        return error if error is not None else UNDEFINED << 32

    def _fail(self, error: int) -> bytes:
        """The payload for an exception.  Where even describing it fails, memory has run out."""
        if error >> 32 == NULL and self.memory_is_full():
            # What the interpreter throws where there is no room for an error either.
            self._forget()
            return _OUT_OF_MEMORY
        payload = self.function("fail", error)
        text = b"" if payload >> 32 == EXCEPTION else self.text(payload)
        full = not text and self.memory_is_full()
        self._forget()
        return text or (_OUT_OF_MEMORY if full else _UNDESCRIBED)

    def _forget(self) -> None:
        """Take every promise off the list of rejected ones: a session goes on, and each is reported once."""
        instance, head = self.instance, self.state["rejected"]
        for _ in range(_FORGOTTEN):
            entry = self.word(head + 4)
            if entry == head:
                return
            if self.function("forget", int.from_bytes(self.peek(entry + 8, 8), "little")) >> 32 == EXCEPTION:
                return
        instance.call_raw(b"JS_RunGC", (self.state["runtime"],))


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

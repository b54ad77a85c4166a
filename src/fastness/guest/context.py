"""
What code inside a Python guest finds as ``ctx``: functions that ask the host, and nothing for what was not granted.

Its text is executed in the guest as a module called ``_fastness_context``.  Nothing here is a wall: whoever runs in the
guest may write to the channel itself, and the host judges what arrives, not who sent it.
"""

from __future__ import annotations

import base64
import json
import sys
import threading

import _fastness_encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, Protocol

    Frame = tuple[int, dict[str, Any], bytes]

    class Wire(Protocol):
        """
        The channel; both may block.

        ``receive`` gives frames that have come, one at least, to one thread at a time: each its kind, head and blob.
        It keeps no whole frame back, so that the descriptor tells of all that are still to come.
        """

        def send(self, kind: int, head: bytes, blob: bytes) -> None: ...

        def receive(self) -> list[Frame]: ...

        def fileno(self) -> int: ...


_REPLY, _FAULT = 0x04, 0x05
_CALL, _DROP, _LOG = 0x43, 0x44, 0x45
_ARGUMENTS_CAP = (4 << 20) - 4096
_IN_FLIGHT = 16
_LEVELS = ("debug", "info", "warning", "error")
#: Operations of this name stand on ctx itself.
TOP = "ctx"
#: As json.loads, for a text of the host's, with nothing around its value.
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # not documented
_quoted = json.encoder.encode_basestring_ascii


class Refused(Exception):
    """The host did not do what was asked: ``code`` says why in a word, ``message`` in words."""

    def __init__(self, code: str, message: str = "", what: str = "") -> None:
        super().__init__(f"{what}: {code}" + (f": {message}" if message else ""))
        self.code = code
        self.message = message


class Calls:
    """Calls to the host and their answers, ``most`` at once without an answer.  Any thread may make them."""

    def __init__(self, wire: Wire, most: int = _IN_FLIGHT) -> None:
        self._wire = wire
        self._most = most
        self._last = 0
        self._answers: dict[int, Frame] = {}
        self._wanted: set[int] = set()
        self._lock = threading.Lock()
        self._heard = threading.Condition(self._lock)
        #: Threads that wait for another one to listen.
        self._others = 0
        self._sending = threading.Lock()
        self._reading = False

    def begin(self, capability: str, operation: str, arguments: dict[str, object]) -> int:
        """Send a call; its number.  Raises TypeError that names the place of what is no plain data."""
        data = _fastness_encode.encode(arguments, _ARGUMENTS_CAP)
        if data is None:
            raise TypeError(_fastness_encode.offending(arguments))
        if len(self._wanted) - len(self._answers) >= self._most:
            self._make_room()
        what = f'"capability": {_quoted(capability)}, "operation": {_quoted(operation)}'
        with self._sending:
            number = self._last = self._last + 1
            self._wanted.add(number)
            self._wire.send(_CALL, f'{{"id": {number}, {what}}}'.encode(), data)
        return number

    def _make_room(self) -> None:
        """The host stops reading past its own count; so answers are taken in first, and kept for whoever waits."""
        while True:
            with self._lock:
                if len(self._wanted) - len(self._answers) < self._most:
                    return
                if self._reading:
                    self._wait()
                    continue
                self._reading = True
            self._listen()

    def wait(self, number: int, what: str) -> object:
        """The answer to a call.  Raises Refused."""
        try:
            while True:
                with self._lock:
                    frame = self._answers.pop(number, None)
                    if frame is not None:
                        self._wanted.discard(number)
                        break
                    if self._reading:
                        self._wait()
                        continue
                    self._reading = True
                self._listen()
        except BaseException:
            self.drop(number)
            raise
        return _value(*frame, what)

    def _wait(self) -> None:
        """Whoever has the lock: until the thread that listens for all has heard something."""
        self._others += 1
        try:
            self._heard.wait()
        finally:
            self._others -= 1

    def is_there(self, number: int) -> bool:
        """Whether the answer has come."""
        return number in self._answers

    def listen(self) -> None:
        """Take in what has come, where nobody else does."""
        with self._lock:
            if self._reading:
                return
            self._reading = True
        self._listen()

    def _listen(self) -> None:
        frames: list[Frame] = []
        try:
            frames = self._wire.receive()
        finally:
            with self._lock:
                self._reading = False
                for frame in frames:
                    # Whoever gave up has said so, and the two may have crossed.
                    if frame[0] in (_REPLY, _FAULT) and frame[1].get("id") in self._wanted:
                        self._answers[frame[1]["id"]] = frame
                if self._others:
                    self._heard.notify_all()
        # What came may be for whoever waits on the descriptor, which tells of it no more.
        for loop, waiters in list(_waiters.items()):
            if waiters:
                loop.call_soon_threadsafe(_wake, waiters)

    def drop(self, number: int) -> None:
        """Nobody waits for this answer any more."""
        with self._sending, self._lock:
            answered = self._answers.pop(number, None) is not None
            if number in self._wanted:
                self._wanted.discard(number)
                if not answered:
                    self._wire.send(_DROP, b'{"id": %d}' % number, b"")

    def log(self, level: str, text: str) -> None:
        """A line for the run's log."""
        if level not in _LEVELS:
            raise ValueError(f"a level is one of {', '.join(_LEVELS)}")
        with self._sending:
            self._wire.send(_LOG, json.dumps({"level": level, "text": str(text)[:4096]}).encode(), b"")

    def fileno(self) -> int:
        """The channel's descriptor."""
        return self._wire.fileno()


class Pending:
    """A call under way in an event loop, for ``await``.  One that nobody waits for is made all the same."""

    def __init__(self, calls: Calls, number: int, what: str) -> None:
        self._calls = calls
        self._number = number
        self._what = what

    def __await__(self) -> Generator[Any, None, object]:
        import asyncio

        loop = asyncio.get_running_loop()
        calls, number = self._calls, self._number
        waiters = _waiters.setdefault(loop, set())
        try:
            while not calls.is_there(number):
                try:
                    if not waiters:
                        loop.add_reader(calls.fileno(), calls.listen)
                except NotImplementedError:
                    # A loop that watches no descriptors, as in WebAssembly: nothing else could go on meanwhile.
                    calls.listen()
                    continue
                woken = loop.create_future()
                waiters.add(woken)
                try:
                    yield from woken
                finally:
                    waiters.discard(woken)
                    if not waiters:
                        loop.remove_reader(calls.fileno())
        except BaseException:
            calls.drop(number)
            raise
        return calls.wait(number, self._what)


_waiters: dict[Any, set[Any]] = {}


def _wake(waiters: Any) -> None:
    for woken in list(waiters):
        if not woken.done():
            woken.set_result(None)


def _in_loop() -> bool:
    # Without it nothing runs in a loop, and to import it takes long.
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Context:
    """What the run was granted.  What it was not granted is not here."""

    Refused = Refused

    def __repr__(self) -> str:
        return f"<ctx: {', '.join(name for name in vars(self)) or 'nothing is granted'}>"


class Capability:
    """One kind of power, with a function for each thing that may be done."""

    def __repr__(self) -> str:
        return f"<{', '.join(vars(self))}>"


def make(granted: list[dict[str, Any]], calls: Calls) -> Context:
    """The ctx of a run."""
    context = Context()
    context.log = calls.log  # type: ignore[attr-defined]  # attributes are what is granted
    for one in granted:
        function = _function(one, calls)
        if one["capability"] == TOP:
            setattr(context, one["operation"], function)
            continue
        # An operation may have a name of several words: each but the last is a holder of its own.
        holder: Any = context
        *words, last = one["capability"], *one["operation"].split(".")
        for word in words:
            holder = vars(holder).get(word) or _held(holder, word)
        setattr(holder, last, function)
    return context


def _held(holder: Any, word: str) -> Capability:
    made = Capability()
    setattr(holder, word, made)
    return made


def functions(granted: list[dict[str, Any]], calls: Calls, capability: str) -> dict[str, Callable[..., object]]:
    """The functions of one capability by their names, as names of a program."""
    return {one["operation"]: _function(one, calls) for one in granted if one["capability"] == capability}


_entered: list[tuple[Context, dict[str, Any]]] = []


def enter(told: dict[str, Any], wire: Callable[[], Wire], space: dict[str, object]) -> Callable[[], object] | None:
    """
    What an invoke tells of the ctx: ``space`` gets ``ctx`` and the host's functions, once in the life of a guest.

    Returns what is to be run in place of a program, where the invoke asks for a plugin's method.
    """
    if not _entered:
        granted = told["granted"]
        calls = Calls(wire(), told.get("in_flight") or _IN_FLIGHT)
        names: dict[str, Any] = {"ctx": make(granted, calls)}
        for capability in told.get("functions", ()):
            names.update(functions(granted, calls, capability))
        _entered.append((names["ctx"], names))
        space.update(names)
    plugin = told.get("plugin")
    return None if plugin is None else lambda: run(_entered[0][0], plugin)


def run(context: Context, plugin: dict[str, Any]) -> object:
    """What a plugin's method returns.  Raises what it raises, and AttributeError where there is none."""
    from _fastness_sources import bring

    method = getattr(bring(plugin["module"], plugin.get("sources")), plugin["method"])
    value = method(context, **_restore(plugin["arguments"]))
    if not hasattr(value, "__await__"):
        return value
    import asyncio

    async def outcome() -> object:
        return await value

    return asyncio.run(outcome())


def _function(one: dict[str, Any], calls: Calls) -> Callable[..., object]:
    capability, operation = one["capability"], one["operation"]
    names = [name for name, _ in one["parameters"]]
    required = [name for name, may_be_left_out in one["parameters"] if not may_be_left_out]
    what = operation if capability == TOP else f"{capability}.{operation}"

    def bound(values: tuple[object, ...], named: dict[str, object]) -> dict[str, object]:
        if len(values) > len(names):
            raise TypeError(f"{what}() takes {len(names)} arguments, and {len(values)} were given")
        arguments = dict(zip(names, values, strict=False))
        for name, value in named.items():
            if name not in names:
                raise TypeError(f"{what}() has no argument {name!r}; it has {', '.join(names) or 'none'}")
            if name in arguments:
                raise TypeError(f"{what}() got {name!r} twice")
            arguments[name] = value
        missing = [name for name in required if name not in arguments]
        if missing:
            raise TypeError(f"{what}() is missing {', '.join(missing)}")
        return arguments

    def call(*values: object, **named: object) -> object:
        plain = not named and len(values) == len(names)
        arguments = dict(zip(names, values, strict=True)) if plain else bound(values, named)
        number = calls.begin(capability, operation, arguments)
        return Pending(calls, number, what) if _in_loop() else calls.wait(number, what)

    call.__name__ = operation
    call.__qualname__ = what
    call.__doc__ = one.get("summary") or None
    if one.get("signature"):
        _show_signature(call, operation, one["signature"])
    return call


def _show_signature(call: Any, name: str, signature: str) -> None:
    """Have ``help`` and ``inspect.signature`` tell the parameters of the host's function."""
    shown: dict[str, Any] = {}
    try:
        # Annotations stay text, so that types which are not here are no error.
        exec(f"from __future__ import annotations\ndef {name}{signature}: ...", shown)
    except SyntaxError:
        return
    call.__wrapped__ = shown[name]


def _value(kind: int, head: dict[str, Any], blob: bytes, what: str) -> object:
    if kind == _FAULT:
        raise Refused(str(head.get("code")), str(head.get("message", "")), what)
    if not blob:
        return None
    tree = _scan(blob.decode(), 0)[0]
    return _restore(tree) if type(tree) in (list, dict) else tree


def _restore(tree: object) -> object:
    """Tagged JSON as plain data; the host is who wrote it."""
    if type(tree) is list:
        return [_restore(item) for item in tree]
    if type(tree) is not dict:
        return tree
    tag = tree.get("$")
    if tag is None or len(tree) != 1:
        return {key: _restore(item) for key, item in tree.items()}
    kind, *body = tag
    if kind == "float":
        return float(body[0])
    if kind == "int":
        return int(body[0], 16)
    if kind == "bytes":
        return base64.b64decode(body[0])
    if kind == "str":
        return base64.b64decode(body[0]).decode("utf-8", "surrogatepass")
    return {_restore(key): _restore(item) for key, item in zip(body[::2], body[1::2], strict=True)}

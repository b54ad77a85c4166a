"""
What runs inside the Python guest of the WASM tier, before and around user code.

The text of this file is executed once while a memory image is made, as a module called ``_fastness``; each run
then calls :func:`turn`.  It imports nothing of the host's package.  Nothing here is a wall: all of it is in the
guest's hands once user code runs.  It exists to make answers useful: the value of the last expression, a traceback
without our own frames, and claims about attempts that the guest's libc refuses before the host could see them.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import errno
import gc
import io
import json
import linecache
import os
import random  # noqa: F401  # preloaded: its generator is reseeded by the host in each run
import sys
import traceback
import types

# The encoder of values is a sibling file that the host puts in as a module of its own.
from _fastness_encode import encode, offending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: The descriptor on which the host hands in the request and takes the answer.
CHANNEL = 1000
#: The descriptor on which claims are told as they happen, one JSON line each.
CLAIMS = 1001
#: Bytes of an encoded value, and characters of a repr, that are sent at most.
VALUE_CAP = 1 << 20
REPR_CAP = 4096
MESSAGE_CAP = 2000
#: What is said of a method's result that is plain data and still cannot be sent.
_LARGE = "result is more than 1 MiB as JSON, or has too many lists and dicts in it"
CLAIMS_CAP = 64

_write = os.write
_stdout, _stderr, _stdin = sys.stdout, sys.stderr, [sys.stdin]
_claims: dict[tuple[str, str], int] = {}
_dropped = [0]
_BEGIN = frozenset({"socket", "subproc", "os.syst", "os.exec", "os.fork", "os.posi", "os.spaw", "ctypes."})
_session = False
#: The beginning of a request that says nothing of itself; what runs exit handlers; the names of all programs here.
_NOTHING, _run_exits, _main = bytes(4), atexit._run_exitfuncs, sys.modules["__main__"].__dict__
#: Names of ``__main__`` that are not user code's.
_NAMES = frozenset(("__name__", "__builtins__", "__doc__", "__loader__", "__package__", "__spec__"))


def _claim(operation: str, target: object) -> None:
    # The host takes 64 and 256 characters and no lone surrogates; both texts may be user code's.
    shown = [text[:256].encode("utf-8", "backslashreplace").decode() for text in (operation, str(target))]
    key = (shown[0][:64], shown[1][:256])
    if key in _claims:
        _claims[key] += 1
    elif len(_claims) < CLAIMS_CAP:
        _claims[key] = 1
        # Told at once: a run that is ended later has no other chance to tell it.
        try:
            _write(CLAIMS, json.dumps(key).encode() + b"\n")
        except OSError:
            pass  # user code closed the descriptor
    else:
        _dropped[0] += 1


def _audit(event: str, args: tuple[object, ...]) -> None:
    # Called for every audited event, so the common ones must leave at once.
    if event == "import":
        if args[0] in ("ctypes", "_ctypes"):
            _claim("ctypes.load", args[0])
    elif event[:7] in _BEGIN or event[:6] == "socket":
        target: object = ""
        if event == "socket.connect" or event == "socket.sendto":
            target = args[-1]
        elif event == "subprocess.Popen":
            target = args[1] if len(args) > 1 else args[0]
        elif args:
            target = args[0] if not event.startswith("socket.__new__") else ""
        _claim(event, target)


def _patch_event_loop() -> None:
    """asyncio wakes its loop through a socket pair, which this guest has none of; with one thread none is needed."""
    from asyncio import selector_events

    def make(self: object) -> None:
        self._ssock = self._csock = None  # type: ignore[attr-defined]
        self._internal_fds = 0  # type: ignore[attr-defined]

    def nothing(self: object) -> None:
        return None

    base = selector_events.BaseSelectorEventLoop
    base._make_self_pipe = make
    base._close_self_pipe = nothing
    base._write_to_self = nothing


def _patch_processes() -> None:
    """Starting a process fails in this guest before any audit event; say so first."""
    import subprocess

    start = subprocess.Popen.__init__

    def init(self: object, args: object = (), *rest: object, **named: object) -> None:
        sys.audit("subprocess.Popen", "", args, None, None)
        start(self, args, *rest, **named)

    subprocess.Popen.__init__ = init
    if not hasattr(os, "system"):

        def system(command: object) -> int:
            sys.audit("os.system", command)
            raise OSError(errno.ENOTSUP, "this guest has no processes")

        os.system = system


def _patch_native() -> None:
    """ctypes imports here and can do nothing; an attempt to load a library is worth telling."""
    try:
        import ctypes
    except ImportError:
        return
    start = ctypes.CDLL.__init__

    def init(self: object, name: object = None, *rest: object, **named: object) -> None:
        _claim("ctypes.load", name)
        start(self, name, *rest, **named)

    ctypes.CDLL.__init__ = init


def _patch_names() -> None:
    """Names cannot be looked up here, and the functions for it are missing altogether: an error says more."""
    import _socket

    def lookup(event: str) -> object:
        def refuse(host: object = "", *rest: object, **named: object) -> None:
            sys.audit(event, host, *rest)
            raise _socket.gaierror(-4, "this guest has no network, and no names can be looked up")

        return refuse

    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo"):
        if not hasattr(_socket, name):
            setattr(_socket, name, lookup("socket." + name))


def _patch_exits() -> None:
    """The artefact's own ``exit`` and ``quit`` end its session instead of raising, which no ``except`` would see."""

    def leave(code: object = None) -> None:
        raise SystemExit(code)

    leave.__name__ = leave.__qualname__ = "exit"
    builtins.exit = builtins.quit = leave


def _read_request() -> bytes:
    """The request: a length in eight bytes, then as much.  Small reads: a large buffer would dirty far pages."""
    data = os.read(CHANNEL, 8192)
    size = 8 + int.from_bytes(data[:8], "little")
    if len(data) >= size:
        return data[8:size]
    parts = [data[8:]]
    left = size - len(data)
    while left > 0 and (part := os.read(CHANNEL, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _answer(fields: dict[str, object], value: bytes | None = None) -> None:
    claims = [{"operation": o, "target": t, "count": n} for (o, t), n in _claims.items()]
    if claims:
        fields["claims"] = claims
        fields["claims_dropped"] = _dropped[0]
    head = json.dumps(fields).encode()
    if value is not None:
        head = head[:-1] + b', "value": ' + value + b"}"
    view = memoryview(head)
    while view:
        view = view[os.write(CHANNEL, view) :]


#: What makes the channel for calls, as the kind of guest has it.
_wire: list[Callable[[], object]] = []


def _renew_stdin() -> None:
    """In a session each request has an input of its own, and what is left in the reader's buffer is not part of it."""
    old = _stdin[0]
    if sys.stdin is old:
        raw = io.FileIO(0, "r", closefd=False)
        new = io.TextIOWrapper(io.BufferedReader(raw), encoding=old.encoding, errors=old.errors)
        _stdin[0] = sys.stdin = sys.__stdin__ = new


def _compile(source: str, filename: str) -> tuple[object, object]:
    """The statements, and the last expression apart so that its value can be had."""
    try:
        if source.isprintable() and source[:1] != " ":
            try:  # one line is mostly one expression, and that takes no tree
                return None, compile(source, filename, "eval")
            except SyntaxError:
                pass  # what is wrong with it, if anything is, the tree will say
        tree = compile(source, filename, "exec", ast.PyCF_ONLY_AST)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
            last = compile(last, filename, "eval")
        body = compile(tree, filename, "exec") if tree.body else None
        return body, last
    except (MemoryError, RecursionError):
        raise SyntaxError("the source is nested too deeply for the parser") from None


#: Files of frames that tell a reader nothing about their own code: ours, and the importing of it.
_OURS = ("<fastness", "<_fastness", "<frozen importlib")


def _print_traceback(error: BaseException, source: str, filename: str) -> None:
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    steps = []
    trace = error.__traceback__
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_OURS):
            steps.append(trace)
        trace = trace.tb_next
    for step, after in zip(steps, [*steps[1:], None], strict=False):
        step.tb_next = after
    trace = steps[0] if steps else None
    text = "".join(traceback.format_exception(type(error), error.with_traceback(trace), trace))
    if isinstance(error, ModuleNotFoundError):
        # A guest has no site on purpose, and there is nothing for its author to add to the path.
        head, hint, _ = text.rpartition(". Site initialization is disabled")
        text = head + "\n" if hint else text
    _stderr.write(text)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, _stdout, _stderr):
        try:
            stream.flush()
        except BaseException:  # noqa: BLE001  # the stream may be the user's; a fault in it must not hide the answer
            pass


def _describe(error: BaseException) -> tuple[str, str]:
    try:
        message = str(error)[:MESSAGE_CAP]
    except BaseException:  # noqa: BLE001  # a user's __str__
        message = ""
    return type(error).__name__[:200], message.encode("utf-8", "backslashreplace").decode()


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        # As a process of POSIX would: one byte, and 255 for what no C integer holds.
        return int(code) & 0xFF if -(1 << 31) <= code < 1 << 31 else 0xFF
    print(code, file=_stderr)
    return 1


def _finish(space: dict[str, object]) -> None:
    """
    What the end of an interpreter would do: exit handlers, then user code's names, last first.

    A file that nobody closed is written out when its name goes.
    """
    _run_exits()
    for name in list(space)[::-1]:
        if name not in _NAMES:
            space.pop(name, None)


def _enter(told: dict[str, object], space: dict[str, object]) -> Callable[[], object] | None:
    """The ctx of this guest becomes a name of its program; returns what runs in place of a program, if anything."""
    from _fastness_context import enter

    return enter(told, _wire[0], space)


def turn() -> None:
    """Run one request from the channel and answer on it."""
    global _session
    data, start, filename, context, space = _read_request(), 4, "<run>", None, _main
    if _session:
        _renew_stdin()
        _claims.clear()
        _dropped[0] = 0
    # Most say nothing of themselves, and then nothing is looked for: what is would be copied for a new process.
    if data[:4] > _NOTHING:
        start += int.from_bytes(data[:4], "little")
        head = json.loads(data[4:start])
        filename, context = head.get("filename") or filename, head.get("context")
        if head.get("warm"):
            gc.freeze()
        if not _session:
            sys.argv[:] = [head.get("filename") or "-c", *head.get("args", ())]
            os.environ.update(head.get("env", ()))
        _session = bool(head.get("session"))
        if head.get("file"):
            space["__file__"] = head["file"]
    elif _session:
        _session = False
    source = data[start:].decode("utf-8", "surrogatepass")
    value = None
    fields: dict[str, object]
    try:
        try:
            instead = _enter(context, space) if context is not None else None
            if instead is not None:
                value = instead()
            else:
                body, last = _compile(source, filename)
                if body is not None:
                    exec(body, space)
                if last is not None:
                    value = eval(last, space)
            encoded, shown = _encode(value)
            if shown is not None and instead is not None:
                # A program may end with any value; a method was asked for one.
                raise TypeError(offending({"result": value}, _LARGE))
            fields = {"kind": "ok"}
            if shown is not None:
                fields["value_repr"] = shown
            if not _session:
                _finish(space)
            _flush()
            _answer(fields, encoded)
            return
        except SystemExit as error:
            fields = {"kind": "exit", "exit_code": _exit_code(error.code)}
        except MemoryError as error:
            # Free what the failed code held before anything else is allocated.
            traceback.clear_frames(error.__traceback__)
            fields = {"kind": "exception", "error_type": "MemoryError", "error_message": str(error)[:MESSAGE_CAP]}
            _stderr.write("MemoryError: the run needed more memory than its limit allows\n")
        except BaseException as error:  # noqa: BLE001  # whatever user code raises is its answer
            name, message = _describe(error)
            if name == "MemoryError":
                name = "__main__.MemoryError"  # the real one is handled above
            fields = {"kind": "exception", "error_type": name, "error_message": message}
            if isinstance(error, OSError) and isinstance(error.errno, int) and abs(error.errno) < 1 << 31:
                fields["errno"] = error.errno
            _print_traceback(error, source, filename)
        if not _session:
            _finish(space)
    finally:
        value = None
    _flush()
    _answer(fields)


def _encode(value: object) -> tuple[bytes | None, str | None]:
    if value is None:
        return None, None
    encoded = encode(value, VALUE_CAP)
    if encoded is not None:
        return encoded, None
    try:
        text = repr(value)
    except BaseException as error:  # noqa: BLE001  # a user's __repr__
        text = f"<{type(value).__name__}: repr raised {type(error).__name__}>"
    if type(text) is not str:
        text = str.__str__(text)
    if len(text) > REPR_CAP:
        text = text[:REPR_CAP] + "..."
    return None, text.encode("utf-8", "backslashreplace").decode()


def warm(preload: list[str]) -> None:
    """Import what every run should find imported, and go once through the slow first times."""
    import asyncio

    _patch_event_loop()
    _patch_processes()
    _patch_names()
    _patch_native()
    _patch_exits()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)
    for name in preload:
        __import__(name)
        if name == "matplotlib":
            _warm_matplotlib()
        if name == "pandas":
            _warm_pandas()
    asyncio.run(asyncio.sleep(0))
    try:
        exec(compile("def f():\n  1/0\nf()\n", "<run>", "exec"), {})
    except ZeroDivisionError as error:
        "".join(traceback.format_exception(error))
    sys.argv[:] = ["-c"]
    for name in list(_main):
        if name not in _NAMES:
            del _main[name]
    builtins.__dict__.pop("_", None)
    linecache.clearcache()
    os.chdir("/work")
    sys.addaudithook(_audit)
    gc.collect()


def _warm_pandas() -> None:
    import pandas

    frame = pandas.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "x"]})
    repr(frame.groupby("b").sum())


def _warm_matplotlib() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure()
    plt.plot([1, 2, 3])
    plt.title("x")
    figure.savefig(io.BytesIO())
    plt.close(figure)


def generators() -> list[dict[str, object]]:
    """Where the Mersenne Twisters of this image are: address, size and first words, for the host to reseed."""
    found = []
    _, state, _ = (instance := random._inst).getstate()
    found.append({"address": id(instance), "size": sys.getsizeof(instance), "words": list(state[:8])})
    legacy = sys.modules.get("numpy.random")
    if legacy is not None:
        generator = legacy.mtrand._rand._bit_generator
        words = [int(word) for word in generator.state["state"]["key"][:8]]
        found.append({"address": id(generator), "size": sys.getsizeof(generator), "words": words})
    return found


_module = types.ModuleType  # kept so that a run which deletes names from `types` does not break the boot code

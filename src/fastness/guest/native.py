"""
What runs inside a native Python guest, around user code: the conversation with the host, and turns of the boot code.

Its text is executed in a zygote, as a module called ``_fastness_native``, beside the boot code that all Python guests
share.  It imports nothing of the host's package.  Nothing here is a wall: all of it is in the guest's hands once user
code runs, and the host trusts no byte that it writes.
"""

from __future__ import annotations

import _random
import _thread
import array
import functools
import gc
import io
import json
import os
import random
import select
import socket
import struct
import sys
import threading

import _fastness as boot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    #: Its kind, its head, its blob.
    Frame = tuple[int, dict[str, Any], bytes]

# By names of their own: to go by way of a module, or of a flag's name, is one page more to copy in each guest.
_CLOEXEC, _collect, _threads = int(socket.MSG_CMSG_CLOEXEC), gc.enable, _thread._count
_at_exits = threading._threading_atexits
#: As it was before anything foreign was imported, which may have put something else in its place.
_environment = os.environ
_HEADER = struct.Struct(">BBHII")
_HEAD = _HEADER.size
#: As json.loads, for a text with nothing around its value.
_scan = json.JSONDecoder().scan_once
_START, _INVOKE, _REPLY, _FAULT = 1, 2, 4, 5
_HELLO, _READY, _EVENT, _RESULT = 0x41, 0x42, 0x46, 0x48
#: Bytes of an answer; the host refuses a larger one, and a refusal says less than a value that is left out.
_ANSWER_CAP = (4 << 20) - 4096

#: Seconds without work after which a guest that was made ahead sees to what the next one will need.
_QUIET_S = 0.005
#: How often a zygote goes through a run before it makes guests: more than the interpreter needs to make code quick.
_PRACTISE = 20
#: Bytes of the conversation that are taken in at once.
_PIECE = 4096

_OK: dict[str, object] = {"kind": "ok"}

_talk: list[socket.socket] = []
#: What of the conversation was taken in and not looked at yet.
_left = [b""]
_request = [b""]
_NOTHING = bytes(4)
_answers: list[bytes] = []
_folder = ["/work"]
_settled = [""]
#: What gives this guest random numbers of its own, where the interpreter has not done so at the fork.
_generators: list[Callable[[], object]] = []
_seeded: list[bool] = []
_sending = threading.Lock()
#: Frames that one thread has taken in for another: answers to calls, and whatever else the host says.
_answered: list[Frame] = []
_told: list[Frame] = []
_lock = threading.Lock()
_frames = threading.Condition(_lock)
_reading: list[bool] = []
#: Threads that wait for another one to read.
_others: list[bool] = []
#: What fills the free places of the zygote's memory.
_filling: list[object] = []
#: Bytes of a pool of the interpreter's allocator and of what is at its beginning, and how many are filled at most.
_POOL, _POOL_HEAD = 1 << 14, 48
_POOLS_MOST = 64
#: Whether this guest has a ctx, so that other threads may listen too.
_called: list[bool] = []


def _frame(kind: int, head: dict[str, object], blob: bytes = b"") -> bytes:
    text = json.dumps(head).encode()
    return _HEADER.pack(1, kind, 0, len(text), len(blob)) + text + blob


def _send(frames: bytes) -> None:
    # Threads of a program may make calls while another one answers.
    with _sending:
        _talk[0].sendall(frames)


def _read(size: int) -> bytes:
    """What the host has sent, so many bytes of it at most; a descriptor that comes with it becomes standard input."""
    data, rights, _, _ = _talk[0].recvmsg(size, 32, _CLOEXEC)
    for level, kind, content in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            for fd in array.array("i", content[: len(content) // 4 * 4]):
                os.dup2(fd, 0)
                os.close(fd)
    if not data:
        # The host has no more use for this guest.
        os._exit(0)
    return data


def _arrived() -> list[Frame]:
    """
    The host's next frames, one at least, as many as there are.

    What is kept is less than a frame, so that whoever waits for an answer on the descriptor sees what is to come.
    """
    while True:
        data = _left[0]
        found, at, missing = [], 0, 0
        while not missing:
            missing = _HEAD - (len(data) - at)
            if missing > 0:
                break
            _, kind, _, head_size, blob_size = _HEADER.unpack_from(data, at)
            start = at + _HEAD
            middle = start + head_size
            end = middle + blob_size
            missing = max(0, end - len(data))
            if not missing:
                # The first word has nothing in it that this guest needs to know.
                head = {} if kind == _START else _scan(data[start:middle].decode(), 0)[0]
                found.append((kind, head, data[middle:end]))
                at = end
        _left[0] = data[at:]
        if found:
            return found
        parts = [_left[0]]
        while missing > 0:
            # What comes next is likely to be there too.
            parts.append(_read(min(max(missing, _PIECE), 1 << 20)))
            missing -= len(parts[-1])
        _left[0] = b"".join(parts)


def _heard(kinds: list[Frame]) -> list[Frame]:
    """The host's next frames of one of the two kinds, one at least, whichever thread it is that reads them."""
    while True:
        with _lock:
            while not kinds and _reading:
                _others.append(True)
                try:
                    _frames.wait()
                finally:
                    _others.pop()
            if kinds:
                found = kinds[:]
                kinds.clear()
                return found
            _reading.append(True)
        come: list[Frame] = []
        try:
            come = _arrived()
        finally:
            with _lock:
                _reading.clear()
                for frame in come:
                    (_answered if frame[0] in (_REPLY, _FAULT) else _told).append(frame)
                if _others:
                    _frames.notify_all()


class _Wire:
    """The channel as calls to the host use it."""

    def send(self, kind: int, head: bytes, blob: bytes) -> None:
        _send(_HEADER.pack(1, kind, 0, len(head), len(blob)) + head + blob)

    def receive(self) -> list[Frame]:
        return _heard(_answered)

    def fileno(self) -> int:
        return _talk[0].fileno()


def _answer(fields: dict[str, object], value: bytes | None = None) -> None:
    # What most runs answer is written down already.
    text = b'{"kind": "ok"}' if fields == _OK else json.dumps(fields).encode()
    if value is not None:
        text = text[:-1] + b', "value": ' + value + b"}"
    _answers.append(text[:_ANSWER_CAP])


def _finish(space: dict[str, object]) -> None:
    # As at the end of any Python program: threads that are no daemons are waited for first, where there are any.
    if _threads() or _at_exits:
        threading._shutdown()
    _ends(space)


_ends = boot._finish


def prepare() -> None:
    """Everything that is the same in each guest, done once in the zygote."""
    boot._read_request = lambda: _request[0]
    boot._answer = _answer
    boot._finish = _finish
    boot._wire.append(_Wire)
    boot._patch_exits()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)
    if "numpy" in sys.modules:
        # What a guest does at its birth must not import anything.
        import numpy.random  # noqa: F401
    if "pandas" in sys.modules:
        boot._warm_pandas()
    if "matplotlib" in sys.modules:
        boot._warm_matplotlib()
    _rehearse()
    sys.argv[:] = ["-c"]
    boot.linecache.clearcache()


def settle(talk: socket.socket, places: tuple[str, str] | None, *, reseeded: bool) -> None:
    """
    In the zygote, once it makes guests: their conversation, and their two folders where all have the same.

    ``reseeded`` says that the interpreter itself sees to the generator of the random module at each fork.
    """
    _talk.append(talk)
    if not reseeded:
        # As random.seed() does, of which all else has been done by this.
        random.seed()
        _generators.append(functools.partial(_random.Random.seed, random._inst))
    if "numpy.random" in sys.modules:
        _generators.append(functools.partial(_reseed_numpy, None))
    if places is not None:
        live_in(*places)


def live_in(folder: str, temporary: str) -> None:
    """Let a guest have its two folders; in the zygote, before it forks, where each guest has others."""
    if _settled[0] == folder:
        return
    if _settled[0] and _settled[0] in sys.path:
        sys.path.remove(_settled[0])
    _settled[0] = _folder[0] = folder
    sys.path.insert(0, folder)
    # Not by way of os.environ: several functions encode for it, and all of them are copied after a fork.
    for name, path in ((b"HOME", folder), (b"TMPDIR", temporary), (b"MPLCONFIGDIR", temporary + "/matplotlib")):
        _environment._data[name] = value = path.encode("utf-8", "surrogateescape")  # type: ignore[attr-defined]  # private
        os.putenv(name, value)


def _rehearse() -> None:
    """Go once through what every run does, so that no guest pays for first times; leaves nothing behind."""
    space = {"__name__": "__main__"}
    stdout = sys.stdout
    sys.stdout = io.StringIO()
    try:
        body, last = boot._compile("def f():\n  return 1\nprint(f())\n[1, 2.5, 'x', {'a': None}]\n", "<run>")
        exec(body, space)
        boot._encode(eval(last, space))
        json.loads(json.dumps({"kind": "ok", "x": [1.5, "a"]}))
        _HEADER.unpack(_HEADER.pack(1, _RESULT, 0, 2, 3))
    finally:
        sys.stdout = stdout
    try:
        exec(compile("1/0", "<run>", "exec"), {})
    except ZeroDivisionError as error:
        "".join(boot.traceback.format_exception(error))


class _Nobody:
    """A host that answers the first call."""

    def send(self, kind: int, head: bytes, blob: bytes) -> None:
        pass

    def receive(self) -> list[Frame]:
        return [(_REPLY, {"id": 1}, b'{"a": [1, {"$": ["bytes", "AA=="]}]}')]


def _rehearse_calls() -> None:
    """Go once through a call, and through a plugin's method; leaves nothing behind."""
    context: Any = sys.modules["_fastness_context"]
    # As much as most plugins are told: what it takes is there for them afterwards.
    one = {"capability": "a", "parameters": [["c", False]], "signature": "", "summary": "d" * 40}
    name = "_fastness_rehearsed"
    text = 'def f(ctx, name):\n    return f"{name} {ctx!r}"\n'
    plugin = {"module": name, "method": "f", "arguments": {"name": "x"}, "sources": {name + ".py": text}}
    told = {"granted": [{**one, "operation": f"b{number}"} for number in range(8)], "plugin": plugin}
    told = json.loads(json.dumps({"context": told}))["context"]
    ctx = context.make(told["granted"], context.Calls(_Nobody()))
    ctx.a.b0([1, "x"])
    path, finders, written = sys.path[:], sys.meta_path[:], sys.dont_write_bytecode
    try:
        context.run(ctx, told["plugin"])
    finally:
        sys.path[:], sys.meta_path[:], sys.dont_write_bytecode = path, finders, written
        sys.modules.pop(name, None)


def gather() -> None:
    """
    In the zygote, last of all: have what guests allocate lie together.

    Small objects come from pools of one size each, and the free places of a well-used interpreter are all over its
    memory, where each costs a guest a copy of its page.  So they are filled, and what is allocated next is at the
    beginning of new pools.
    """
    for size in range(16, 513, 16):
        before = 0
        for _ in range(_POOLS_MOST * _POOL // size):
            one: object = object() if size == 16 else float(size) if size == 32 else bytes(size - 33)
            _filling.append(one)
            place = id(one)
            # The second place of a pool right after the first, which follows the pool's own words.
            if place - before == size and before % _POOL == _POOL_HEAD:
                break
            before = place


def practise() -> None:
    """
    In the zygote, last of all: go through whole runs, talking to nobody, and leave nothing behind.

    The interpreter makes its code quicker as it is run, remembers where attributes are found, and the linker where
    functions are.  All of that writes to memory, which a guest that did it for the first time would have copied.
    """
    try:
        for fd in range(3):
            os.fstat(fd)
    except OSError:
        # A package has closed it, and what is opened now would take its place.
        return
    ours, theirs = socket.socketpair()
    kept, _talk[:] = _talk[:], [theirs]
    # Without what a program's end is to others: packages that were imported have handlers for theirs.
    boot._finish, exits, boot._run_exits = _ends, boot._run_exits, lambda: None
    try:
        for number in range(_PRACTISE):
            code = b"print(1)" if number % 2 else b"x = 1\nprint(x)\n[x]\n"
            ours.sendall(_frame(_START, {}) + _frame(_INVOKE, {"id": 1, "code_len": len(code)}, code))
            while (frames := _arrived())[-1][0] != _INVOKE:
                pass
            _turn(*frames[-1][1:])
            ours.recv(_PIECE)
    finally:
        _talk[:], boot._finish, boot._run_exits = kept, _finish, exits
        ours.close()
        theirs.close()


def _reseed(seed: int) -> None:
    random.seed(seed)
    _reseed_numpy(seed)


def _reseed_numpy(seed: int | None) -> None:
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        numpy.random.seed(None if seed is None else seed & 0xFFFFFFFF)


def greeting(layers: dict[str, str], gaps: list[tuple[str, str]]) -> bytes:
    """The first words of a guest: that it is one, and what confines it."""
    return _frame(_HELLO, {"protocol": 1, "guest": "python"}) + _frame(_READY, {"layers": layers, "gaps": gaps})


def serve(talk: int, folder: str, temporary: str, said: bytes, ahead: bool, calls: bool = False) -> None:
    """
    Greet the host with ``said``, unless it was, and take turns until it is done.  Never returns.

    ``ahead`` is a guest that nobody waits for yet, ``calls`` one that will most likely be told to call the host.
    """
    if not _talk:
        _talk.append(socket.socket(fileno=talk))
    if _settled[0] != folder:
        live_in(folder, temporary)
    for reseed in _generators:
        reseed()
    _collect()
    if said:
        # The host's first word was there before this guest was, and takes no answer but this.
        _send(said)
    try:
        while True:
            # A thread that waits for an answer may be the one that listens.
            for kind, head, blob in _heard(_told) if _called else _arrived():
                if kind == _INVOKE:
                    # What is another's code by then is not run through for practice.
                    ahead = False
                    _turn(head, blob)
            if ahead:
                ahead = False
                if not select.select(_talk, [], [], _QUIET_S)[0]:
                    _touch(calls)
    finally:
        # Only where user code broke this too; a traceback would show paths of the host.
        os._exit(1)


def _touch(calls: bool) -> None:
    """Touch now what a run will need, in a guest that has the time: the kernel copies a page when it is written to."""
    try:
        _rehearse()
        if calls:
            _rehearse_calls()
    except Exception:  # noqa: BLE001  # it may have a run's limits by now, and the run will tell
        pass


def _turn(head: dict[str, object], blob: bytes) -> None:
    # Most have no more than their number, what is to be done, and the length of the code.
    more = len(head) != 3 or "code_len" not in head
    session = more and bool(head.get("session"))
    asked: dict[str, object] = {}
    if more and head.get("filename"):
        asked["filename"] = head["filename"]
        asked["file"] = _folder[0] + "/" + str(head["filename"]).rpartition("/")[2]
    if more:
        asked |= {name: head[name] for name in ("args", "env") if head.get(name)}
    if session:
        asked["session"] = True
    if more and head.get("seed") is not None and not _seeded:
        # Once: a session draws on from one execute to the next.
        _seeded.append(True)
        _reseed(head["seed"])
    told = json.dumps(asked).encode() if asked else b""
    code = blob[: head.get("code_len", 0)]
    if more and head.get("context_len"):
        _called.append(True)
        context = b'"context": ' + blob[-head["context_len"] :]
        told = told[:-1] + b", " + context + b"}" if asked else b"{" + context + b"}"
    _request[0] = (len(told).to_bytes(4, "little") + told if told else _NOTHING) + code
    try:
        boot.turn()
    except BaseException as error:  # noqa: BLE001  # user code broke the boot code: no answer is an answer
        boot._stderr.write(f"{type(error).__name__}: the run ended without an answer\n")
    _request[0] = b""
    payload = _answers.pop() if _answers else b""
    _answers.clear()
    state = "kept" if session else "none"
    text = f'{{"id": {head["id"]}, "ending": "returned", "payload_len": {len(payload)}, "session_state": "{state}"}}'
    result = text.encode()
    _send(_HEADER.pack(1, _RESULT, 0, len(result), len(payload)) + result + payload)

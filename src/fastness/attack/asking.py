"""
What a guest asks of its host: a broker with a small desk behind it, and a careless host that does all that it is asked.

The desk knows its visitors: each owner has notes, and the secret is in those of another one.  Beside it stands an
adapter that reads any file of this machine, which no policy here allows.  The careless host has the same, and believes
what a guest says of itself; it says how it came to harm, so that a control cannot succeed by the harm of another.
"""

from __future__ import annotations

import asyncio
import enum
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fastness.attack.model import Effect
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.broker.trail import Intent
from fastness.capability import CallContext, Operation, Scope, Spec
from fastness.waiting import drive

if TYPE_CHECKING:
    from fastness.attack.arena import Arena
    from fastness.runs import RunResult

#: Seconds after which a slow call has its effect, where nothing ends it.
SLOW_S = 1.0
#: Calls at once that a run may have.
AT_ONCE = 16
#: The descriptor on which the careless host's guests make calls.
_CHANNEL = 3

#: ``call`` asks by hand, past whatever ``ctx`` would check; ``answer`` takes what comes, or None.
_GUEST = """
import json, os, struct

def put(data):
    view = memoryview(data)
    while view:
        view = view[os.write(CHANNEL, view):]

def frame(kind, head, blob=b'', head_size=None, blob_size=None):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    head_size = len(text) if head_size is None else head_size
    blob_size = len(blob) if blob_size is None else blob_size
    put(struct.pack('>BBHII', 1, kind, 0, head_size, blob_size) + text + blob)

def call(id, capability, operation, arguments=b'{}', **more):
    blob = arguments if isinstance(arguments, bytes) else json.dumps(arguments).encode()
    frame(0x43, {'id': id, 'capability': capability, 'operation': operation, **more}, blob)

def take(size):
    data = b''
    while len(data) < size:
        part = os.read(CHANNEL, size - len(data))
        if not part:
            return None
        data += part
    return data

def answer():
    header = take(12)
    if header is None:
        return None
    _, kind, _, head, blob = struct.unpack('>BBHII', header)
    return kind, take(head), take(blob)
"""

#: Serves each of ``CODES`` in a child that has the other end of one channel.
_HOST = """
import json, os, signal, socket, struct, threading, time, traceback

MUCH = 32 << 20
END = time.monotonic() + 8

class Harm(Exception):
    pass

class Host:
    def __init__(self, link, pid):
        self.link, self.pid, self.kept, self.pending, self.now = link, pid, 0, b'', 0

    def gone(self):
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def receive(self, size):
        # What it makes room for is bounded for the sake of the machine.
        room, came, gone = bytearray(min(size, 2 * MUCH)), 0, False
        end = min(time.monotonic() + 1.5, END)
        self.link.settimeout(0.03)
        while came < size:
            try:
                data = self.link.recv(min(size - came, 1 << 20))
            except TimeoutError:
                # What a guest sent just before its end is looked for once more.
                if not gone and time.monotonic() < end:
                    gone = self.gone()
                    continue
                raise Harm('RESERVED') if len(room) > MUCH and not came else EOFError
            if not data:
                raise Harm('RESERVED') if len(room) > MUCH and not came else EOFError
            room[came : came + len(data)] = data
            came += len(data)
            if came > MUCH:
                raise Harm('COLLECTED')
        return bytes(room)

    def message(self):
        _, kind, _, head, blob = struct.unpack('>BBHII', self.receive(12))
        return kind, self.receive(head), self.receive(blob)

    def keep(self, data):
        self.kept += len(data) + 16
        if self.kept > MUCH:
            raise Harm('HOARDED')

    def do(self, kind, head, blob):
        told = json.loads(head)
        if kind != 0x43:
            return self.keep(head)
        asked = json.loads(blob)
        what = told['capability'], told['operation']
        value = None
        if what == ('fs', 'read'):
            value = open(asked['path']).read()
        elif what == ('notes', 'read'):
            value = NOTES[told.get('owner') or asked.get('owner') or 'mine']
        elif what == ('notes', 'large'):
            value = 'x' * asked['size']
        elif what == ('notes', 'slow'):
            threading.Timer(SLOW_S, lambda: open(MARK_FILE, 'w').close()).start()
            self.now += 1
            if self.now > 2 * AT_ONCE:
                raise Harm('CROWDED')
            return
        text, head = json.dumps(value).encode(), json.dumps({'id': told['id']}).encode()
        self.send(struct.pack('>BBHII', 1, 4, 0, len(head), len(text)) + head + text)

    def send(self, data):
        # Whatever does not go now is kept until it does.
        self.pending += data
        self.link.settimeout(0.05)
        try:
            while self.pending:
                self.pending = self.pending[self.link.send(self.pending[: 1 << 16]) :]
        except (TimeoutError, OSError):
            self.kept = 0
            self.keep(self.pending)

    def serve(self):
        try:
            while time.monotonic() < END:
                self.do(*self.message())
        except Harm as harm:
            return str(harm)
        except RecursionError:
            return 'FELL'
        except EOFError:
            pass
        return 'unharmed'

link, guest = socket.socketpair()
# The guests are started by a process that has no other end of it.
for code in CODES:
    pid = os.fork()
    if pid == 0:
        try:
            link.close()
            os.dup2(guest.fileno(), CHANNEL)
            exec(compile(code, '<guest>', 'exec'), {'__name__': '__main__'})
        except BaseException:
            traceback.print_exc()
        finally:
            os.sys.stdout.flush()
            os._exit(0)
    print(Host(link, pid).serve(), flush=True)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
for timer in threading.enumerate():
    if timer is not threading.current_thread():
        timer.join()
"""


class Harm(enum.Enum):
    """What came of doing what a guest asks.  Closed; the names are the words of the careless host."""

    RESERVED = "made room for a length that nothing followed"
    COLLECTED = "collected whatever came"
    HOARDED = "kept more than it can"
    CROWDED = "had more under way at once than it can"
    FELL = "fell over arguments that are nested deeply"


class NotesScope(Scope, frozen=True, tag="notes"):
    """One's own notes."""


class FilesScope(Scope, frozen=True, tag="fs"):
    """Any file."""


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No arguments."""


class Size(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many bytes."""

    size: int = 0


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which file."""

    path: str


def _spec(kind: str, scope: type[Scope], operations: dict[str, type[msgspec.Struct]]) -> Spec:
    return Spec(
        kind=kind,
        scope=scope,
        operations=tuple(
            Operation(name=name, arguments=arguments, target=lambda given: "", summary="")
            for name, arguments in operations.items()
        ),
        meet=lambda asked, allowed: asked,
        exceeds=lambda asked, allowed: [],
        risk=lambda scope: "",
        enforced=(),
    )


class Desk:
    """The adapters of one attempt.  ``most`` is how many calls were ever under way at once."""

    notes = _spec("notes", NotesScope, {"read": Nothing, "large": Size, "slow": Nothing})
    files = _spec("fs", FilesScope, {"read": Place})

    def __init__(self, arena: Arena, kind: str) -> None:
        self.arena = arena
        self.spec = self.files if kind == "fs" else self.notes
        self.now = self.most = 0

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Do what is asked, on behalf of whom the broker says."""
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if self.spec is self.files:
                return Path(arguments.path).read_text()  # noqa: ASYNC240  # a small file, in an attempt
            if operation == "large":
                return "x" * arguments.size
            if operation == "slow":
                await asyncio.sleep(SLOW_S)
                self.arena.mark_file.touch()
                return None
            return self.arena.token if context.owner == "other" else "nothing"
        finally:
            self.now -= 1

    async def aclose(self) -> None:
        """Nothing is held."""


class _Nowhere:
    def intend(self, intent: Intent) -> int:
        return 1

    def done(
        self,
        number: int,
        intent: Intent,
        *,
        code: str,
        micros: int,
        bytes_in: int,
        bytes_out: int,
        cost: int = 0,
        dropped: int = 0,
    ) -> None:
        pass

    def refused(self, intent: Intent, *, code: str) -> None:
        pass


def channel(arena: Arena) -> int:
    """The descriptor on which guests of the tier under attack make calls."""
    return 1002 if arena.tier == "wasm" else 3


def program(arena: Arena, code: str, **facts: Any) -> str:
    """A guest's program that can ask by hand."""
    return arena.python(_GUEST + code, CHANNEL=channel(arena), **facts)


def ask(arena: Arena, code: str, *, owner: str = "mine", **options: Any) -> tuple[RunResult, Desk]:
    """A run in the tier under attack that was granted notes, on behalf of ``owner``, and nothing else."""
    desk, files = Desk(arena, "notes"), Desk(arena, "fs")
    gate = Gate({"notes": NotesScope()}, {"notes": desk.notes, "fs": desk.files}, {"notes": desk, "fs": files})
    calls = RunCalls(
        gate,
        _Nowhere(),
        run="r",
        plugin="p",
        owner=owner,
        calls=10_000,
        value_bytes=4 << 20,
        deadline=time.monotonic() + 30,
    )
    sandbox = arena.box._sandbox()
    request = sandbox._request(program(arena, code), {"timeout": 10, **options})
    return arena.came(drive(sandbox._runner.run(request, calls))), desk


def careless(arena: Arena, *codes: str) -> Any:
    """The control: the same codes, one after another, before the careless host, whatever the tier."""
    return arena.outside.run(
        arena.python(
            _HOST,
            CODES=[arena.python(_GUEST + code, CHANNEL=_CHANNEL) for code in codes],
            CHANNEL=_CHANNEL,
            NOTES={"mine": "nothing", "other": arena.token},
            SLOW_S=SLOW_S,
            AT_ONCE=AT_ONCE,
        )
    )


def harmed(arena: Arena, harm: Harm, code: str) -> Effect:
    """The control where the host is what is at stake: it came to this harm, and no other."""
    bare = careless(arena, code)
    said = bare.stdout_bytes.decode().split()
    if said == [harm.name]:
        return Effect(True, f"a host that does as it is told {harm.value}")
    return Effect(False, f"a host that does as it is told is {' '.join(said) or 'silent'}, not {harm.name}")

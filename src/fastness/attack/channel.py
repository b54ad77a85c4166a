"""
Attempts that a guest makes on the channel to its host, and a careless host that each of them works on.

The careless host is a program of its own that believes whatever comes.  It knows one way to come to harm for each kind
of attempt and says which it was, so that a control for one attempt cannot succeed by the harm of another.
"""

from __future__ import annotations

import enum
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fastness.attack import engines, serving
from fastness.attack.model import Effect, Expect, Layer

if TYPE_CHECKING:
    from fastness.attack.arena import Arena
    from fastness.runs import RunResult

#: What a host may grow by, and how long it may take with a guest that has two seconds.
_MUCH = 64 << 20
_LONG_S = 6.0

#: ``frame`` makes one of whatever lengths; ``send`` puts bytes on the channel, which is descriptor 3 of every guest.
_GUEST = """
import json, os, struct

def frame(kind, head, blob=b'', head_size=None, blob_size=None):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    head_size = len(text) if head_size is None else head_size
    blob_size = len(blob) if blob_size is None else blob_size
    return struct.pack('>BBHII', 1, kind, 0, head_size, blob_size) + text + blob

def send(data):
    view = memoryview(data)
    while view:
        view = view[os.write(3, view):]
"""
#: Serves each of ``CODES`` in a child that has the other end as descriptor 3, and says a line for each.
_HOST = """
import array, json, os, signal, socket, struct, time, traceback

MUCH = 32 << 20
RUN = 1
END = time.monotonic() + 10

class Harm(Exception):
    pass

class Host:
    def __init__(self, link):
        self.link, self.answers, self.claims, self.kept = link, {}, [], 0

    def receive(self, size, patience):
        # What it makes room for, and what it collects, is bounded for the sake of the machine.
        room, came = bytearray(min(size, 2 * MUCH)), 0
        while came < size:
            self.link.settimeout(max(0.01, min(patience, END - time.monotonic())))
            try:
                data, rights, _, _ = self.link.recvmsg(min(size - came, 1 << 20), 1024)
            except TimeoutError:
                data, rights = b'', []
            given = array.array('i', b''.join(content[: len(content) // 4 * 4] for _, _, content in rights))
            if given:
                list(map(os.close, given))
                raise Harm('GIVEN')
            if not data:
                raise Harm('RESERVED') if len(room) > MUCH and not came else EOFError
            room[came : came + len(data)] = data
            came += len(data)
            if came > MUCH:
                raise Harm('COLLECTED')
        return bytes(room)

    def message(self):
        _, kind, _, head, blob = struct.unpack('>BBHII', self.receive(12, 3))
        return kind, self.receive(head, 1), self.receive(blob, 1)

    def believe(self, kind, head, blob):
        told = json.loads(head or b'{}')
        if kind == 0x46:
            self.claims.append(blob)
            self.kept += len(blob)
            if self.kept > MUCH:
                raise Harm('HOARDED')
        elif kind == 0x48:
            self.answers[told['id']] = json.loads(blob)
            if self.answers.keys() - {RUN}:
                raise Harm('FILED')
        else:
            # Whatever it is, and whoever may send it: something behind it will know.
            raise Harm('OBEYED')

    def serve(self):
        try:
            while time.monotonic() < END:
                self.believe(*self.message())
        except Harm as harm:
            return str(harm)
        except RecursionError:
            return 'FELL'
        except EOFError:
            return 'unharmed'
        return 'tired'

def harm(code):
    host, guest = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(guest.fileno(), 3)
            # What is said on this program's output is said by the host alone.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.closerange(4, 256)
            exec(compile(code, '<guest>', 'exec'), {'__name__': '__main__'})
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    guest.close()
    try:
        return Host(host).serve()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        host.close()

for code in CODES:
    print(harm(code), flush=True)
"""


class Harm(enum.Enum):
    """What came of believing a guest.  Closed; the names are the words of the careless host."""

    RESERVED = "made room for a length that nothing followed"
    COLLECTED = "collected a message without end"
    HOARDED = "kept every claim that came"
    FELL = "fell over an answer that is nested deeply"
    FILED = "kept an answer for a run that has not begun"
    OBEYED = "acted on a message that no guest may send then"
    GIVEN = "was given descriptors"


def attacked(arena: Arena, *codes: str) -> Effect:
    """
    In the tier: one run for each of the codes, and another run behind each.

    The effect is a host that grows, waits, takes a guest's word about another run, or serves nobody any more.
    """
    arena.run("pass")
    results: list[RunResult] = []
    seen = ""
    for code in codes:
        before = _peak_from_now()
        began = time.monotonic()
        result = arena.run(_GUEST + code, timeout=2)
        took, grown = time.monotonic() - began, (engines.peak() or 0) - before
        after = arena.run(serving.NEXT)
        served = serving.good(after)
        seen = f"next run served: {served}, {grown >> 20} MiB more here, {took:.1f} s"
        if not served or grown > _MUCH or took > _LONG_S or "FORGED-OTHER" in (result.value, after.value):
            return Effect(True, seen, result)
        results.append(result)
    return Effect(False, seen, results[0], tuple(results[1:]))


def believed(arena: Arena, harm: Harm, *codes: str) -> Effect:
    """The control: the same codes before the careless host.  The effect is that each does it this harm."""
    program = f"CODES = {[_GUEST + code for code in codes]!r}\n{_HOST}"
    bare = arena.outside.run(program)
    said = bare.stdout_bytes.decode().split()
    if said == [harm.name] * len(codes):
        return Effect(True, f"a host that believes it {harm.value}")
    last = bare.stderr_bytes.decode("utf-8", "replace").strip().splitlines()[-1:]
    return Effect(False, f"a host that believes it is {' '.join((*said, *last)) or 'silent'}, not {harm.name}")


def tiers(*outcomes: str) -> dict[str, Expect]:
    """What is expected of the tiers whose guests have such a channel: the reader of frames ends the run so."""
    return {tier: Expect(Layer.HOST, outcomes=outcomes) for tier in ("confined", "container", "isolated")}


def _peak_from_now() -> int:
    """Bytes of memory that this process has had at most, counted from now on where the kernel lets us (proc(5))."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass
    return engines.peak() or 0

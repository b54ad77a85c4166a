"""
Sends two results, the second for a run that has not begun.
"""

from __future__ import annotations

import time

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

NAIVE = """
import json, subprocess, sys

program = "print('not an answer'); print(1)"
done = subprocess.run([sys.executable, '-c', program], stdout=subprocess.PIPE)
try:
    json.loads(done.stdout.splitlines()[0])
except ValueError:
    print('OUT OF STEP')
"""
CODE = """
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

for number in (1, 2, 3, 0, -1, 2**31):
    value = 'MINE' if number == 1 else 'FORGED-OTHER'
    answer = json.dumps({'kind': 'ok', 'value': value}).encode()
    head = {'id': number, 'ending': 'returned', 'payload_len': len(answer), 'session_state': 'none'}
    try:
        send(frame(0x48, head, answer))
    except OSError:
        break
"""


def attack(arena: Arena) -> Effect:
    """In the tier; another run follows."""
    arena.run("pass")
    before = native.resident()
    began = time.monotonic()
    result = arena.run(CODE, timeout=2)
    took, grown = time.monotonic() - began, native.resident() - before
    after = arena.run("print('SERVED')")
    served = after.ok and after.stdout_bytes == b"SERVED\n"
    wrong = not served or grown > 64 << 20 or took > 6 or "FORGED-OTHER" in (result.value, after.value)
    return Effect(wrong, f"next run served: {served}, {grown >> 20} MiB more here, {took:.1f} s", result)


def control(arena: Arena) -> Effect:
    """A host that believes lengths and reads lines."""
    return arena.said(arena.outside.run(NAIVE), "OUT OF STEP", "put a host that believes it out of step")


ATTACK = Attack(
    id="channel.two_results",
    claim=Claim(Guarantee.CRASH_CONTAINED, "One run's answer is never another's."),
    tiers={
        "confined": Expect(Layer.HOST, outcomes=("protocol", "crashed", "guest_error", "ok", "timeout")),
        "isolated": Expect(Layer.HOST, outcomes=("protocol", "crashed", "guest_error", "ok", "timeout")),
    },
    attack=attack,
    control=control,
)

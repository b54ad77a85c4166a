"""
Writes a call by hand, past its ctx: for a file of this machine, by an adapter that would read it.
"""

from __future__ import annotations

import time

from fastness.attack import asking
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.runs import RunResult
from fastness.waiting import drive

CODE = """
const bytes = (text) => Uint8Array.from(text, (character) => character.charCodeAt(0));
const call = (head, blob) => {
  const [text, rest] = [JSON.stringify(head), JSON.stringify(blob)];
  const frame = new Uint8Array(12 + text.length + rest.length);
  const view = new DataView(frame.buffer);
  view.setUint8(0, 1);
  view.setUint8(1, 0x43);
  view.setUint32(4, text.length);
  view.setUint32(8, rest.length);
  frame.set(bytes(text), 12);
  frame.set(bytes(rest), 12 + text.length);
  os.write(1002, frame.buffer, 0, frame.length);
};
call({ id: 1, capability: "fs", operation: "read" }, { path: SECRET_FILE });
const came = new Uint8Array(4096);
console.log(String.fromCharCode(...came.subarray(0, os.read(1002, came.buffer, 0, came.length))));
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with nothing but notes granted."""
    return arena.leaked(_ask(arena, Gate({"notes": asking.NotesScope()}, _SPECS, _desks(arena))))


def control(arena: Arena) -> Effect:
    """The same program, where files were granted too."""
    granted = {"notes": asking.NotesScope(), "fs": asking.FilesScope()}
    return arena.leaked(_ask(arena, Gate(granted, _SPECS, _desks(arena))))


_SPECS = {"notes": asking.Desk.notes, "fs": asking.Desk.files}


def _desks(arena: Arena) -> dict[str, asking.Desk]:
    return {kind: asking.Desk(arena, kind) for kind in _SPECS}


def _ask(arena: Arena, gate: Gate) -> RunResult:
    calls = RunCalls(
        gate,
        asking._Nowhere(),
        run="r",
        plugin="p",
        owner="mine",
        calls=100,
        value_bytes=1 << 20,
        deadline=time.monotonic() + 30,
    )
    sandbox = arena.box._sandbox()
    request = sandbox._request(arena.javascript(CODE), {"timeout": 10, "runtime": "javascript"})
    return arena.came(drive(sandbox._runner.run(request, calls)))


ATTACK = Attack(
    id="javascript.calls_by_hand",
    claim=Claim(Rule.GRANTED, "A call that JavaScript writes by hand is judged as any other."),
    tiers={"wasm": Expect(Layer.BROKER, "not_granted")},
    attack=attack,
    control=control,
)

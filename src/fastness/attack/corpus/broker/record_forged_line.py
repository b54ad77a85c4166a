"""
Names a key that looks like a line of the record, with control characters.
"""

from __future__ import annotations

import io

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.audit import reading
from fastness.audit.export import JsonLines, export
from fastness.capabilities.storage import StorageScope

CODE = """
attempt(ctx.storage.put, key='a\\nput b\\u2028put c\\x1b[2K', value=1)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; then the trail is read out as lines."""
    with brokering.Broker(arena) as broker:
        result = broker.run(CODE, StorageScope(quota=1 << 16))
        stream = io.StringIO()
        export(reading.records(str(broker.audit)), JsonLines(stream))
        lines = stream.getvalue().splitlines()
        rows = len(list(reading.records(str(broker.audit))))
        forged = len(lines) != rows or chr(27) in stream.getvalue()
        brokering.sure(rows > 1, "nothing was recorded")
        return Effect(forged, f"{len(lines)} lines for {rows} records", result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    log = arena.folder / "careless.log"
    brokering.control(arena, CODE, DATABASE=str(arena.folder / "careless.db"), LOG=str(log))
    lines = len(log.read_text().splitlines()) if log.exists() else 0
    return Effect(lines > 1, f"{lines} lines for one call")


ATTACK = Attack(
    id="broker.record_forged_line",
    claim=Claim(Rule.RECORDED, "A record is one line, whatever a guest puts into its names."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

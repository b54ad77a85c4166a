"""
Writes more in all than a run may, in many small files and in one, again and again.
"""

from __future__ import annotations

from pathlib import Path

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.fs import FsScope
from fastness.runs import RunResult

MOST = 200_000

CODE = """
for number in range(60):
    attempt(ctx.fs.mkdir, path=f'f{number}')
for number in range(60):
    attempt(ctx.fs.write, path=f'n{number}', data=b'x' * 2000)
for _ in range(8):
    attempt(ctx.fs.write, path='one', data=b'x' * 60000)
"""


def _effect(root: Path, result: RunResult | None) -> Effect:
    size = sum(4096 + (path.stat().st_size if path.is_file() else 0) for path in root.iterdir())
    return Effect(size > MOST, f"{size >> 10} KiB were written", result)


def attack(arena: Arena) -> Effect:
    """In the tier, with 200 kB granted."""
    with brokering.Broker(arena) as broker:
        result = broker.run(CODE, FsScope(read=True, write=True, run_bytes=MOST))
        return _effect(broker.root, result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    with brokering.folders(arena):
        brokering.control(arena, CODE)
        return _effect(arena.folder / "careless" / "root", None)


ATTACK = Attack(
    id="broker.fs_many_bytes",
    claim=Claim(Rule.BOUNDED, "A run writes no more in all than was granted, in many files or in one."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "quota", calls=("write", "mkdir"))
    ),
    attack=attack,
    control=control,
)

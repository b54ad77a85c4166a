"""
Fills the disk a little in each run, in one run after another.
"""

from __future__ import annotations

from pathlib import Path

from fastness.attack import brokering
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.capabilities.fs import FsScope
from fastness.runs import RunResult

MOST = 200_000
RUNS = 4

CODE = """
for number in range(20):
    attempt(ctx.fs.write, path=f'RUN-{number}', data=b'x' * 2000)
attempt(ctx.fs.mkdir, path='RUN')
"""


def _effect(root: Path, result: RunResult | None) -> Effect:
    size = sum(4096 + (path.stat().st_size if path.is_file() else 0) for path in root.iterdir())
    return Effect(size > MOST, f"the folder holds {size >> 10} KiB", result)


def attack(arena: Arena) -> Effect:
    """In the tier, with 200 kB granted in all, and as much for each run."""
    with brokering.Broker(arena) as broker:
        scope = FsScope(read=True, write=True, run_bytes=MOST, quota=MOST)
        result = [broker.run(CODE.replace("RUN", f"run{number}"), scope) for number in range(RUNS)][-1]
        return _effect(broker.root, result)


def control(arena: Arena) -> Effect:
    """Before a careless host."""
    with brokering.folders(arena):
        brokering.control(arena, "".join(CODE.replace("RUN", f"run{number}") for number in range(RUNS)))
        return _effect(arena.folder / "careless" / "root", None)


ATTACK = Attack(
    id="broker.fs_many_runs",
    claim=Claim(Rule.BOUNDED, "A folder holds no more than was granted, however many runs write to it."),
    tiers=dict.fromkeys(
        ("wasm", "worker", "confined", "isolated"), Expect(Layer.BROKER, "quota", calls=("write", "mkdir"))
    ),
    attack=attack,
    control=control,
)

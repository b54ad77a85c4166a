"""
Has what removes the leftovers of dead processes remove a container that is somebody else's, or of one that lives.

Containers have the labels of their image, so that whoever makes an image can say of them that a dead process made them.
"""

from __future__ import annotations

import contextlib
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

from fastness._container import containers, image, spec
from fastness._container.deadline import Deadline
from fastness._container.probe import Engine
from fastness._linux import procs
from fastness.attack import plain
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

_SLEEPS = "import time; time.sleep(60)"
#: What says of a container whose it is; whoever makes one may put it there.
LABEL = spec.OWNER_LABEL


def attack(arena: Arena) -> Effect:
    """By the sweep that every start and ``fastness doctor --sweep`` make, beside a leftover that it is to remove."""
    engine = plain.engine()
    dead = _name(_ended(arena), 0)
    with _victims(arena, engine, dead) as victims, plain.made(engine, _as_ours(engine, dead)) as (leftover,):
        containers.sweep(engine)
        if plain.is_there(engine, leftover):
            raise RuntimeError("nothing was swept, not even what a dead process had left")
        return _effect(engine, victims)


def control(arena: Arena) -> Effect:
    """By one that believes a label."""
    engine = plain.engine()
    with _victims(arena, engine, _name(_ended(arena), 0)) as victims:
        for name in containers.ours(engine):
            # And leaves those of others alone that are none of the attempt's.
            if name in victims:
                containers.remove(engine, name)
        return _effect(engine, victims, least=len(victims))


def _effect(engine: Engine, victims: dict[str, str], least: int = 1) -> Effect:
    gone = [what for name, what in victims.items() if not plain.is_there(engine, name)]
    return Effect(len(gone) >= least, f"gone are: {', '.join(gone) or 'none'}")


@contextlib.contextmanager
def _victims(arena: Arena, engine: Engine, dead: str) -> Iterator[dict[str, str]]:
    """By their id, containers that must stay; one of them runs."""
    living = arena.victim().pid
    elsewhere = f"{uuid.uuid4()}.{dead.partition('.')[2]}"
    bodies = {
        "one of somebody else's": plain.body(engine, _SLEEPS, labels={LABEL: dead}),
        "one of somebody else's that runs": plain.body(engine, _SLEEPS, labels={LABEL: dead}),
        "one of a process that lives": _as_ours(engine, _name(living, procs.start_time(living) or 0)),
        "one that another machine has just made": _as_ours(engine, elsewhere),
    }
    with plain.made(engine, *bodies.values()) as names:
        plain.start(engine, names[1])
        yield dict(zip(names, bodies, strict=True))


def _as_ours(engine: Engine, who: str) -> Any:
    found = image.find(engine.client(), image.DEFAULT, Deadline(containers.MAKE_S))
    return spec.body(engine, found, plain.ASK, {LABEL: who})


def _name(pid: int, started: int) -> str:
    return ".".join((*containers.owner().split(".")[:2], str(pid), str(started)))


def _ended(arena: Arena) -> int:
    """The number of a process that has ended."""
    with subprocess.Popen(["true"], stdin=subprocess.DEVNULL, cwd=arena.work) as process:
        return process.pid


ATTACK = Attack(
    id="containers.swept",
    claim=Claim(
        Guarantee.CRASH_CONTAINED,
        "What removes the leftovers of dead processes touches no container of anybody else's, whatever its label says.",
    ),
    tiers={"container": Expect(Layer.HOST)},
    attack=attack,
    control=control,
    slow=True,
)

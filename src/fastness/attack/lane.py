"""
A lane tries attacks one after another, with a sandbox for each tier; also as a process of its own, beside others.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from fastness.attack.control import Controls
from fastness.attack.model import Attack, Outcome, Verdict
from fastness.attack.runner import tried
from fastness.errors import ConfigurationError, FastnessError
from fastness.sync import Sandbox

#: What a process is started with that is one of these: the path on which it finds modules, and nothing else.
PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from fastness.attack.lane import main; main()"
#: The longest message either way, in bytes.
LONGEST = 1 << 20
#: Characters of a text that somebody is to read.
_TEXT = 4000


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An attack, by the module that it is in, and the tiers that it is tried in."""

    module: str
    id: str
    tiers: tuple[str, ...]


class Came(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="came"):
    """An outcome, as it is told from one process to another."""

    id: str
    tier: str
    verdict: str
    stopped_by: str
    detail: str
    seen: str
    control: str
    seconds: float
    control_seconds: float

    def outcome(self, attack: Attack) -> Outcome:
        """What it says.  Raises ValueError where it says it of another attack, or has a verdict that there is not."""
        if self.id != attack.id or self.tier not in attack.tiers:
            raise ValueError(f"{self.id} on {self.tier} was not asked for")
        return Outcome(
            attack,
            self.tier,
            Verdict(self.verdict),
            self.stopped_by,
            self.detail,
            self.seen,
            self.control,
            self.seconds,
            self.control_seconds,
        )


class Ended(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="ended"):
    """A job is over, and nothing more comes of it."""

    id: str


class Lane:
    """Tries attacks, with a sandbox of each tier, made when it is needed; a context manager, which ends them."""

    def __init__(self) -> None:
        self._boxes: dict[str, Sandbox] = {}
        self._stack = contextlib.ExitStack()

    def tried(self, attack: Attack, tiers: Iterable[str]) -> Iterator[Outcome]:
        """What came of it in each of the tiers, one after another, with controls that they share where they may."""
        controls = Controls(attack)
        for tier in tiers:
            try:
                box = self._box(tier)
            except FastnessError as error:
                yield Outcome(attack, tier, Verdict.UNEXPECTED, detail=f"it could not be tried: {error}")
                continue
            yield tried(attack, tier, box, controls)

    def _box(self, tier: str) -> Sandbox:
        box = self._boxes.get(tier)
        if box is None:
            box = self._boxes[tier] = self._stack.enter_context(Sandbox(tier=tier))
            # Its first run starts what later ones find there; attacks are not timed with that.
            box.run("pass")
        return box

    def __enter__(self) -> Lane:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def find(job: Job) -> Attack:
    """The attack of a job.  Raises ConfigurationError where its module has another one."""
    attack = getattr(importlib.import_module(job.module), "ATTACK", None)
    if not isinstance(attack, Attack) or attack.id != job.id:
        raise ConfigurationError("attack", job.module, f"a file with ATTACK = Attack(id={job.id!r}, ...)")
    return attack


def _told(outcome: Outcome) -> Came:
    detail, seen, control = (text[:_TEXT] for text in (outcome.detail, outcome.seen, outcome.control))
    return Came(
        outcome.attack.id,
        outcome.tier,
        outcome.verdict.value,
        outcome.stopped_by,
        detail,
        seen,
        control,
        outcome.seconds,
        outcome.control_seconds,
    )


def _serve(jobs: BinaryIO, told: BinaryIO) -> None:
    def tell(message: msgspec.Struct) -> None:
        told.write(msgspec.json.encode(message) + b"\n")
        told.flush()

    with Lane() as lane:
        while line := jobs.readline(LONGEST):
            job = msgspec.json.decode(line, type=Job)
            for outcome in lane.tried(find(job), job.tiers):
                tell(_told(outcome))
            tell(Ended(job.id))


def main() -> None:
    """
    Jobs come on standard input, a line each, and outcomes go to standard output; ends where no more jobs come.

    What is started here has neither: an attack's own words must not be taken for an outcome.
    """
    jobs, told = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    # Ended from outside, it ends its guests first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with open(jobs, "rb") as source, open(told, "wb") as sink:
            _serve(source, sink)
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(130)

"""
The capability ``process``: a program, run in a fresh box of a tier of its own; the plugin's guest stays without exec.

The box has nothing of the plugin's but the files that the call brings, nothing of the owner's, and no network.  Who
runs it is given by the host: an adapter starts no process by itself.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from fastness.capability import CallContext, Operation, Scope, Spec
from fastness.errors import AdapterError, Denied, QuotaExceeded
from fastness.limits import MIB, in_words
from fastness.runs import DenialCode

__all__ = ["SPEC", "Ended", "Process", "ProcessScope", "Wanted"]

_ARGUMENTS_MAX = 1000
_FILES_MAX = 1000
_BYTES_MAX = 4 * MIB
_TIERS = ("isolated", "container")

_Argument = Annotated[str, msgspec.Meta(max_length=1 << 16)]
_Path = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class ProcessScope(Scope, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="process"):
    """
    How many programs a run may start, ``runs``, none by default; each for ``seconds``, with ``memory`` bytes.

    ``tier`` is where each has its box: ``isolated`` or ``container``.
    """

    runs: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0
    seconds: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 10.0
    memory: Annotated[int, msgspec.Meta(ge=1 * MIB, le=1 << 36)] = 256 * MIB
    tier: Literal["isolated", "container"] = "isolated"


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    The arguments of ``run``: a program and its arguments, files for its work folder, and seconds that it may take.

    Nothing of ``argv`` is read by a shell.
    """

    argv: Annotated[list[_Argument], msgspec.Meta(min_length=1, max_length=_ARGUMENTS_MAX)]
    files: Annotated[dict[_Path, Any], msgspec.Meta(max_length=_FILES_MAX)] = {}
    timeout: Annotated[float, msgspec.Meta(gt=0, le=3600)] | None = None

    def __post_init__(self) -> None:
        for path, content in self.files.items():
            if type(content) not in (bytes, str):
                raise ValueError(f"the content of {path[:100]!r} is neither bytes nor text")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the host is asked to run: in a fresh box of ``tier``, for ``seconds`` at most, with ``memory`` bytes."""

    argv: tuple[str, ...]
    files: Mapping[str, bytes]
    tier: str
    seconds: float
    memory: int
    tenant: str


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """
    How it ended: the outcome's name, its exit code where it had one, its output, and files new or changed.

    ``cpu_s`` are seconds of processor time that it took.
    """

    outcome: str
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    files: Mapping[str, bytes]
    cpu_s: float = 0.0


def _meet(asked: ProcessScope, allowed: ProcessScope) -> ProcessScope | None:
    # Neither tier is a part of the other, and one that was not asked for is not what was granted.
    runs = min(asked.runs, allowed.runs)
    if not runs or asked.tier != allowed.tier:
        return None
    return ProcessScope(
        runs=runs,
        seconds=min(asked.seconds, allowed.seconds),
        memory=min(asked.memory, allowed.memory),
        tier=asked.tier,
    )


def _exceeds(asked: ProcessScope, allowed: ProcessScope) -> list[str]:
    if not asked.runs:
        return []
    found = []
    if asked.tier != allowed.tier:
        found.append(f"run programs in the tier {asked.tier}")
    if asked.runs > allowed.runs:
        found.append(f"run up to {asked.runs} programs in a run")
    if asked.seconds > allowed.seconds:
        found.append(f"programs of up to {asked.seconds:g} seconds")
    if asked.memory > allowed.memory:
        found.append(f"programs with up to {in_words(asked.memory)} of memory")
    return found


def _risk(scope: ProcessScope) -> str:
    if not scope.runs:
        return "It can run no program."
    return (
        f"It runs up to {scope.runs} programs of its choice in a run, each in a fresh box of the tier {scope.tier} "
        f"without network, for {scope.seconds:g} seconds: they cost processor time and "
        f"{in_words(scope.memory)} of memory."
    )


def _learn(calls: Sequence[tuple[str, Any]]) -> ProcessScope:
    given = [one.timeout for _, one in calls if one.timeout is not None]
    # What has no time of its own gets that of the scope.
    seconds = max(given) if len(given) == len(calls) else max([*given, ProcessScope().seconds])
    return ProcessScope(runs=len(calls), seconds=seconds)


SPEC = Spec(
    kind="process",
    scope=ProcessScope,
    operations=(
        Operation(
            name="run",
            arguments=Run,
            # The program alone: its arguments may be what it works on.
            target=lambda given: given.argv[0][:200],
            summary="Run a program: a dict with outcome, exit_code, stdout, stderr and files.",
            leaves=True,
        ),
    ),
    meet=_meet,
    exceeds=_exceeds,
    risk=_risk,
    learn=_learn,
    enforced=(
        "Each program runs in a fresh box of the granted tier, or of `container` where the operator says so for all.",
        "Without that tier there is none: a program runs nowhere else.",
        "The plugin's own guest can start no process.",
        "The box has the call's files and no others, no network, and limits of time, memory, processes and output.",
        "Programs are counted for each run of the plugin; the count does not start again with another call.",
    ),
)


class Process:
    """
    The adapter of ``process``.

    ``run`` runs what is wanted in a fresh box and says how it ended; it raises where the box cannot be had, which is
    told to the guest without words of the host.
    """

    spec = SPEC

    def __init__(self, run: Callable[[Wanted], Awaitable[Ended]]) -> None:
        self._run = run

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Run it.  Raises Denied, QuotaExceeded and AdapterError."""
        scope: ProcessScope = context.scope
        if self.spec.operation(operation) is None:
            raise Denied(DenialCode.UNSUPPORTED, operation)
        if not scope.runs or scope.tier not in _TIERS:
            raise Denied(DenialCode.NOT_GRANTED, "")
        files = {path: _bytes(content) for path, content in arguments.files.items()}
        size = sum(len(content) for content in files.values()) + sum(map(len, arguments.argv))
        if size > _BYTES_MAX:
            raise Denied(DenialCode.TOO_LARGE, f"{size} bytes")
        # Counted before it is begun: one that fails was one.
        if context.spent.get("process", 0) >= scope.runs:
            raise QuotaExceeded(f"{scope.runs} programs in a run at most")
        context.spent["process"] = context.spent.get("process", 0) + 1
        context.bytes_out = size
        left = context.deadline - time.monotonic()
        seconds = min(scope.seconds, arguments.timeout or scope.seconds, max(left, 0.001))
        wanted = Wanted(
            argv=tuple(arguments.argv),
            files=files,
            tier=scope.tier,
            seconds=seconds,
            memory=scope.memory,
            tenant=f"{context.plugin}/{context.owner}/process",
        )
        try:
            ended = await self._run(wanted)
        except AdapterError:
            raise
        except Exception as error:
            raise AdapterError(f"the program could not be run ({type(error).__name__})") from error
        context.cpu_s = ended.cpu_s
        context.bytes_in = len(ended.stdout) + len(ended.stderr) + sum(map(len, ended.files.values()))
        if context.bytes_in > _BYTES_MAX:
            raise AdapterError(f"what the program left is more than {in_words(_BYTES_MAX)}")
        return {
            "outcome": ended.outcome,
            "exit_code": ended.exit_code,
            "stdout": ended.stdout,
            "stderr": ended.stderr,
            "files": dict(ended.files),
        }

    async def aclose(self) -> None:
        """Nothing is held."""


def _bytes(content: bytes | str) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")

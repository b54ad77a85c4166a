"""
Whether whoever has run a hostile program still serves the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastness.attack.model import Effect

if TYPE_CHECKING:
    from fastness.attack.arena import Arena
    from fastness.runs import RunResult

NEXT = "print('SERVED')"


def good(result: RunResult) -> bool:
    """Whether that is what comes of ``NEXT``, and nothing else."""
    return result.ok and result.stdout_bytes == b"SERVED\n"


def served(arena: Arena) -> bool:
    """Whether the tier under attack serves a run."""
    return good(arena.run(NEXT))


def after(arena: Arena, *codes: str) -> Effect:
    """One run for each of the codes, each followed by another.  The effect is that this one is not served."""
    results: list[RunResult] = []
    for code in codes:
        results.append(arena.run(code))
        if not served(arena):
            return Effect(True, "the next run was not served", results[-1])
    return Effect(False, "the next run was served", results[0], tuple(results[1:]))


def in_process(arena: Arena, *programs: str) -> Effect:
    """
    The control: the same programs where the executor is the interpreter itself.

    The effect is that it serves no more.
    """
    bare = arena.outside.in_process(*programs, NEXT)
    died = b"SERVED" not in bare.stdout_bytes
    return Effect(died, "the executor died" if died else "the next program was served")

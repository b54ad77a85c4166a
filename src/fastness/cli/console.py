"""
What the command line says for itself: on standard error, plain where nobody watches, never mixed up with the guest's.
"""

from __future__ import annotations

import os
import sys
from typing import IO, TYPE_CHECKING, Any, TextIO

from fastness.cli.visible import one_line, visible

if TYPE_CHECKING:
    from rich.console import Console

    from fastness.errors import FastnessError
    from fastness.runs import Denial, RunResult

#: What to do about an outcome, by its name.
_HINTS = {
    "timeout": "Raise it with --timeout SECONDS.",
    "memory": "Raise it with --memory SIZE.",
    "cpu": "Raise it with --timeout SECONDS.",
    "output_limit": "Print less, or write to a file and take it with --out DIR.",
    "disk": "Write less: files and bytes below /work are capped.",
    "protocol": "The guest broke the channel's rules and was ended.",
}

#: Options of ``fastness exec`` for the limits that a detail ends with.
_OPTION_OF = {"files": "--max-files N", "file_bytes": "--disk SIZE", "pids": "--pids N"}


def err(text: str) -> None:
    """One message of ours."""
    _write(sys.stderr, f"fastness: {visible(text)}\n")


def detail(text: str) -> None:
    """A line that belongs to the message before it."""
    _write(sys.stderr, f"  {visible(text)}\n")


def say(text: str) -> None:
    """What a command was asked for, on standard output, with a line's end."""
    _write(sys.stdout, text + "\n")


def _write(stream: TextIO, text: str) -> None:
    # Whoever reads our output may go at any time, and what the command has still to do does not depend on it.
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        nobody_reads(stream)


def nobody_reads(stream: IO[str]) -> None:
    """Have what is still written to a stream go nowhere, also what it holds back and writes at the end."""
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(null, stream.fileno())
    os.close(null)


def stderr_console() -> Console:
    """A console on standard error, 120 columns wide where that is no terminal.  Text is never read as markup."""
    from fastness.cli.terminal import Terminal

    width = None if sys.stderr.isatty() else 120
    return Terminal(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=False, width=width)


def stdout_console() -> Console:
    """A console on standard output; 120 columns wide where that is no terminal."""
    from fastness.cli.terminal import Terminal

    width = None if sys.stdout.isatty() else 120
    return Terminal(markup=False, highlight=False, emoji=False, width=width)


def table(*columns: str, title: str | None = None, wrap: tuple[str, ...] = ()) -> Any:
    """An empty table in the house style; the columns in ``wrap`` may take several lines."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, expand=False)
    for column in columns:
        made.add_column(column, overflow="fold", no_wrap=column not in wrap and len(wrap) > 0)
    return made


def size(count: float) -> str:
    """Bytes for people, in units of 1024."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def denial_table(denials: tuple[Denial, ...], dropped: int = 0) -> Any:
    """What was refused, one row for each thing; rows that the guest itself reported say so."""
    made = table("operation", "target", "why", "by", "times", wrap=("target",))
    for row in denials:
        by = "guest (claimed)" if row.claimed else row.layer
        operation = f"{row.capability}.{row.operation}" if row.layer == "broker" else row.operation
        made.add_row(
            one_line(operation, 40),
            one_line(row.target),
            row.code.value,
            one_line(by, 40),
            str(row.count),
        )
    if dropped:
        made.add_row("...", f"{dropped} more were counted and not kept", "", "", "")
    return made


def outcome_line(result: RunResult) -> str:
    """How a run that was not ok ended, and what to do."""
    kind = result.outcome.kind.value
    parts = [kind]
    if result.outcome.detail:
        parts.append(one_line(result.outcome.detail, 300))
    if result.outcome.signal is not None:
        parts.append(f"signal {result.outcome.signal}")
    text = ": ".join(parts)
    hint = _hint(result)
    return f"{text}.  {hint}" if hint else text


def _hint(result: RunResult) -> str:
    kind, detail = result.outcome.kind.value, result.outcome.detail
    if result.runtime == "command":
        # The detail of a command is the host's own.
        for name, option in _OPTION_OF.items():
            if detail.endswith(f"({name})"):
                return f"Raise it with {option}."
    if kind == "memory" and " threads, with " in detail:
        return "Start fewer threads."
    return _HINTS.get(kind, "")


def show_error(error: FastnessError) -> None:
    """What failed, whose fault it is, and the fix: the message of the error has all three."""
    err(str(error))

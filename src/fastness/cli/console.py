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

#: Columns of what is written to a file or a pipe, unless COLUMNS says otherwise.
_WIDTH = 100
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


def _columns(stream: TextIO) -> int | None:
    """The width of what is written to a stream; None is that of its terminal, or what COLUMNS says."""
    said = os.environ.get("COLUMNS", "")
    return None if stream.isatty() or (said.isdecimal() and int(said) > 0) else _WIDTH


def stderr_console() -> Console:
    """A console on standard error.  Text is never read as markup."""
    from fastness.cli.terminal import Terminal

    width = _columns(sys.stderr)
    return Terminal(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=False, width=width)


def stdout_console() -> Console:
    """A console on standard output."""
    from fastness.cli.terminal import Terminal

    return Terminal(markup=False, highlight=False, emoji=False, width=_columns(sys.stdout))


def asked(question: str) -> bool | None:
    """
    Whether somebody at a terminal says yes: y or yes, and anything else is a no.  None is the end of input, or Ctrl-C.

    The question goes to standard error, wrapped to its width.
    """
    from rich.text import Text

    console = stderr_console()
    lines = [line.plain.rstrip() for line in Text(f"{question} [y/N]:").wrap(console, max(console.width - 6, 20))]
    try:
        _write(sys.stderr, visible("\n".join(lines)) + " ")
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        answer = ""
    if not answer:
        # The question's own line goes on.
        _write(sys.stderr, "\n")
        return None
    return answer.strip().lower() in ("y", "yes")


def table(*columns: str, title: str | None = None, wrap: tuple[str, ...] = ()) -> Any:
    """An empty table in the house style; the columns in ``wrap`` may take several lines."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_edge=False)
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


#: Who refused, where the name of the layer does not say it.
_BY = {"answer": "broker, the answer only"}


def denial_table(denials: tuple[Denial, ...], dropped: int = 0) -> Any:
    """What was refused, one row for each thing; rows that the guest itself reported say so."""
    made = table("operation", "target", "why", "by", "times", wrap=("target",))
    for row in denials:
        by = "guest (claimed)" if row.claimed else _BY.get(row.layer, row.layer)
        operation = f"{row.capability}.{row.operation}" if row.layer in ("broker", "answer") else row.operation
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


def outcome_line(result: RunResult, hint: str | None = None) -> str:
    """How a run that was not ok ended, and what to do: ``hint``, else in options of ``fastness run`` and ``exec``."""
    kind = result.outcome.kind.value
    parts = [kind]
    if result.outcome.detail:
        parts.append(one_line(result.outcome.detail, 300))
    if result.outcome.signal is not None:
        parts.append(f"signal {result.outcome.signal}")
    text = ": ".join(parts)
    if hint is None:
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

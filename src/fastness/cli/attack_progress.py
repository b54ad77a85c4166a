"""
Shows attacks being made: a bar where somebody watches, a line now and then where nobody does, and bad news at once.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from fastness.cli.console import err
from fastness.cli.visible import one_line

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import Progress

    from fastness.attack.model import Outcome

#: Seconds between two lines where nobody watches.
_LINE_EVERY_S = 15.0


class AttackProgress:
    """
    Takes outcomes as they come, of ``total`` that are expected; a context manager that clears up after itself.

    For one thread.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = self._bad = 0
        self._bar: Progress | None = None
        self._task: Any = None
        self._said = time.monotonic()

    def __call__(self, outcome: Outcome) -> None:
        """Show that one has come."""
        self._done += 1
        if not outcome.verdict.good:
            self._bad += 1
            err(f"{outcome.attack.id}: {outcome.verdict.value}: in {outcome.tier}: {one_line(outcome.detail, 2000)}")
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, description=self._words(f"{outcome.attack.id}"))
        elif time.monotonic() - self._said >= _LINE_EVERY_S:
            self._said = time.monotonic()
            err(f"{self._done} of {self._total} attacks tried{self._bad_words()}")

    def _words(self, name: str) -> str:
        return f"{name[:30]:30}{self._bad_words()}"

    def _bad_words(self) -> str:
        return f", {self._bad} NOT as they should be" if self._bad else ""

    def __enter__(self) -> AttackProgress:
        if sys.stderr.isatty() and self._total > 1:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            from fastness.cli.console import stderr_console

            self._bar = Progress(
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
                console=stderr_console(),
                transient=True,
                # What is said meanwhile goes above the bar.
                redirect_stdout=False,
            )
            self._bar.start()
            self._task = self._bar.add_task(self._words(""), total=self._total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

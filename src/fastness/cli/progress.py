"""
Shows a guest being built: a bar where somebody watches, a line now and then where nobody does.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from fastness.cli.console import err, size

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from rich.progress import Progress

#: Builds that end sooner than this are not worth a line.
_QUIET_S = 0.4
_LINE_EVERY_S = 5.0


class BuildProgress:
    """
    Takes the builder's progress as mappings with its field names; a context manager that clears up after itself.

    May be called from any thread.
    """

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._task: Any = None
        self._stage = ""
        self._said = 0.0
        self._lock = threading.Lock()

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Show one step."""
        with self._lock:
            self._update(event)

    def _update(self, event: Mapping[str, Any]) -> None:
        stage = str(event["stage"])
        if stage == "ready":
            self._stop()
            return
        elapsed, estimate = float(event["elapsed_s"]), float(event["estimate_s"])
        text = str(event["message"])
        cost = f"about {estimate:.0f} s" if estimate else ""
        if event["disk_bytes"]:
            cost += f", {size(event['disk_bytes'])} on disk" if cost else f"{size(event['disk_bytes'])} on disk"
        if sys.stderr.isatty():
            if estimate >= _QUIET_S or self._bar is not None:
                self._draw(f"{text} ({cost})" if cost else text, elapsed, estimate)
        elif estimate >= _QUIET_S and (stage != self._stage or time.monotonic() - self._said >= _LINE_EVERY_S):
            self._said = time.monotonic()
            err(f"{text}: {elapsed:.0f} s, {cost}" if stage == self._stage else f"{text} ({cost})")
        self._stage = stage

    def _draw(self, text: str, elapsed: float, estimate: float) -> None:
        if self._bar is None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            from fastness.cli.console import stderr_console

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TimeElapsedColumn(),
                console=stderr_console(),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(text, total=1.0)
        # An estimate is not a promise: the bar never claims to be done before the builder says so.
        share = elapsed / (elapsed + max(0.0, estimate - elapsed) + 0.05 * max(estimate, 0.1))
        self._bar.update(self._task, description=text, completed=min(share, 0.99))

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._stage = ""

    def __enter__(self) -> BuildProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._stop()

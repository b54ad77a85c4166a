"""
A console of rich's for which a reader that has gone is no reason to end.
"""

from __future__ import annotations

from rich.console import Console

from fastness.cli.console import nobody_reads


class Terminal(Console):
    """As its base, which would end the command with status 1 where it meets a closed pipe."""

    def on_broken_pipe(self) -> None:
        """Go on without a reader."""
        nobody_reads(self.file)

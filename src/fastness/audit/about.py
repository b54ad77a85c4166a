"""
What a record is about, as whoever has something recorded says it.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["About"]


class About(Protocol):
    """What a record is about."""

    @property
    def run(self) -> str:
        """The run's id."""
        ...

    @property
    def plugin(self) -> str:
        """The plugin's id."""
        ...

    @property
    def owner(self) -> str:
        """On whose behalf."""
        ...

    @property
    def capability(self) -> str:
        """The kind of capability."""
        ...

    @property
    def operation(self) -> str:
        """What is done."""
        ...

    @property
    def target(self) -> str:
        """What it is done to: no payload, credential or URL query."""
        ...

    @property
    def leaves(self) -> bool:
        """Whether it leaves this machine or spends money: then the intent is synced."""
        ...

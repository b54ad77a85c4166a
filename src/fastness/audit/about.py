"""
What a record is about, as whoever asks for it says.
"""

from __future__ import annotations

from typing import Protocol

from fastness.audit.record import SHORT, clean

__all__ = ["TEXTS", "About", "texts_of"]

#: How many of a record's values say what it is about: those from ``run`` to ``target``.
TEXTS = 6


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


def texts_of(about: About) -> tuple[str, ...]:
    """What a record is about, as the record keeps it."""
    texts = (about.run, about.plugin, about.owner, about.capability, about.operation, about.target)
    for text in texts:
        if len(text) > SHORT or not text.isascii():
            return tuple(map(clean, texts))
    return texts

"""
Parts of an engine's answer as the types that they should be, whatever came.

What is of another type becomes something that nothing compares equal with, and never an error of Python's.
"""

from __future__ import annotations

from typing import Any


def as_table(found: object) -> dict[str, Any]:
    """An object of JSON; an empty one where it is none."""
    return found if isinstance(found, dict) else {}


def as_list(found: object) -> list[Any]:
    """A list of JSON; nothing where there is none, and the thing itself where it is of another type."""
    if found is None:
        return []
    return found if isinstance(found, list) else [found]


def as_size(found: object) -> int:
    """A number of bytes; 0 where it is none."""
    return found if type(found) is int and found >= 0 else 0

"""
Files of this package: what runs inside guests and in other processes of ours, and what a verdict depends on.

They are read by their paths, for the package lies in a folder: processes that see no site-packages start from there.
"""

from __future__ import annotations

import os

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def source_root() -> str:
    """The folder above the package, for a process that sees no site-packages."""
    return os.path.dirname(_PACKAGE)


def text(part: str, name: str) -> str:
    """A file of the subpackage ``part``, such as ``guest``.  Raises ``OSError``."""
    with open(os.path.join(_PACKAGE, part, name), encoding="utf-8") as file:
        return file.read()


def code(part: str) -> list[tuple[str, bytes]]:
    """Names and contents of the sources and texts of a subpackage, by name.  Raises ``OSError``."""
    folder = os.path.join(_PACKAGE, part)
    found = []
    for name in sorted(os.listdir(folder)):
        if name.endswith((".py", ".txt")):
            with open(os.path.join(folder, name), "rb", buffering=0) as file:
                found.append((name, file.read()))
    return found

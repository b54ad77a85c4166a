"""
What of the interpreter itself a zygote arranges for its guests: their own code, and what a fork does in a child.
"""

from __future__ import annotations

import os
import sys
import types

from fastness._linux import cloning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def load(sources: dict[str, str]) -> Any:
    """The code that runs inside guests, as modules that belong to no package of ours."""
    module: Any = None
    for name in ("_fastness_encode", "_fastness_sources", "_fastness_context", "_fastness", "_fastness_native"):
        module = types.ModuleType(name)
        # Tracebacks leave out frames of a file by this name.
        module.__file__ = f"<{name}>"
        sys.modules[name] = module
        exec(compile(sources[name], module.__file__, "exec"), module.__dict__)  # noqa: S102  # our own text
    return module


def quiet_forks() -> None:
    """
    Have the threading module do nothing in a guest that was just born.

    It would make its record of threads anew, which a process of one thread has right after a fork as it had before, and
    writes to a fifth of all pages that a birth writes to.  Later versions of Python keep more there than a record.
    """
    if sys.version_info < (3, 13) and "threading" in sys.modules:
        sys.modules["threading"]._after_fork.__code__ = cloning.nothing.__code__  # private


def import_random() -> bool:
    """
    Import the random module without what it does in a child; False where it has been imported.

    It would seed its generator there by way of its class, which writes to twice as many pages as to do so directly.
    """
    if "random" in sys.modules:
        return False
    register = os.register_at_fork
    try:
        os.register_at_fork = lambda **hooks: None  # for the one import
        import random  # noqa: F401  # for what it does when it is imported
    finally:
        os.register_at_fork = register
    return True

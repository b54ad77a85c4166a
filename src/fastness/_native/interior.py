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

#: What runs inside guests: its modules there, each after those that it needs, and their files here.
MODULES = {
    "_fastness_encode": "encode.py",
    "_fastness_sources": "sources.py",
    "_fastness_context": "context.py",
    "_fastness": "boot.py",
    "_fastness_native": "native.py",
}


def code() -> dict[str, types.CodeType]:
    """
    What guests run, by the names of its modules, from the bytecode that is kept beside our files.

    Whoever compiles it has the memory of a compiler afterwards, and so have all of its forks.  Raises ``OSError``.
    """
    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "guest")
    found: dict[str, types.CodeType] = {}
    for name, file in MODULES.items():
        # As this module was loaded itself.
        loader: Any = type(__loader__)(name, os.path.join(folder, file))  # type: ignore[name-defined]  # of each module
        # Tracebacks leave out frames of a file by this name, and guests learn nothing of the machine's folders.
        found[name] = _renamed(loader.get_code(name), f"<{name}>")
    return found


def _renamed(one: types.CodeType, name: str) -> types.CodeType:
    inner = tuple(_renamed(value, name) if isinstance(value, types.CodeType) else value for value in one.co_consts)
    return one.replace(co_filename=name, co_consts=inner)


def load(found: dict[str, types.CodeType]) -> Any:
    """Make modules of this that belong to no package of ours; returns the last of them."""
    module: Any = None
    for name, content in found.items():
        module = types.ModuleType(name)
        module.__file__ = f"<{name}>"
        sys.modules[name] = module
        exec(content, module.__dict__)  # noqa: S102  # our own
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

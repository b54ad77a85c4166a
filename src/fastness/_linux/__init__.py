"""
Linux kernel mechanisms: what confines a process of ours, what proves it, and what ends it.

This file declares what the rest of the package uses, one portable function each.  Importing it works everywhere and
imports nothing; off Linux, or on a machine whose filters were never run, each function raises when it is called.
A process that confines itself imports ``fastness._linux.confine`` directly.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fastness._linux.confine import Confinement
    from fastness._linux.proof import Observation

__all__ = ["confine_compiler", "confine_engine", "prove_engine", "require_support", "seal_engine", "why_unsupported"]


def why_unsupported() -> str:
    """Why these mechanisms cannot be used here, in one sentence; empty where they can."""
    if not sys.platform.startswith("linux"):
        return f"kernel confinement needs Linux; this is {sys.platform}"
    machine = os.uname().machine
    if machine != "x86_64":
        made = "made for aarch64 but untested" if machine == "aarch64" else "made for and tested on x86_64"
        return f"the system call filters are {made}; this machine is {machine}"
    if sys.maxsize < 2**32:
        return "the system call filters are made for 64-bit processes; this interpreter is 32-bit"
    return ""


def require_support() -> None:
    """Raise ``OSError`` (``ENOSYS``) where :func:`why_unsupported` has something to say."""
    reason = why_unsupported()
    if reason:
        raise OSError(38, reason)


def confine_engine(*, image_mode: bool = False, parent: int = 0) -> Confinement:
    """See :func:`fastness._linux.confine.confine_engine`."""
    require_support()
    from fastness._linux import confine

    return confine.confine_engine(image_mode=image_mode, parent=parent)


def seal_engine(confinement: Confinement) -> None:
    """See :func:`fastness._linux.confine.seal_engine`."""
    require_support()
    from fastness._linux import confine

    confine.seal_engine(confinement)


def confine_compiler(*, parent: int = 0) -> Confinement:
    """See :func:`fastness._linux.confine.confine_compiler`."""
    require_support()
    from fastness._linux import confine

    return confine.confine_compiler(parent=parent)


def prove_engine(python: str, timeout: float = 20.0) -> list[Observation]:
    """See :func:`fastness._linux.proof.prove_engine`."""
    require_support()
    from fastness._linux import proof

    return proof.prove_engine(python, timeout)

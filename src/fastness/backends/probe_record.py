"""
A tier's verdict, kept for this boot: neither kernel nor code nor user changes meanwhile, and proving takes time.

Only a verdict that holds is kept; what failed is looked for anew each time, for it may have been mended.
"""

from __future__ import annotations

import hashlib
import os
import sys

import msgspec

from fastness._wasi import home
from fastness.backends import own_files
from fastness.errors import BackendError, ConfigurationError
from fastness.tier import Probe

#: Subpackages whose code a verdict depends on, beside those that the caller names.
_PACKAGES = ("_linux", "backends")


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    probe: Probe


def key(packages: tuple[str, ...], more: str) -> str:
    """What a verdict is good for: this boot, user, interpreter and code, and ``more``.  Raises ``OSError``."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
        boot = stream.read(64).strip()
    digest = hashlib.sha256()
    for package in (*_PACKAGES, *packages):
        for name, content in own_files.code(package):
            digest.update(name.encode() + b"\0" + content)
    return f"{boot} {os.geteuid()} {sys.executable} {digest.hexdigest()} {more}"


def _path(name: str) -> str:
    return os.path.join(home.folder("cache"), f"proof-{name}.json")


def recorded(name: str, wanted: str) -> Probe | None:
    """The verdict on ``name`` that was recorded under the key ``wanted``, if it is here and holds."""
    try:
        with open(_path(name), "rb") as stream:
            found = msgspec.json.decode(stream.read(1 << 20), type=_Record)
    except (OSError, msgspec.MsgspecError, BackendError, ConfigurationError):
        return None
    return found.probe if found.key == wanted and found.probe.holds else None


def record(name: str, wanted: str, verdict: Probe) -> None:
    """Keep a verdict that holds.  Never raises for the disk's sake."""
    if not verdict.holds:
        return
    try:
        target = _path(name)
        temporary = f"{target}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as stream:
            stream.write(msgspec.json.encode(_Record(wanted, verdict)))
        os.replace(temporary, target)
    except (OSError, BackendError, ConfigurationError):
        return

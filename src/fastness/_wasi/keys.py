"""
Names of cache entries: a digest of everything that decides whether an entry may be used.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING

from fastness._wasi import binding
from fastness._wasi.cache import FORMAT

if TYPE_CHECKING:
    from fastness._wasi.guests import Guest

#: Raised by one whenever the way of making native code or images changes in this package.
_RECIPE = 1

#: Processor features that the code generator looks at, as the kernel names them (x86-64, then AArch64).
_FEATURES = frozenset((
    "pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "cx16", "adx",
    "avx512bitalg", "avx512_bitalg", "avx512dq", "avx512f", "avx512vbmi", "avx512vl",
    "atomics", "paca", "pacg", "fphp", "asimd", "sve",
))  # fmt: skip
_CPUINFO_CAP = 16 << 10


def processor() -> str:
    """Machine and those of its features that native code may depend on: a home folder may be shared by machines."""
    text = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            text = file.read(_CPUINFO_CAP)
    except OSError:
        pass
    match = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    found = sorted(_FEATURES.intersection(match[1].split())) if match else []
    return f"{os.uname().machine} {' '.join(found)}"


def wasmtime() -> tuple[str, str]:
    """
    Version of the installed ``wasmtime`` distribution, and the path of its C library.

    The version is read from the name of the metadata folder: parsing the metadata would import a mail parser.
    Raises ``FileNotFoundError`` where it is not installed.
    """
    library = binding.find_library()
    root = os.path.dirname(os.path.dirname(os.path.dirname(library)))
    for name in os.listdir(root):
        if match := re.fullmatch(r"wasmtime-([0-9][^-]*)\.dist-info", name):
            return match[1], library
    return "unknown", library


def settings_for(variant: str) -> binding.EngineConfig:
    """Settings to compile and load a guest's code with: ``quick`` code is made fast and runs slower."""
    if variant == "quick":
        return binding.EngineConfig(opt_level="none", regalloc="single_pass")
    return binding.EngineConfig()


def code_name(guest: Guest, variant: str) -> str:
    """Name of the entry with native code of ``guest``; ``variant`` is ``quick`` or ``full``."""
    version, library = wasmtime()
    return _name(
        "code", str(_RECIPE), variant, guest.code.sha256, ",".join(guest.exports), version,
        str(os.stat(library).st_size), settings_for(variant).key(), processor(),
    )  # fmt: skip


def image_name(guest: Guest, boot: str, preload: tuple[str, ...], extra: str = "") -> str:
    """
    Name of the entry with a memory image of ``guest``.

    ``boot`` is the digest of the code that warmed it up, ``preload`` the modules imported in it, ``extra`` whatever
    else its maker depends on.  Images fit quick and full code alike: both have the same table and memory.
    """
    library = ",".join(file.sha256 for file in guest.library)
    return _name("image", str(_RECIPE), guest.code.sha256, library, boot, ",".join(preload), extra)


def _name(kind: str, *parts: str) -> str:
    text = "\0".join((kind, str(FORMAT), *parts))
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"

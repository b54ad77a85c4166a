"""
An image of the caller's own interpreter: its standard library, the libraries that it is linked with, and packages.

Made of files of this machine alone, in about a second.  What runs in it is the Python that the caller has tested with.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Iterable

from fastness._container import inside
from fastness._container.faults import EngineFault
from fastness._container.layer import Layer

#: Where an image keeps packages that are not the interpreter's own.
PACKAGES = "/usr/local/lib/fastness/packages"
_SKIPPED = re.compile(
    r"/(?:test|tests|idlelib|tkinter|lib2to3|turtledemo|ensurepip|site-packages|dist-packages|__pycache__|"
    r"config-3\.[^/]*)(?:/|$)"
)
_LINKED = re.compile(r"(?:=>\s*)?(/\S+)\s+\(0x")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ELF = b"\x7fELF"
_LDD_S = 60.0
#: Files that a program is linked with only while it runs.
_LATE = ("libnss_files.so.2", "libgcc_s.so.1")
_LIBRARIES = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64")


def build(packages: Iterable[str] = ()) -> Layer:
    """The layer.  Raises EngineFault for a package that is not here, ``OSError``."""
    layer = Layer()
    interpreter = os.path.realpath(sys.executable)
    elf = [interpreter]
    layer.file(interpreter)
    for root in dict.fromkeys((sysconfig.get_path("stdlib"), _platform())):
        for path in _files(root):
            layer.file(os.path.realpath(path), path)
            _add_compiled(layer, path, path)
            if _is_elf(path):
                elf.append(path)
    for source, name in distributions(packages):
        layer.file(source, f"{PACKAGES}/{name}")
        _add_compiled(layer, source, f"{PACKAGES}/{name}")
        if _is_elf(source):
            elf.append(source)
    for path in sorted(_linked(elf)):
        layer.file(os.path.realpath(path), path)
    for name in _LATE:
        found = next((f"{folder}/{name}" for folder in _LIBRARIES if os.path.exists(f"{folder}/{name}")), None)
        if found is not None:
            layer.file(os.path.realpath(found), found)
    inside.add(layer)
    layer.link("/usr/bin/python3", interpreter)
    layer.link("/usr/bin/python", "python3")
    return layer


def search_path() -> list[str]:
    """What a bare interpreter of such an image searches, and the packages."""
    return [PACKAGES]


def distributions(names: Iterable[str]) -> list[tuple[str, str]]:
    """
    The files of distributions of this environment and of those they need: where each is, and its path below a folder
    of packages.  Raises EngineFault.
    """
    found: dict[str, str] = {}
    done: set[str] = set()
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in done:
            continue
        done.add(name)
        try:
            one = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise EngineFault(
                "unsupported", f"this environment has no package {name!r}", f"install it first: pip install {name}"
            ) from None
        waiting += _needs(one)
        for file in one.files or ():
            path = str(file)
            source = str(one.locate_file(file))
            if ".." in path.split("/") or path.endswith(".pyc") or not os.path.isfile(source):
                continue
            found[path] = source
    return [(source, path) for path, source in sorted(found.items())]


def _needs(one: importlib.metadata.Distribution) -> list[str]:
    from packaging.requirements import InvalidRequirement, Requirement

    needed = []
    for text in one.requires or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            needed.append(requirement.name)
    return [name for name in needed if _NAME.fullmatch(name)]


def _platform() -> str:
    """Where extension modules of the standard library are; in a virtual environment the path is the environment's."""
    return sysconfig.get_path("platstdlib", vars={"platbase": sys.base_exec_prefix})


def _files(root: str) -> Iterable[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not _SKIPPED.search(f"{folder}/{name}/"[len(root) :]))
        for name in sorted(files):
            if not name.endswith((".pyc", ".a")):
                yield os.path.join(folder, name)


def _add_compiled(layer: Layer, source: str, path: str) -> None:
    """
    Add what this interpreter has compiled a module to, where that is of the module as it is now.

    Nobody can write beside modules later, so each start would compile them again.  In the image a source's time is
    another, so the header says that the source is not to be looked at (PEP 552).
    """
    if not source.endswith(".py"):
        return
    try:
        with open(importlib.util.cache_from_source(source), "rb") as file:
            compiled = file.read()
        status = os.stat(source)
    except OSError:
        return
    made_for = status.st_mtime_ns // 10**9 & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF
    if (
        len(compiled) < 16
        or compiled[:4] != importlib.util.MAGIC_NUMBER
        or struct.unpack("<III", compiled[4:16]) != (0, *made_for)
    ):
        return
    with open(source, "rb") as file:
        header = importlib.util.MAGIC_NUMBER + struct.pack("<I", 1) + importlib.util.source_hash(file.read())
    folder, name = os.path.split(path)
    layer.data(f"{folder}/__pycache__/{name[:-3]}.{sys.implementation.cache_tag}.pyc", header + compiled[16:])


def _is_elf(path: str) -> bool:
    if not (path.endswith(".so") or ".so." in os.path.basename(path)):
        return False
    with open(path, "rb") as file:
        return file.read(4) == _ELF


def _linked(paths: list[str]) -> set[str]:
    """The libraries that programs and libraries of this machine load."""
    found: set[str] = set()
    for start in range(0, len(paths), 200):
        done = subprocess.run(
            ["ldd", *paths[start : start + 200]], capture_output=True, text=True, timeout=_LDD_S, check=False
        )
        found.update(_LINKED.findall(done.stdout))
    # A library of a package is loaded from beside it, where it is already.
    return {path for path in found if os.path.exists(path) and "site-packages" not in path}

"""
What a plugin consists of: its files, read once through descriptors, and the digest over all of them.

A package is held in memory as it was read.  Its manifest, its digest and its installed copy all come from those bytes,
so what is checked is what is kept, whoever writes to the folder meanwhile.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from fastness import manifest_text, unseen
from fastness._linux import beneath
from fastness.capability import Spec
from fastness.errors import ManifestError
from fastness.limits import in_units
from fastness.manifest import CODE_RUNTIMES, Manifest, parse
from fastness.runner import tree

__all__ = ["FILE_MAX", "FILES_MAX", "TOTAL_MAX", "Member", "Package", "digest_of", "manifest_of", "read", "read_folder"]

#: Files and folders of one package, bytes of one file, and of all together.
FILES_MAX = 4096
FILE_MAX = 64 << 20
TOTAL_MAX = 128 << 20
#: Name of the manifest beside the code.
MANIFEST_NAME = "plugin.toml"

#: Folders that tools make and no plugin runs.  What is left out is not copied, so it is not there.
_LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"})
#: Compiled Python, which an interpreter may run in place of the source that people read (PEP 3147).
_COMPILED = (".pyc", ".pyo")
_DOMAIN = "fastness package 1"
_CHUNK = 1 << 20
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


class Member(NamedTuple):
    """One file: its content, and whether its owner may execute it."""

    content: bytes
    executable: bool = False


class Package(NamedTuple):
    """
    The files of a plugin by their path below its folder, ``digest`` over all of them, and ``listing``, the text whose
    SHA-256 the digest is.  ``single`` is the file's name where the package is one file.  ``left_out`` are folders that
    were not taken.
    """

    files: Mapping[str, Member]
    listing: str
    digest: str
    single: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(len(member.content) for member in self.files.values())


def digest_of(files: Mapping[str, Member]) -> tuple[str, str]:
    """
    The listing of files and its SHA-256 in hex.

    One line a file, by path: the mode bit, the size, the SHA-256 of the content, the path.  Paths hold no line ends, so
    two different packages have two different listings.
    """
    lines = [_DOMAIN]
    for path in sorted(files):
        content, executable = files[path]
        sha256 = hashlib.sha256(content).hexdigest()
        lines.append(f"{'x' if executable else '-'} {len(content)} {sha256} {path}")
    listing = "\n".join(lines) + "\n"
    return listing, hashlib.sha256(listing.encode()).hexdigest()


def read(source: str | os.PathLike[str]) -> Package:
    """
    A package from a folder, or from a single file, of the caller's.

    Raises ManifestError with everything that no package may hold: links, devices, pipes, sockets, files of several
    names, set-id files, names with invisible characters, compiled Python, and what is too many or too large.
    """
    path = os.fspath(source)
    try:
        # Not followed: what it leads to may be another thing by the time that it is read.
        top = os.open(path, _READ | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        if getattr(error, "errno", None) == errno.ELOOP:
            why = "it is a symbolic link; name what it leads to"
        raise ManifestError([f"{tree.shown(path)}: {why}"]) from None
    try:
        if stat.S_ISDIR(os.fstat(top).st_mode):
            files, problems, left_out = read_folder(top)
            single = ""
        else:
            single = Path(path).name
            files, problems, left_out = _read_single(top, single)
    finally:
        os.close(top)
    if not files and not problems:
        problems = ["the package holds no file"]
    if problems:
        raise ManifestError(problems)
    listing, digest = digest_of(files)
    return Package(MappingProxyType(files), listing, digest, single, tuple(left_out))


def read_folder(top: int) -> tuple[dict[str, Member], list[str], list[str]]:
    """Every file below an open folder, what is wrong with it, and what was left out.  Raises ManifestError."""
    files: dict[str, Member] = {}
    problems: list[str] = []
    left_out: list[str] = []
    room = TOTAL_MAX

    def wanted(seen: tree.Seen) -> bool:
        if seen.name in _LEFT_OUT and seen.kind == "folder":
            left_out.append(seen.path)
            return False
        return True

    def refuse(seen: tree.Seen, _code: str, why: str) -> None:
        problems.append(f"{tree.shown(seen.path)}: {why}")

    try:
        for seen in tree.walk(top, FILES_MAX, refuse, wanted=wanted):
            why = _name_problem(seen.path)
            if seen.kind == "folder":
                problems += [f"{tree.shown(seen.path)}: {why}"] if why else []
                continue
            member: Member | None = None
            if not why:
                member, why = _read_member(seen, room)
            if member is None:
                problems.append(f"{tree.shown(seen.path)}: {why}")
            else:
                files[seen.path] = member
                room -= len(member.content)
    except tree.TooManyEntries as error:
        problems.append(f"{tree.shown(error.path)}: more than {FILES_MAX} files and folders")
    except OSError as error:
        problems.append(f"the folder cannot be read: {error.strerror}")
    return files, problems, left_out


def _read_member(seen: tree.Seen, room: int) -> tuple[Member | None, str]:
    if seen.kind != "file":
        return None, f"a {seen.kind} is no part of a plugin"
    try:
        descriptor = beneath.open_child(seen.folder, seen.name, _READ)
    except OSError as error:
        return None, f"it cannot be read: {error.strerror}"
    try:
        return _read_open(descriptor, room)
    finally:
        os.close(descriptor)


def _read_single(descriptor: int, name: str) -> tuple[dict[str, Member], list[str], list[str]]:
    why = _name_problem(name) or ("" if tree.plain_name(name) else "its name is not UTF-8 or holds control characters")
    member: Member | None = None
    if not why:
        member, why = _read_open(descriptor, FILE_MAX)
    return ({}, [f"{tree.shown(name)}: {why}"], []) if member is None else ({name: member}, [], [])


def _read_open(descriptor: int, room: int) -> tuple[Member | None, str]:
    """The file of a descriptor, judged by what is open and not by what a name led to a moment ago."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return None, "it is not a regular file"
    if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        return None, "it is set-user-id or set-group-id"
    if status.st_nlink != 1:
        # Another name may be in a folder that somebody else can write to.
        return None, f"it has {status.st_nlink} names (hard links); copy it"
    most = min(FILE_MAX, room)
    if status.st_size > most:
        return None, f"its {status.st_size} bytes are more than the {most} that {_cap(most)}"
    parts: list[bytes] = []
    # One byte more than announced: a file that grows meanwhile is noticed.
    left = status.st_size + 1
    try:
        while left > 0 and (part := os.read(descriptor, min(left, _CHUNK))):
            parts.append(part)
            left -= len(part)
    except OSError as error:
        return None, f"it cannot be read: {error.strerror}"
    if left != 1:
        return None, "it changed while it was read"
    return Member(b"".join(parts), bool(status.st_mode & stat.S_IXUSR)), ""


def _cap(most: int) -> str:
    return (
        f"a file may have ({in_units(FILE_MAX)})" if most == FILE_MAX else f"are left of {in_units(TOTAL_MAX)} in all"
    )


def _name_problem(path: str) -> str:
    name = path.rpartition("/")[2]
    if name.endswith(_COMPILED):
        return "compiled Python may be run in place of the source beside it; leave it out"
    if not name.isascii():
        if unseen.first(name):
            return "its name holds characters that are invisible or change how it is read"
        if name != unicodedata.normalize("NFC", name):
            return "its name is not in Unicode's composed form (NFC)"
    return ""


#: Makes a manifest of a JavaScript module: see :func:`fastness.plugins.javascript.evaluate`.
Evaluate = Callable[[str, bytes], dict[str, Any]]


def manifest_of(package: Package, specs: Mapping[str, Spec], *, evaluate: Evaluate | None = None) -> Manifest:
    """
    The manifest of a package: ``plugin.toml``, or of a single file its own.

    A Python module's is read and not executed.  A JavaScript module's is what ``evaluate(name, source)`` makes of it.
    Raises ManifestError with all problems.
    """
    if not package.single:
        found = package.files.get(MANIFEST_NAME)
        if found is None:
            near = _first(path for path in package.files if path.lower().endswith(MANIFEST_NAME))
            hint = f"; there is {near}" if near else ""
            raise ManifestError([f"{MANIFEST_NAME}: there is none in the folder{hint}"])
        manifest = parse(manifest_text.read_toml(found.content), specs)
    else:
        plain, defaults = _of_single(package, evaluate)
        manifest = parse(plain, specs, defaults=defaults)
    problems = _entry_problems(package, manifest)
    if problems:
        raise ManifestError(problems)
    return manifest


def _of_single(package: Package, evaluate: Evaluate | None) -> tuple[dict[str, Any], dict[str, Any]]:
    name = package.single
    runtime = next((word for word, endings in CODE_RUNTIMES.items() if name.endswith(endings)), "")
    content = package.files[name].content
    if runtime == "python":
        plain = manifest_text.read_python(content)
    elif runtime == "javascript" and evaluate is not None:
        plain = evaluate(name, content)
    else:
        what = "a JavaScript module is evaluated in a guest, for which there is none here" if runtime else "its ending"
        if runtime == "wasi":
            what = "a WASI module says nothing about itself"
        raise ManifestError([f"{tree.shown(name)}: {what}; put it into a folder with a {MANIFEST_NAME}"])
    return plain, {"api": 1, "runtime": runtime, "entry": name}


def _entry_problems(package: Package, manifest: Manifest) -> list[str]:
    if package.single and manifest.entry != package.single:
        return [f"entry: must be {package.single!r}, the file itself"]
    if manifest.entry and manifest.entry not in package.files:
        return [f"entry: there is no file {manifest.entry!r} in the package"]
    return []


def _first(paths: Iterable[str]) -> str:
    return next(iter(paths), "")

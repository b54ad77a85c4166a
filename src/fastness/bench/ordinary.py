"""
The same measurements as an ordinary user, where root measures.

An interpreter below a folder that only root may enter is of no use to anybody else.  So what is measured then is an
environment of copied packages, with the machine's own interpreter of the same version where root's cannot be entered;
each row is compared with a bare process of that interpreter.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

import fastness
from fastness._linux import privileges
from fastness.bench.rows import Row

#: Nobody, on every Linux.
UID = 65534
_SUFFIX = ", ordinary user"
#: What this package and its command import.
_PACKAGES = ("msgspec", "anyio", "packaging", "platformdirs", "click", "rich")
_LONGEST_S = 900.0
#: Characters of a note: what is told in full for root need not be told twice.
_NOTE = 120

Part = Callable[[bool], Iterator[Row]]


def both(part: Part, *packages: str) -> Part:
    """``part`` as this user and, where this user is root, as an ordinary one too, who needs ``packages`` for it."""

    def measured(quick: bool) -> Iterator[Row]:
        yield from part(quick)
        if os.geteuid() == 0:
            yield from rows(part.__module__, part.__name__, quick, packages)

    return measured


def rows(module: str, name: str, quick: bool, packages: tuple[str, ...] = ()) -> Iterator[Row]:
    """The rows of a part as user nobody; one row that says why where that cannot be."""
    label = f"{name}{_SUFFIX}"
    interpreter = _interpreter()
    if interpreter is None:
        yield Row(name=label, note="no Python of this version that an ordinary user may start")
        return
    with tempfile.TemporaryDirectory(prefix=f"fastness-bench-{os.getpid()}-") as folder:
        os.chmod(folder, 0o755)  # noqa: S103  # what is in it is a copy of public packages
        python = make_environment(Path(folder, "environment"), interpreter, packages)
        for own in ("home", "work"):
            os.mkdir(f"{folder}/{own}", 0o700)
            os.chown(f"{folder}/{own}", UID, UID)
        code = f"from fastness.bench.ordinary import measure; measure({os.getpid()}, {module!r}, {name!r}, {quick!r})"
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "HOME": f"{folder}/work",
            "FASTNESS_HOME": f"{folder}/home",
        }
        done = subprocess.run(
            [python, "-c", code],
            stdin=subprocess.DEVNULL, capture_output=True, check=False, env=environment, cwd=f"{folder}/work",
            user=UID, group=UID, extra_groups=[], timeout=_LONGEST_S,
        )  # fmt: skip
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"status {done.returncode}"]
        yield Row(name=label, note=f"could not be measured: {words[-1][:300]}")
        return
    for row in msgspec.json.decode(done.stdout.splitlines()[-1], type=list[Row]):
        yield replace(row, name=f"{row.name}{_SUFFIX}", note=row.note[:_NOTE])


def measure(parent: int, module: str, name: str, quick: bool) -> None:
    """In the process of the ordinary user, which ends with ``parent``: measure one part and write its rows as JSON."""
    privileges.die_with_parent(parent)
    part: Part = getattr(importlib.import_module(module), name)
    found = [msgspec.to_builtins(row) for row in part(quick)]
    sys.stdout.write(json.dumps(found) + "\n")


def _interpreter() -> str | None:
    """This interpreter, or one of its version that anybody may start."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for path in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        if path and os.path.exists(path) and _may_enter(path) and _may_enter(os.path.realpath(path)):
            return path
    return None


def _may_enter(path: str) -> bool:
    """Whether a user without rights of its own may start what is at ``path``."""
    return all(os.stat(each).st_mode & 0o001 for each in (path, *map(str, Path(path).parents)))


def make_environment(folder: Path, interpreter: str, packages: tuple[str, ...] = ()) -> str:
    """
    Make a virtual environment (PEP 405) of ``interpreter`` that has this package, what it needs, and ``packages``.

    All are copies.  Returns the environment's interpreter.
    """
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    python = folder / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.symlink_to(os.path.realpath(interpreter))
    base = os.path.dirname(os.path.realpath(interpreter))
    (folder / "pyvenv.cfg").write_text(f"home = {base}\ninclude-system-site-packages = false\n", "utf-8")
    _copy(folder / "lib" / version / "site-packages", (*_PACKAGES, *packages))
    return str(python)


def _copy(target: Path, packages: tuple[str, ...]) -> None:
    """Copy this package and ``packages`` with all that they need, as far as they are installed, to ``target``."""
    ours = Path(fastness.__file__).parent
    shutil.copytree(ours, target / "fastness", ignore=shutil.ignore_patterns("__pycache__"))
    for name in _closure(packages):
        for file in importlib.metadata.distribution(name).files or ():
            if ".." in file.parts or file.is_absolute():
                # Programs and pages outside the packages.
                continue
            source = Path(str(file.locate()))
            if source.is_file():
                place = target / file
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, place)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.suffix == ".so" else 0o644)


def _closure(names: tuple[str, ...]) -> list[str]:
    """Distributions of these names and all that they need, as far as they are installed."""
    found: list[str] = []
    todo = list(names)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        if name not in found:
            found.append(name)
            plain = [need for need in needs if "extra ==" not in need]
            todo += [match[0] for need in plain if (match := re.match(r"[A-Za-z0-9._-]+", need))]
    return found

"""
Copies of the package with one protection taken out, and what the shipped attacks say of them.

A copy is put first where Python looks for modules, and every process of ours starts from the package that started it.
Two things are changed in each copy, in one without a mutation too: it uses the guests of this machine's own cache, which
nothing of a copy writes to; and it takes the verdict on a tier that the unmutated copy has proven, for a mutated one
would be found out by the proofs alone, and here it is the attacks that are asked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

#: Seconds after which attacks on a copy are given up, and as many more for each attack: another machine may be busy.
PATIENCE_S, _EACH_S = 60.0, 15.0
#: Rounds of ending what a copy has left running.
_ROUNDS = 50
_PROFILES = "data/seccomp/"
#: What the verdict of an attack begins with that could not be tried: that says nothing of what stops it.
_NOT_TRIED = ("it could not be tried", "the control could not be tried")


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A text of a file of the package, which must be there once, and what is put in its place."""

    file: str
    old: str
    new: str


@dataclasses.dataclass(frozen=True, slots=True)
class Sign:
    """
    What a mutation is known by: that ``attack`` escapes, or comes out as ``verdict`` for a reason with ``says`` in it.

    That an attack could not be tried is no sign, nor is one that was skipped or whose control failed.
    """

    attack: str
    verdict: str = "escaped"
    says: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in ("escaped", "unexpected") or (self.verdict == "unexpected") != bool(self.says):
            raise ValueError(f"{self.attack}: escaped, or unexpected and how that is told")
        if self.says.startswith(_NOT_TRIED):
            raise ValueError(f"{self.attack}: what could not be tried is no sign")

    def shows(self, said: Said) -> bool:
        """Whether this is what was said of the attack."""
        if said.verdict != self.verdict or said.detail.startswith(_NOT_TRIED):
            return False
        return self.says in said.detail


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """
    A mutation: ``removes`` is the protection, in words; ``changes`` take it out; ``signs`` are what shows it in ``tier``.

    Several changes are walls behind one another of which each alone would hold.  ``root`` is for what only root's guests
    have.
    """

    id: str
    removes: str
    tier: str
    changes: tuple[Change, ...]
    signs: tuple[Sign, ...]
    root: bool = False

    def __post_init__(self) -> None:
        if not self.changes or not self.signs:
            raise ValueError(f"{self.id}: at least one change and one sign")
        if self.tier == "wasm" and any(change.file.startswith("guest/") for change in self.changes):
            raise ValueError(f"{self.id}: the guests of wasm are built of these files, and none is built here")


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """The verdict on one attack, and its reason."""

    verdict: str
    detail: str


class Broken(Exception):
    """A mutation that cannot be made, or a copy that does not run: nothing was found out."""


class Copies:
    """
    Copies of the package at ``source``, below the folder ``place``; ``guests`` is the cache that they share.

    The copy ``plain`` is without a mutation.
    """

    def __init__(self, place: Path, source: Path, guests: str) -> None:
        self._place = place
        self._home = place / "home"
        self._home.mkdir(mode=0o700)
        self._pristine = place / "plain"
        shutil.copytree(source, self._pristine / "fastness", ignore=shutil.ignore_patterns("__pycache__"))
        # As an installed package is: other users read it.
        for folder, _, _ in os.walk(self._pristine):
            os.chmod(folder, 0o755)
        for change in (
            Change("_wasi/cache.py", 'path = home.folder("cache", "guests")', f"path = {guests!r}"),
            Change("backends/probe_record.py", "if found.key == wanted and found.probe.holds", "if found.probe.holds"),
        ):
            _apply(self._pristine / "fastness", change)

    def plain(self) -> Path:
        """The copy without a mutation."""
        return self._pristine

    @contextlib.contextmanager
    def mutated(self, name: str, changes: tuple[Change, ...]) -> Any:
        """A copy with these changes.  Raises Broken where one does not fit."""
        copy = self._place / name
        # Files that are not changed are other names of the same ones.
        shutil.copytree(self._pristine, copy, copy_function=os.link)
        try:
            for change in changes:
                _apply(copy / "fastness", change)
            if any(change.file.startswith(_PROFILES) or change.file == "_linux/bpf.py" for change in changes):
                self._assemble(copy)
            yield copy
        finally:
            shutil.rmtree(copy)

    def _assemble(self, copy: Path) -> None:
        """Make the programs of its filters anew, of what its profiles are now."""
        for program in (copy / "fastness" / _PROFILES).glob("programs.*.txt"):
            program.unlink()
        command = [sys.executable, "-m", "fastness._linux.profile_source", "--write"]
        done = subprocess.run(
            command, env=_environment(copy, self._home), cwd=self._place, check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise Broken(f"the filters could not be assembled: {done.stderr[-500:]}")

    def attack(self, copy: Path, tier: str, attacks: tuple[str, ...]) -> dict[str, Said]:
        """
        What ``fastness attack`` of this copy says of these attacks.  Raises Broken where it says nothing of one.
        """
        command = ["attack", "--json", "--tier", tier, *(word for one in attacks for word in ("--only", one))]
        said = self.run(copy, ["-m", "fastness.cli", *command], PATIENCE_S + _EACH_S * len(attacks))
        try:
            found = json.loads(said)["attacks"]
        except (ValueError, KeyError):
            raise Broken(f"no verdict: {said[-500:]}") from None
        verdicts = {one["id"]: Said(one["verdict"], one["detail"]) for one in found if one["tier"] == tier}
        if missing := set(attacks) - set(verdicts):
            raise Broken(f"nothing was said of {', '.join(sorted(missing))}")
        return verdicts

    def run(self, copy: Path, arguments: list[str], seconds: float = PATIENCE_S) -> str:
        """What Python prints that is started with this copy, for so long.  Whatever it leaves running is ended."""
        scratch = self._place / f"scratch-{copy.name}"
        scratch.mkdir()
        scratch.chmod(0o1777)
        try:
            done = subprocess.run(
                [sys.executable, __file__, f"{seconds:g}", *arguments],
                env={**_environment(copy, self._home), "TMPDIR": str(scratch)},
                cwd=self._place,
                check=False,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds + 30,
            )
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return done.stdout or done.stderr


def _environment(copy: Path, home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FASTNESS_", "PYTHON"))}
    return {**kept, "PYTHONPATH": str(copy), "FASTNESS_HOME": str(home)}


def _apply(package: Path, change: Change) -> None:
    path = package / change.file
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise Broken(f"{change.file}: {error.strerror}") from None
    count = text.count(change.old)
    if count != 1:
        raise Broken(f"{change.file}: what is to be changed is there {count} times, not once: {change.old!r}")
    # Another file of this name: the old one may have other names.
    path.unlink()
    path.write_text(text.replace(change.old, change.new), "utf-8")


def _watch(seconds: float, arguments: list[str]) -> int:
    """
    Run Python and end whatever it leaves, here in a process between it and the test.

    What loses its parent is adopted here (prctl(2), ``PR_SET_CHILD_SUBREAPER``), so nothing of it can hide.
    """
    import ctypes

    # SAFETY: plain numbers alone.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    started = subprocess.Popen([sys.executable, *arguments])
    try:
        status = started.wait(seconds)
    except subprocess.TimeoutExpired:
        status = 124
        sys.stderr.write(f"it had not ended after {seconds:g} seconds\n")
    for _ in range(_ROUNDS):
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        if not children:
            break
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)
    return status


if __name__ == "__main__":
    sys.exit(_watch(float(sys.argv[1]), sys.argv[2:]))

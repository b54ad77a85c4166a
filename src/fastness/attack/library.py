"""
A file of the machine in a folder that guests are given to import from: they may read it, and may change nothing of it.

The programs know it as ``TARGET``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fastness.attack import ways
from fastness.attack.model import Effect, Skip

if TYPE_CHECKING:
    from fastness.attack.arena import Arena
    from fastness.attack.outside import Bare
    from fastness.runs import RunResult

_WORDS = "WORDS = 'as they were'\n"
_FIND = """
import glob

# Not whatever has that name on this machine.
TARGET = next((each for each in glob.glob('/packages/*/target.py') if open(each).read() == SAYS), TARGET)
print('FOUND', len(open(TARGET).read()), flush=True)
"""


def make(arena: Arena, *, attribute: bool = False) -> Path:
    """
    The file.  It is the guests' own where they have a user that is known: then no mode of a file stops them.

    With ``attribute`` the secret is in an attribute of it.  Raises ``Skip`` where its file system has none.
    """
    folder = arena.shared_folder(0o700)
    target = folder / "target.py"
    target.write_text(_WORDS)
    target.chmod(0o666)
    folder.chmod(0o777)
    if not arena.ordinary and arena.tier == "confined":
        user = int(arena.run("import os; print(os.getuid())").stdout)
        os.chown(target, user, user)
        os.chown(folder, user, user)
    if attribute:
        try:
            os.setxattr(target, "user.kept", arena.token.encode())
        except OSError as error:
            raise Skip(f"no attributes on this file system: {error.strerror}") from None
    return target


def program(body: str, target: Path) -> str:
    """A program that says where the file is, wherever a guest is shown it."""
    return f"TARGET = {str(target)!r}\nSAYS = {_WORDS!r}\n{_FIND}\n{body}"


def given(arena: Arena, body: str, target: Path) -> RunResult:
    """Run that program in the tier.  Raises ``LookupError`` where it has not found the file: it has proven nothing."""
    result = arena.run(program(body, target), packages=[str(target.parent)])
    if b"FOUND" not in result.stdout_bytes:
        raise LookupError(f"the guest did not find the file: {result.outcome}")
    return result


def tried(arena: Arena, body: str, state: Callable[[Path], object], *, attribute: bool = False) -> Effect:
    """In the tier, by every way of the body.  The effect is that ``state`` of the file is another."""
    target = make(arena, attribute=attribute)
    before = state(target)
    result = given(arena, ways.every(body), target)
    return _changed(state(target) != before, result)


def outside(arena: Arena, body: str, state: Callable[[Path], object], *, attribute: bool = False) -> Effect:
    """The control: each of the ways by itself, unsandboxed, on a file of its own."""

    def attempt(text: str) -> tuple[Bare, Effect]:
        target = make(arena, attribute=attribute)
        before = state(target)
        bare = arena.outside.run(program(text, target))
        return bare, _changed(state(target) != before)

    return ways.each(body, attempt)


def _changed(changed: bool, result: RunResult | None = None) -> Effect:
    return Effect(changed, "the file is another" if changed else "the file is as it was", result)

"""
Waits in a module that the caller's own environment has every interpreter import.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.attack.outside import Outside
from fastness.tier import Guarantee

CODE = """
import sys

print('PLANTED' if 'fastness_planted' in sys.modules else 'nothing')
"""


def attack(arena: Arena) -> Effect:
    """In a guest whose zygote is started in that environment."""
    with _planted(arena):
        return native.tried(arena, CODE, "PLANTED", "ran in the guest", anew=True)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    with _planted(arena):
        env = {**arena.outside.env, "PYTHONPATH": os.environ["PYTHONPATH"]}
        return arena.said(Outside(arena.work, env).run(CODE), "PLANTED", "ran in the program")


@contextlib.contextmanager
def _planted(arena: Arena) -> Iterator[None]:
    """A folder with modules that interpreters import by themselves, named to all of them."""
    folder = arena.folder / "planted"
    folder.mkdir(mode=0o755)
    for name in ("sitecustomize", "usercustomize"):
        (folder / f"{name}.py").write_text("import sys; sys.modules['fastness_planted'] = sys")
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE")}
    os.environ.update(
        PYTHONPATH=str(folder), PYTHONSTARTUP=str(folder / "sitecustomize.py"), PYTHONUSERBASE=str(folder)
    )
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


ATTACK = Attack(
    id="environment.python_variables",
    claim=Claim(Guarantee.ENV_SCRUBBED, "Variables of the caller's that steer Python steer no guest."),
    tiers={"confined": Expect(Layer.FRESH), "container": Expect(Layer.FRESH), "isolated": Expect(Layer.FRESH)},
    attack=attack,
    control=control,
)

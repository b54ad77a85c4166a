"""
Starts a program that is root's and whose mode says that whoever starts it becomes root.
"""

from __future__ import annotations

import subprocess

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Skip
from fastness.runs import RunResult
from fastness.tier import Guarantee


def attack(arena: Arena) -> Effect:
    """As a command, with the program in a folder that it may start programs from."""
    folder = native.root_program(arena)
    result = arena.command(
        "sh",
        "-c",
        'for each in /packages/*/whoami "$0"; do "$each" -u; done',
        f"{folder}/whoami",
        packages=[str(folder)],
    )
    return _effect(result.stdout_bytes, result)


def control(arena: Arena) -> Effect:
    """As a user with no rights."""
    folder = native.root_program(arena)
    done = subprocess.run(
        [folder / "whoami", "-u"], capture_output=True, check=False, user=65534, group=65534, extra_groups=[]
    )
    effect = _effect(done.stdout)
    if not effect.happened:
        raise Skip("this file system honours no such modes")
    return effect


def _effect(output: bytes, result: RunResult | None = None) -> Effect:
    users = output.split()
    if not users:
        raise LookupError("the program did not run")
    return Effect(b"0" in users, f"it ran as {b', '.join(users).decode()}", result)


ATTACK = Attack(
    id="privileges.set_user_id",
    claim=Claim(Guarantee.NO_NEW_PRIVS, "No program makes a guest somebody else."),
    tiers={"isolated": Expect(Layer.PRIVILEGE)},
    attack=attack,
    control=control,
)

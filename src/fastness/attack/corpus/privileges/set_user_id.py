"""
Starts programs of root's whose mode says that whoever starts them becomes root.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Skip
from fastness.tier import Guarantee

NOBODY = """
# Imported while this interpreter's folder can still be entered.
import os, shutil, stat, subprocess, time

os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
"""
CODE = """
import os, shutil, stat, subprocess, time

for name in ('su', 'passwd', 'newgrp', 'chfn'):
    path = shutil.which(name, path='/usr/bin:/bin')
    if path is None or not os.stat(path).st_mode & stat.S_ISUID:
        continue
    # They wait for a password from us, and we end them.
    child = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.15)
    try:
        with open(f'/proc/{child.pid}/status') as status:
            users = next(line for line in status if line.startswith('Uid:')).split()[1:]
        print('CHANGED' if users[1] != str(os.getuid()) else 'STARTED', name, users)
    except (OSError, StopIteration) as error:
        print(error)
    child.kill()
    child.wait()
    child.stdin.close()
"""


def attack(arena: Arena) -> Effect:
    """As a command."""
    result = arena.program(CODE)
    if b"STARTED" not in result.stdout_bytes and b"CHANGED" not in result.stdout_bytes:
        raise Skip("there are no such programs that wait")
    return arena.said(result, "CHANGED", "became root")


def control(arena: Arena) -> Effect:
    """As a user with no rights."""
    bare = arena.outside.run(CODE if arena.ordinary else f"{NOBODY}{CODE}")
    effect = arena.said(bare, "CHANGED", "became root")
    if not effect.happened:
        raise Skip("there are no such programs that wait, or their modes count for nothing here")
    return effect


ATTACK = Attack(
    id="privileges.set_user_id",
    claim=Claim(Guarantee.NO_NEW_PRIVS, "No program makes a guest somebody else."),
    tiers={"isolated": Expect(Layer.PRIVILEGE)},
    attack=attack,
    control=control,
)

"""
Sends descriptors along with its answer, so that the host has them open for ever.
"""

from __future__ import annotations

from fastness.attack import channel, native, serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.tier import Guarantee

CODE = """
import array, os, socket

talk = socket.socket(fileno=3)
null = [os.open('/dev/zero', os.O_RDONLY) for _ in range(50)]
for _ in range(5):
    try:
        talk.sendmsg([b'x' * 100], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', null))])
    except OSError as error:
        print(error)
talk.detach()
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    arena.run("pass")
    before = native.open_files("/dev/zero")
    result = arena.run(CODE)
    after = native.open_files("/dev/zero")
    served = serving.served(arena)
    return Effect(after > before or not served, f"{after - before} more descriptors are open here", result)


def control(arena: Arena) -> Effect:
    """Before a host that takes what comes."""
    return channel.believed(arena, channel.Harm.GIVEN, CODE)


ATTACK = Attack(
    id="channel.descriptors",
    claim=Claim(Guarantee.CRASH_CONTAINED, "A guest sends the host no descriptors."),
    tiers={
        "confined": refused("sendmsg"),
        "isolated": refused("sendmsg"),
    },
    attack=attack,
    control=control,
)

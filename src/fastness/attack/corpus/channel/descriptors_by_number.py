"""
Has as many descriptors as a run may ask for, and puts its connection where descriptors were sent from at its birth.
"""

from __future__ import annotations

from fastness.attack import channel, native, serving
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, refused
from fastness.limits import Limits
from fastness.tier import Guarantee

CODE = """
import array, os, socket

null = [os.open('/dev/zero', os.O_RDONLY) for _ in range(50)]
number = 3
try:
    number = os.dup2(3, 1020)
except OSError as error:
    print(error)
talk = socket.socket(fileno=number)
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
    result = arena.run(CODE, limits=Limits(fds=65_536))
    after = native.open_files("/dev/zero")
    # It may not have the number at all, and from its own the filter lets it send none.
    had = b"Bad file descriptor" not in result.stdout_bytes
    served = serving.served(arena)
    return Effect(had or after > before or not served, f"{after - before} more descriptors are open here", result)


def control(arena: Arena) -> Effect:
    """Before a host that takes what comes."""
    return channel.believed(arena, channel.Harm.GIVEN, CODE)


ATTACK = Attack(
    id="channel.descriptors_by_number",
    claim=Claim(Guarantee.CRASH_CONTAINED, "A guest sends the host no descriptors by any number."),
    tiers={"confined": refused("sendmsg"), "isolated": refused("sendmsg")},
    attack=attack,
    control=control,
)

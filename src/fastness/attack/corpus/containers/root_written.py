"""
Changes the image that it runs in: new files, changed ones, and folders that an engine may have left open.
"""

from __future__ import annotations

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os

places = ['/etc', '/', '/usr/bin', os.path.dirname(os.__file__), '/dev', '/run', '/sys/fs/cgroup', '/proc/sys/kernel']
for place in places:
    path = os.path.join(place, NAME)
    for attempt in (
        lambda: open(path, 'x').close(),
        lambda: os.mkdir(path),
        lambda: os.symlink('x', path),
        lambda: os.mkfifo(path),
        lambda: os.chmod(place, 0o777),
        lambda: os.rename(place, path),
    ):
        try:
            attempt()
            print('CHANGED', place)
        except OSError as error:
            print(place, error.errno)
for path in ('/etc/passwd', '/usr/bin/python3', os.__file__):
    try:
        os.close(os.open(path, os.O_WRONLY))
        print('CHANGED', path)
    except OSError as error:
        print(path, error.errno)
"""
#: So that nothing of the machine's own is changed.
COVERED = """
for _place in (b'/etc', b'/run', b'/usr/bin'):
    _own.mount(b'none', _place, b'tmpfs', 0, None)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and as a program."""
    return native.tried(arena, arena.python(CODE), "CHANGED", "changed something")


def control(arena: Arena) -> Effect:
    """In namespaces of its own, in folders that lie over the machine's."""
    only = CODE.replace("places = [", "places = ['/etc', '/run']\n_ = [").split("for path in (")[0]
    return native.outside(arena, native.alone(COVERED) + arena.python(only), "CHANGED", "changed something")


ATTACK = Attack(
    id="containers.root_written",
    claim=Claim(Guarantee.IMAGE_ROOT, "Nothing of the image that a guest runs in can be changed."),
    tiers={"container": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)

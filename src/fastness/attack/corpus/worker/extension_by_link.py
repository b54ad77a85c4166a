"""
Loads an extension module whose path leads through a link to a folder of its own.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import importlib.machinery, importlib.util, os, shutil

source = importlib.util.find_spec('_zoneinfo').origin
shutil.copy(source, '_zoneinfo.so')
os.symlink('.', 'lib-dynload')
path = os.path.join(os.path.dirname(source), *['..'] * 20, os.getcwd().lstrip('/'), 'lib-dynload/_zoneinfo.so')
loader = importlib.machinery.ExtensionFileLoader('_zoneinfo', path)
spec = importlib.util.spec_from_loader('_zoneinfo', loader)
print('DONE', importlib.util.module_from_spec(spec))
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    return arena.said(arena.run(arena.python(CODE)), "DONE", "loaded it")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(arena.python(CODE)), "DONE", "loaded it")


ATTACK = Attack(
    id="worker.extension_by_link",
    claim=Claim(Guarantee.ADDRESS_SPACE, "The module firewall follows links before it judges an extension module."),
    tiers={"worker": Expect(Layer.GUEST, "unsupported")},
    attack=attack,
    control=control,
)

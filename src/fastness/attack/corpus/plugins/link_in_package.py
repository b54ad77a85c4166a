"""
Brings a link to a file of the machine, to have it copied into its own files.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.errors import FastnessError

STEPS = """
import shutil
os.symlink(SECRET_FILE, FOLDERS['plugin'] + '/data.txt')
os.symlink(HOME, FOLDERS['plugin'] + '/more')
shutil.copytree(FOLDERS['plugin'], FOLDERS['plugin'] + '-copy')
host.install('plugin', FOLDERS['plugin'] + '-copy'); host.grant('plugin')
os.chdir(FOLDERS['plugin'] + '-copy')
host.invoke('plugin')
"""

CODE = """
import os

def work(ctx):
    found = []
    for top, folders, names in os.walk('.'):
        for name in names:
            try:
                found.append(open(os.path.join(top, name)).read())
            except (OSError, ValueError):
                pass
    return found
"""


def attack(arena: Arena) -> Effect:
    """In the tier, where it can be installed."""
    with hosting.Home(arena) as home:
        folder = hosting.put(home.top / "source", {"plugin.toml": hosting.manifest("work"), "plugin.py": CODE})
        (folder / "data.txt").symlink_to(arena.secret_file)
        (folder / "more").symlink_to(arena.home)
        try:
            home.install_from(folder)
            home.grant()
        except FastnessError as error:
            return Effect(False, f"it was not installed: {type(error).__name__}")
        return arena.leaked(home.invoke())


def control(arena: Arena) -> Effect:
    """Before a host that copies what links lead to."""
    plugins = {"plugin": {"plugin.py": CODE}}
    return arena.leaked(hosting.careless(arena, STEPS, plugins=plugins))


ATTACK = Attack(
    id="plugins.link_in_package",
    claim=Claim(Rule.PACKAGED, "No link in a package is followed."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

"""
Has the files of an installed plugin changed where they are kept, with the size and the times that they had.
"""

from __future__ import annotations

import os

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

PLUGIN = "def work(ctx):\n    return 'AS IT WAS'  # and no other\n"
STEPS = """
host.install('plugin', FOLDERS['plugin'])
host.grant('plugin')
host.invoke('plugin')
with open(FOLDERS['plugin'] + '/plugin.py', 'w') as file:
    file.write(CODE)
host.invoke('plugin')
"""

CODE = """
def work(ctx):
    return 'CHANGED'
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    with hosting.Home(arena) as home:
        plugin = {"plugin.toml": hosting.manifest("work"), "plugin.py": PLUGIN}

        digest = home.install(plugin).known.digest
        home.grant()
        if home.invoke().value != "AS IT WAS":
            raise RuntimeError("it did not run as it was")
        (path,) = (home.data / "plugins" / digest).rglob("plugin.py")
        before = path.stat()
        path.chmod(0o600)
        path.write_text(CODE.ljust(before.st_size, "#"))
        path.chmod(before.st_mode & 0o777)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        result = home.tried()
        ran = result is not None and result.value == "CHANGED"
        return Effect(ran, "what was changed ran" if ran else "what was changed did not run", result)


def control(arena: Arena) -> Effect:
    """Before a host that runs what lies there."""
    bare = hosting.careless(arena, STEPS, plugins={"plugin": {"plugin.py": PLUGIN}}, CODE=CODE)
    return arena.said(bare, "CHANGED", "ran what had been changed")


ATTACK = Attack(
    id="plugins.files_changed",
    claim=Claim(
        Rule.PACKAGED, "Files that are not those that were granted do not run, whatever their size and times say."
    ),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

"""
Is a plugin of data, and brings code, and data that are objects.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.waiting import drive

NAMES = ("data.py", "__init__.py", "setup.py", "conftest.py")
DATA = 'id = "attack.data"\nversion = "1.0.0"\napi = 1\nruntime = "data"\n'

CODE = """
open(MARK_FILE, 'w').close()
"""


def attack(arena: Arena) -> Effect:
    """Installed, granted and read."""
    with hosting.Home(arena) as home:
        files = {name: arena.python(CODE) for name in NAMES}
        home.install({"plugin.toml": DATA, **files}, id="attack.data")
        home.grant("attack.data")
        found = drive(home.host.data("attack.data", owner=hosting.OWNER))
        if set(NAMES) - set(found):
            raise RuntimeError(f"its files are {sorted(found)}")
        ran = home.tried("attack.data", "setup") or home.tried("attack.data", "data.py")
        marked = arena.mark_file.exists()
        return Effect(marked or ran is not None, "its code ran" if marked else "its code did not run")


def control(arena: Arena) -> Effect:
    """Before a host whose data are modules that it executes."""
    files = {name: arena.python(CODE) for name in NAMES}
    steps = "exec(open(FOLDERS['plugin'] + '/data.py').read())"
    hosting.careless(arena, steps, plugins={"plugin": files})
    marked = arena.mark_file.exists()
    return Effect(marked, "its code ran" if marked else "its code did not run")


ATTACK = Attack(
    id="plugins.data_with_code",
    claim=Claim(Rule.PACKAGED, "Of a plugin of data nothing runs."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

"""
Has code in all the places that somebody might run before its first call.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.errors import FastnessError

NAMES = ("plugin.py", "setup.py", "conftest.py", "__init__.py", "sitecustomize.py")
MANIFEST = """
MANIFEST = {"id": open(MARK_FILE, "w").name and "attack.single", "version": "1.0.0", "api": 1, "methods": ["work"]}
"""

CODE = """
open(MARK_FILE, 'w').close()
"""


def _marked(arena: Arena, how: str) -> Effect:
    marked = arena.mark_file.exists()
    return Effect(marked, f"{how}; its code {'ran' if marked else 'did not run'}")


def attack(arena: Arena) -> Effect:
    """Installed, shown and granted, and not called."""
    with hosting.Home(arena) as home:
        code = arena.python(CODE)
        files = dict.fromkeys(NAMES, code)
        home.install({"plugin.toml": hosting.manifest("work"), **files})
        home.host.show("attack.plugin")
        home.grant()
        single = hosting.put(home.top / "single", {"plugin.py": code + MANIFEST})
        try:
            home.install_from(single / "plugin.py", id="attack.single")
        except FastnessError as error:
            return _marked(arena, f"the manifest is refused: {type(error).__name__}")
        return _marked(arena, "it was installed")


def control(arena: Arena) -> Effect:
    """Before a host that imports a plugin to ask what it is."""
    files = {name: arena.python(CODE) for name in NAMES}
    steps = "host.install('plugin', FOLDERS['plugin'])\nimport plugin"
    hosting.careless(arena, steps, plugins={"plugin": files})
    return _marked(arena, "it was installed")


ATTACK = Attack(
    id="plugins.code_before_its_call",
    claim=Claim(Rule.PACKAGED, "Nothing of a plugin runs when it is installed, shown and granted."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

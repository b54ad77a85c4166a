"""
Keeps things under a name that looks like another, with characters that are drawn as nothing.
"""

from __future__ import annotations

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

HIDDEN = "\u3164\ufe0f\u2800\u200b\ufeff\u00ad\u034f\u2060\U000e0100"

CODE = """
def work(ctx):
    for letter in HIDDEN:
        ctx.storage.put(key=f'ke{letter}pt', value=1)
"""


def _raw(text: str) -> list[str]:
    return [f"U+{ord(letter):04X}" for letter in HIDDEN if letter in text]


def attack(arena: Arena) -> Effect:
    """In the tier; then its records are shown."""
    with hosting.Home(arena) as home:
        code = f"HIDDEN = {HIDDEN!a}\n{CODE}"
        home.install({"plugin.toml": hosting.manifest("work"), "plugin.py": code})
        home.grant()
        result = home.invoke()
        said = hosting.command(home, "audit", "--plugin", "attack.plugin")
        if home.kept() != len(HIDDEN) or "storage.put" not in said:
            raise RuntimeError(f"it kept {home.kept()} of them, and the screen was {said[-300:]!r}")
        found = _raw(said)
        return Effect(bool(found), f"the screen had {', '.join(found) or 'none of them'}", result)


def control(arena: Arena) -> Effect:
    """A host that shows its records as they are."""
    steps = "host.install('plugin', FOLDERS['plugin'])\nhost.grant('plugin')\nhost.invoke('plugin')\n"
    log = arena.folder / "careless.log"
    code = f"HIDDEN = {HIDDEN!a}\n{CODE}"
    hosting.careless(arena, steps, plugins={"plugin": {"plugin.py": code}}, LOG=str(log))
    found = _raw(log.read_text() if log.exists() else "")
    return Effect(len(found) == len(HIDDEN), f"the screen had {', '.join(found) or 'none of them'}")


ATTACK = Attack(
    id="plugins.unseen_names",
    claim=Claim(Rule.RECORDED, "Names that look the same and are not are shown with what tells them apart."),
    tiers=dict.fromkeys(("wasm", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
    slow=True,
)

"""
Gives reasons with characters that move a cursor, change colours, and turn the order of text round.
"""

from __future__ import annotations

import unicodedata

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

CODE = """
\x1b[2K\x1b[1A\r\u202egnihton\u202c\u2066\u200b\x9b2J\x07
"""


def _asks(reason: str) -> str:
    quoted = "".join(f"\\U{ord(letter):08x}" for letter in f"keep{reason}")
    return f'[[capabilities]]\nkind = "storage"\nquota = 65536\nreason = "{quoted}"\n'


def _controls(text: str) -> list[str]:
    """What of a text no screen shows as it is."""
    plain = text.replace("\n", "")
    return sorted({f"U+{ord(letter):04X}" for letter in plain if unicodedata.category(letter) in ("Cc", "Cf")})


def attack(arena: Arena) -> Effect:
    """Installed and shown by the command line."""
    with hosting.Home(arena) as home:
        folder = hosting.put(
            home.top / "source",
            {"plugin.toml": hosting.manifest("work", more=_asks(CODE)), "plugin.py": "def work(ctx): ..."},
        )
        said = hosting.command(home, "plugin", "install", str(folder)) + hosting.command(
            home, "plugin", "show", "attack.plugin"
        )
        if "keep" not in said:
            raise RuntimeError(f"the screen does not show the reason: {said[-300:]!r}")
        found = _controls(said)
        return Effect(bool(found), f"the screen had {found or 'none of them'}")


def control(arena: Arena) -> Effect:
    """A screen that prints what it is given."""
    bare = arena.outside.run(arena.python("print('Wants storage:', REASON, flush=True)", REASON="keep" + CODE))
    found = _controls(bare.stdout_bytes.decode("utf-8", "replace"))
    return Effect(len(found) > 3, f"the screen had {found or 'none of them'}")


ATTACK = Attack(
    id="plugins.reason_of_control_characters",
    claim=Claim(Rule.PACKAGED, "What a manifest says is shown with what cannot be seen made visible."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST)),
    attack=attack,
    control=control,
    slow=True,
)

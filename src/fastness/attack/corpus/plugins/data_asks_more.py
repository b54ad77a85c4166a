"""
Is a plugin of data, on whose behalf a host reads and asks what it did not grant.
"""

from __future__ import annotations

from fastness.attack import hosting, servers
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.errors import FastnessError
from fastness.waiting import drive

DATA = """
id = "attack.data"
version = "1.0.0"
api = 1
runtime = "data"

[[capabilities]]
kind = "fs"
read = true
reason = "To read its folder."
"""

CODE = """
attempt(ctx.net.request, method='GET', url=URL)
attempt(ctx.fs.read, path=SECRET_FILE)
"""


def attack(arena: Arena) -> Effect:
    """Installed, and granted a folder to read."""
    server = servers.serve(arena, servers.answer(arena.token.encode()))
    with hosting.Home(arena) as home:
        home.install({"plugin.toml": DATA}, id="attack.data")
        home.grant("attack.data")
        told = ""
        for operation, given in (
            ("net.request", {"method": "GET", "url": server.url}),
            ("fs.read", {"path": str(arena.secret_file)}),
            ("fs.read", {"path": "../" * 20 + str(arena.secret_file)[1:]}),
            ("storage.get", {"key": "name", "owner": "other"}),
        ):
            try:
                told += str(drive(home.host.call("attack.data", operation, given, owner=hosting.OWNER)))
            except FastnessError as error:
                told += f"{type(error).__name__}; "
        got = arena.token in told or server.reached()
        return Effect(got, "it got what was not granted" if got else told)


def control(arena: Arena) -> Effect:
    """Before a host that does it with its own rights."""
    server = servers.serve(arena, servers.answer(arena.token.encode()))
    return arena.leaked(hosting.careless(arena, CODE, plugins={}, URL=server.url))


ATTACK = Attack(
    id="plugins.data_asks_more",
    claim=Claim(Rule.GRANTED, "A plugin of data has what was granted for it, and nothing of its host's rights."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

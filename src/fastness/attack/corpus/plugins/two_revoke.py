"""
Has been granted by two owners, and two processes revoke at once.
"""

from __future__ import annotations

import json

from fastness.attack import hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

OWNERS = ["first", "second"]
PLUGIN = "def work(ctx):\n    return 1\n"
REAL = """
import sys
import fastness
host = fastness.PluginHost()
print('ready', flush=True)
sys.stdin.readline()

def revoke(owner):
    host.revoke('attack.plugin', owner=owner)
"""
SAYS = "\nprint('done', flush=True)\n"
#: Reads what stands, and writes what is left.
FILE = """
import json, os, time

def revoke(owner):
    with open(PLACE) as file:
        stand = json.load(file)
    time.sleep(0.1)
    # Each writes a file of its own, which then takes the place: the last one wins, whole.
    with open(PLACE + owner, 'w') as file:
        json.dump([one for one in stand if one != owner], file)
    os.replace(PLACE + owner, PLACE)
"""
BOTH = """
import threading
threads = [threading.Thread(target=exec, args=(body, {'PLACE': PLACE})) for body in BODIES]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""

CODE = """
revoke(OWNER)
"""


def attack(arena: Arena) -> Effect:
    """Two processes with one home; then it is called for both."""
    with hosting.Home(arena) as home:
        home.install({"plugin.toml": hosting.manifest("work"), "plugin.py": PLUGIN})
        for owner in OWNERS:
            home.grant(owner=owner)
        texts = [REAL + CODE.replace("OWNER", repr(owner)) + SAYS for owner in OWNERS]
        with home.another(texts[0]) as first, home.another(texts[1]) as second:
            for each in (first, second):
                hosting.tell(each)
            for each in (first, second):
                hosting.wait_for(each, b"done")
        results = [home.tried(owner=owner) for owner in OWNERS]
        stood = sum(result is not None for result in results)
        return Effect(stood > 0, f"{stood} grants still stand")


def control(arena: Arena) -> Effect:
    """Two that keep grants in a file."""
    place = arena.folder / "grants.json"
    place.write_text(json.dumps(OWNERS))
    bodies = [FILE + CODE.replace("OWNER", repr(owner)) for owner in OWNERS]
    arena.outside.run(arena.python(BOTH, BODIES=bodies, PLACE=str(place)))
    left = json.loads(place.read_text())
    return Effect(len(left) == 1, f"{len(left)} grants still stand")


ATTACK = Attack(
    id="plugins.two_revoke",
    claim=Claim(Rule.GRANTED, "Of grants that are revoked at once by several processes none stands."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

"""
Goes on reading its notes while their owner erases them.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from fastness.attack import brokering, hosting, models
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.audit import reading
from fastness.waiting import drive

WANTS = '[[capabilities]]\nkind = "memory"\nnotes = 1000\nquota = 1048576\nreason = "To remember."\n'

CODE = """
import time

def note(ctx, word):
    for number in range(50):
        ctx.memory.add(f'{word} {number}', [word])

def work(ctx, seconds):
    ends, found = time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        for note in ctx.memory.search('canary', 50)['notes']:
            found += 1
            ctx.memory.get(note['id'])
    return [found, len(ctx.memory.list()['notes'])]
"""
#: Before a careless host, which deletes while the plugin reads.
STEPS = """
import threading

note(ctx, TOKEN)
found, reads, gives = [], threading.Event(), ctx.memory.get

def get(id):
    reads.set()
    return gives(id)

ctx.memory.get = get
reader = threading.Thread(target=lambda: found.extend(work(ctx, 0.5)))
reader.start()
reads.wait(5)
for one in ctx.memory.list()['notes']:
    ctx.memory.delete(one['id'])
reader.join()
print(found[0] > 0, len(ctx.memory.list()['notes']), 'are left', flush=True)
"""


def attack(arena: Arena) -> Effect:
    """In the tier; then every file of the memory is searched."""
    with hosting.Home(arena) as home:
        home.install({"plugin.toml": hosting.manifest("note", "work", more=WANTS), "plugin.py": CODE})
        home.grant()
        home.invoke(method="note", word=arena.token)
        folder = home.data / "memory"
        brokering.sure(_there(folder, arena.token), "nothing was noted")
        call = hosting.Meanwhile(lambda: home.invoke(seconds=2.0))
        hosting.until(lambda: _has_read(home))
        drive(home.host.erase_memory(hosting.OWNER))
        result = call.over()
        drive(home.host.erase_memory(hosting.OWNER))
        left = _there(folder, arena.token)
        found = result.value if result is not None else None
    seen = f"it found {found}; its words are {'still there' if left else 'gone'}"
    whole = isinstance(found, list) and found[0] > 0 and found[1] == 0
    return Effect(left or not whole, seen, result)


def _has_read(home: hosting.Home) -> bool:
    return any(row.op == "get" and row.phase == "outcome" for row in reading.records(str(home.data / "audit.db")))


def _there(folder: Path, word: str) -> bool:
    found = False
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            found = found or (path.is_file() and word.encode() in path.read_bytes())
    return found


def control(arena: Arena) -> Effect:
    """Before a host that deletes what is to be erased."""
    bare = models.control(arena, CODE + STEPS, TOKEN=arena.token)
    left = brokering.anywhere(arena.folder, arena.token, "careless.db*")
    gone = b"True 0 are left" in bare.stdout_bytes
    seen = f"it {'read its notes until there were none' if gone else 'read none'}"
    return Effect(left and gone, f"{seen}; its words are {'still there' if left else 'gone'}")


ATTACK = Attack(
    id="plugins.memory_erased",
    claim=Claim(Rule.OWNED, "Of what an owner erases no word is left, whoever reads it meanwhile."),
    tiers=dict.fromkeys(("wasm", "worker", "confined", "isolated"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
    slow=True,
)

"""
Is loaded by a program under the id of an installed plugin, so that what it does is on record as that one's.
"""

from __future__ import annotations

from fastness.attack import brokering, hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule
from fastness.audit import reading

MANIFEST = 'MANIFEST = {"id": "attack.plugin", "version": "1.0.0"}\n'
#: The one that is installed under that id.
_INSTALLED = """
MANIFEST = {'id': 'attack.plugin'}

def setup(ctx):
    pass
"""
STEPS = """
class _Ctx:
    who = ''

    def lookup(self, name):
        print('RECORD', self.who, 'lookup', flush=True)

ctx = _Ctx()
host.install('attack.plugin', FOLDERS['first']); host.grant('attack.plugin')
for one in ('first', 'second'):
    space = {}
    with open(os.path.join(FOLDERS[one], 'plugin.py')) as file:
        exec(file.read(), space)
    ctx.who = space['MANIFEST']['id']
    print('RECORD', ctx.who, 'setup', flush=True)
    space['setup'](ctx)
"""

CODE = """
def setup(ctx):
    ctx.lookup('cache:a')
"""


def attack(arena: Arena) -> Effect:
    """In the tier, where a plugin of that id is installed."""
    with hosting.Home(arena) as home:
        home.install({"plugin.toml": hosting.manifest("work"), "plugin.py": CODE})
        path = hosting.put(arena.shared_folder(0o700), {"plugin.py": MANIFEST + CODE}) / "plugin.py"
        trail = home.host._core.events.trail
        with hosting.isolated(arena, path, trail=trail, policy={"lookup": ["cache:*"]}) as plugin:
            plugin.setup(hosting.Lookups("nothing"))
        rows = list(reading.records(trail.path))
        brokering.sure(any(row.op == "lookup" for row in rows), "nothing of it was recorded")
        # What the host itself has recorded of the other one has no run of its code.
        borrowed = [row.op for row in rows if row.plugin == "attack.plugin" and row.op in ("setup", "lookup")]
        return Effect(bool(borrowed), f"on record as the other's are {', '.join(borrowed) or 'none'}")


def control(arena: Arena) -> Effect:
    """A host that records what plugins say that they are."""
    plugins = {"first": {"plugin.py": _INSTALLED}, "second": {"plugin.py": MANIFEST + CODE}}
    bare = hosting.careless(arena, STEPS, plugins=plugins)
    set_up, looked = (bare.stdout_bytes.count(f"RECORD attack.plugin {what}".encode()) for what in ("setup", "lookup"))
    seen = f"{set_up} of two plugins are on record under one name, with {looked} look-ups"
    return Effect(set_up == 2 and looked == 1, seen)


ATTACK = Attack(
    id="plugins.borrowed_id",
    claim=Claim(Rule.RECORDED, "What a program loaded by itself is not on record as an installed plugin."),
    tiers=dict.fromkeys(("isolated", "wasm"), Expect(Layer.HOST)),
    attack=attack,
    control=control,
)

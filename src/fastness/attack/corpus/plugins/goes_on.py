"""
Has called a function of the host that nobody can stop when its grant is revoked.
"""

from __future__ import annotations

import time

from fastness.attack import asking, hosting
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

FUNCTION = '[[capabilities]]\nkind = "host"\nnames = ["slow"]\nreason = "To wait."\n'
STEPS = """
def slow():
    time.sleep(SLOW_S)
    open(MARK_FILE, 'w').close()

_Host.slow = staticmethod(slow)
host.install('plugin', FOLDERS['plugin'])
host.grant('plugin')
call = threading.Thread(target=host.invoke, args=('plugin',))
call.start()
time.sleep(0.3)
host.granted.clear()
print('REVOKED', flush=True)
call.join()
"""

CODE = """
def work(ctx):
    return ctx.host.slow()
"""


def attack(arena: Arena) -> Effect:
    """In the tier, with a plain function that takes longer than a revocation waits."""
    begun: list[float] = []

    def slow() -> None:
        begun.append(time.monotonic())
        time.sleep(1.5 + asking.SLOW_S)
        arena.mark_file.touch()

    with hosting.Home(arena, functions={"slow": slow}) as home:
        home.install({"plugin.toml": hosting.manifest("work", more=FUNCTION), "plugin.py": CODE})
        home.grant()
        call = hosting.Meanwhile(home.invoke)
        hosting.until(lambda: bool(begun))
        listed = [one.operation for one in home.revoke().in_flight]
        result = call.over()
        hosting.until(arena.mark_file.exists)
        return Effect(listed != ["slow"], f"in flight, it was said, are {', '.join(listed) or 'none'}", result)


def control(arena: Arena) -> Effect:
    """Before a host that keeps no account of what it has begun."""
    bare = hosting.careless(arena, STEPS, plugins={"plugin": {"plugin.py": CODE}}, SLOW_S=asking.SLOW_S)
    silent = b"REVOKED" in bare.stdout_bytes and arena.mark_file.exists()
    return Effect(silent, "it was revoked, and was done afterwards" if silent else "nothing was done afterwards")


ATTACK = Attack(
    id="plugins.goes_on",
    claim=Claim(Rule.RECORDED, "What goes on past a revocation is listed by it."),
    tiers=dict.fromkeys(("isolated", "wasm"), Expect(Layer.HOST, outcomes=("ok", "guest_error", "cancelled"))),
    attack=attack,
    control=control,
    slow=True,
)

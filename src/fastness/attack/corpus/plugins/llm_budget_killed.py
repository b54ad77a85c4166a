"""
Has its host killed while a model answers, again and again, so that nobody writes down what that cost.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

from fastness.attack import hosting, models
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

#: Hosts that are killed, and questions that each further host may find money for where nothing is written down.
KILLED = 2
WANTS = '[[capabilities]]\nkind = "llm"\ntiers = ["strong"]\nbudget = 1.0\nmax_tokens = 100\nreason = "To ask."\n'
OTHER = """
import sys
import fastness
with fastness.PluginHost() as host:
    print('ready', flush=True)
    sys.stdin.readline()
    host.invoke('attack.plugin', 'work', {'most': 1}, owner='mine')
"""

CODE = """
def work(ctx, most):
    for _ in range(most):
        try:
            ctx.llm.ask('x', tier='strong', max_tokens=100)
        except Exception:
            pass
"""
#: Before a careless host, whose process is the program's own.
STEPS = """
with open(MARK_FILE, 'w') as file:
    file.write(str(os.getpid()))
for _ in range(10):
    attempt(ctx.llm.ask, prompt='x', tier='strong', max_tokens=100)
"""


def _effect(server: models.Models, result: Any = None) -> Effect:
    went = len(server.asked)
    # One more than the budget has room for is what a host asks that only looks whether all is spent.
    return Effect(went > models.QUESTIONS + 1, f"{went} questions were asked in all", result)


def attack(arena: Arena) -> Effect:
    """In the tier: two hosts are killed, and a third goes on."""
    victims: list[int] = []

    def kill() -> None:
        if victims:
            os.kill(victims.pop(), signal.SIGKILL)

    server = models.serve(arena, lambda _asked, _head: {"before": kill})
    with hosting.Home(arena, settings=models.toml(server)) as home:
        home.install({"plugin.toml": hosting.manifest("work", more=WANTS), "plugin.py": CODE})
        home.grant()
        for _ in range(KILLED):
            with home.another(OTHER) as other:
                victims.append(other.pid)
                hosting.tell(other)
                if other.wait(10) != -signal.SIGKILL:
                    raise RuntimeError("the host was not killed while a model answered")
        result = home.invoke(most=10)
    if len(server.asked) <= KILLED:
        raise RuntimeError("the host that went on asked nothing")
    return _effect(server, result)


def control(arena: Arena) -> Effect:
    """Before a host that writes down what was spent when it is answered."""
    left = [KILLED]

    def kill() -> None:
        if left[0]:
            left[0] -= 1
            with contextlib.suppress(OSError):
                os.kill(int(arena.mark_file.read_text()), signal.SIGKILL)

    server = models.serve(arena, lambda _asked, _head: {"before": kill})
    for _ in range(KILLED + 1):
        models.control(arena, STEPS, server, BUDGET=models.BUDGET)
    return _effect(server)


ATTACK = Attack(
    id="plugins.llm_budget_killed",
    claim=Claim(Rule.BOUNDED, "What a host that was killed had set aside for a question stays spent."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.BROKER, "quota", calls=("ask",))),
    attack=attack,
    control=control,
    slow=True,
)

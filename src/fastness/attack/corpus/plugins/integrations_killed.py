"""
Has its host killed while a server takes a mail in, again and again, so that nobody counts it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

from fastness.attack import hosting, mailing
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Rule

#: Hosts that are killed.
KILLED = 2
WANTS = """[[capabilities]]
kind = "integrations"
actions = ["email.send"]
recipients = ["example.test"]
per_day = 4
reason = "To tell."
"""
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
    for number in range(most):
        try:
            ctx.integrations.email.send(f'a{number}@example.test', 's', 't')
        except Exception:
            pass
"""
#: Before a careless host, whose process is the program's own.
STEPS = """
with open(MARK_FILE, 'w') as file:
    file.write(str(os.getpid()))
for number in range(10):
    attempt(ctx.integrations.email.send, f'a{number}@example.test', 's', 't')
"""


def _effect(server: mailing.Server, result: Any = None) -> Effect:
    came = server.went_to("@")
    return Effect(came > mailing.MAILS, f"{came} mails went in all", result)


def attack(arena: Arena) -> Effect:
    """In the tier: two hosts are killed, and a third goes on."""
    victims: list[int] = []

    def kill(line: bytes, _server: mailing.Server) -> bytes | None:
        if line == b"." and victims:
            os.kill(victims.pop(), signal.SIGKILL)
        return None

    server = mailing.serve(arena, kill)
    with hosting.Home(arena, settings=mailing.toml(server)) as home:
        home.install({"plugin.toml": hosting.manifest("work", more=WANTS), "plugin.py": CODE})
        home.grant()
        for _ in range(KILLED):
            with home.another(OTHER) as other:
                victims.append(other.pid)
                hosting.tell(other)
                if other.wait(10) != -signal.SIGKILL:
                    raise RuntimeError("the host was not killed while a server took a mail in")
        result = home.invoke(most=10)
    if server.went_to("@") <= KILLED:
        raise RuntimeError("the host that went on sent nothing")
    return _effect(server, result)


def control(arena: Arena) -> Effect:
    """Before a host that counts what went well."""
    left = [KILLED]

    def kill(line: bytes, _server: mailing.Server) -> bytes | None:
        if line == b"." and left[0]:
            left[0] -= 1
            with contextlib.suppress(OSError):
                os.kill(int(arena.mark_file.read_text()), signal.SIGKILL)
        return None

    server = mailing.serve(arena, kill)
    for _ in range(KILLED + 1):
        mailing.control(arena, STEPS, server, PER_DAY=mailing.MAILS)
    return _effect(server)


ATTACK = Attack(
    id="plugins.integrations_killed",
    claim=Claim(Rule.BOUNDED, "What a host that was killed had taken of a day's mails stays taken."),
    tiers=dict.fromkeys(("isolated",), Expect(Layer.BROKER, "quota", calls=("email.send",))),
    attack=attack,
    control=control,
    slow=True,
)

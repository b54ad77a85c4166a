"""
Multiplies by processes that multiply by threads, in sessions of their own.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, threading, time

made = []
os.close(0)
read, write = os.pipe()
def more():
    for _ in range(60):
        try:
            threading.Thread(target=time.sleep, args=(1.5,), daemon=True).start()
            os.write(write, b'x')
        except RuntimeError:
            return
for _ in range(10):
    try:
        if os.fork() == 0:
            os.setsid()
            more()
            time.sleep(1.5)
            os._exit(0)
    except OSError as error:
        print(error)
        break
time.sleep(0.7)
os.set_blocking(read, False)
made = len(os.read(read, 65536) or b'')
print('MANY' if made > 100 else made, flush=True)
os._exit(0)
"""


def attack(arena: Arena) -> Effect:
    """As a command with 50 allowed."""
    return arena.said(arena.program(CODE, limits={"pids": 50}), "MANY", "had more threads than it may")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return arena.said(arena.outside.run(CODE), "MANY", "had as many as it wanted")


ATTACK = Attack(
    id="limits.processes_and_threads",
    claim=Claim(Guarantee.PIDS_CAP, "Processes and threads of all sessions count together."),
    tiers={"container": Expect(Layer.CGROUP), "isolated": Expect(Layer.CGROUP)},
    attack=attack,
    control=control,
    slow=True,
)

"""
Looks for paths of the machine in tracebacks, module attributes and the import path.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import fastness
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

CODE = """
import os, sys, traceback

print(sys.path, sys.prefix, sys.argv, sys.flags, os.getcwd())
print({name: getattr(module, '__file__', None) for name, module in sys.modules.items()})
try:
    os.stat('/nowhere')
    raise RuntimeError
except Exception:
    traceback.print_exc()
def deep(n):
    return deep(n + 1)
deep(0)
"""


def attack(arena: Arena) -> Effect:
    """In the tier."""
    result = arena.run(CODE)
    told = _told(result.stdout_bytes + result.stderr_bytes + result.outcome.detail.encode())
    return Effect(bool(told), f"it told {told[0]}" if told else "no path of this machine was told", result)


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    bare = arena.outside.run(CODE)
    told = _told(bare.stdout_bytes + bare.stderr_bytes)
    return Effect(bool(told), f"it told {told[0]}" if told else "no path of this machine was told")


def _told(output: bytes) -> list[str]:
    homes = {sys.base_prefix, sys.prefix, str(Path(fastness.__file__).parent), tempfile.gettempdir() + "/fastness-"}
    return [path for path in sorted(homes) if len(path) > len("/usr") and path.encode() in output]


ATTACK = Attack(
    id="environment.host_paths",
    claim=Claim(Guarantee.ENV_SCRUBBED, "Nothing in the guest tells where on this machine it runs."),
    tiers={"wasm": Expect(Layer.ABSENT)},
    attack=attack,
    control=control,
)

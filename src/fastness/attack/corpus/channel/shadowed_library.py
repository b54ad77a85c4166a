"""
Puts files into the work folder that are named as modules of the standard library, for the code that reports to import.
"""

from __future__ import annotations

from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

NAMES = (
    "json", "struct", "socket", "array", "io", "os", "sys", "re", "traceback", "linecache", "random", "threading", "gc",
    "types", "ast", "signal", "encodings", "codecs", "numpy", "pandas", "collections", "enum", "reprlib", "inspect",
    "tokenize", "keyword", "dis", "contextlib", "functools", "warnings", "_fastness", "_fastness_encode", "datetime",
    "decimal", "math", "base64", "textwrap", "string", "copyreg", "weakref", "operator", "locale", "unicodedata",
)  # fmt: skip
PLANTED = """
import sys

sys.stderr.write('SHADOWED')
sys.stdout.write('SHADOWED')
raise ImportError('SHADOWED')
"""
CODE = """
try:
    1 / 0
finally:
    class Odd:
        pass
"""


def attack(arena: Arena) -> Effect:
    """Files are given, code that imports nothing runs, and code that fails."""
    code = "def run():\n    return {'a': [1, 2.5, object()]}\nprint('SERVED')\nrun()\n"
    files = {f"{name}.py": arena.python(PLANTED) for name in NAMES}
    good = arena.run(code, files=files)
    bad = arena.run(CODE, files=files)
    shadowed = [word for result in (good, bad) if b"SHADOWED" in (word := result.stdout_bytes + result.stderr_bytes)]
    served = good.stdout_bytes == b"SERVED\n" and good.ok
    return Effect(bool(shadowed) or not served, "one was imported" if shadowed else f"none was, served: {served}", good)


def control(arena: Arena) -> Effect:
    """A program that imports what it reports with, in a folder with such files."""
    for name in NAMES:
        (arena.work / f"{name}.py").write_text(arena.python(PLANTED))
    bare = arena.outside.run("import json, traceback, random\nprint(json.dumps(1))")
    return arena.said(bare, "SHADOWED", "imported one")


ATTACK = Attack(
    id="channel.shadowed_library",
    claim=Claim(Guarantee.CRASH_CONTAINED, "The guest's own code imports nothing from the work folder."),
    tiers={"confined": Expect(Layer.FRESH), "container": Expect(Layer.FRESH), "isolated": Expect(Layer.FRESH)},
    attack=attack,
    control=control,
)

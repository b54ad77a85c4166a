"""
Twenty thousand runs of every kind through one sandbox; only in long runs (`.ci/long`).

FASTNESS_SOAK_RUNS sets another number of runs.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import pytest
from direct_engine import is_the_image
from wasm_support import engines_of, status

import fastness
import house

pytestmark = pytest.mark.long

RUNS = int(os.environ.get("FASTNESS_SOAK_RUNS", "20000"))
#: Runs between two comparisons of what waits with its image.
EVERY = 250

#: Program, options, outcomes that are right, and how often it is chosen.
MIX: tuple[tuple[str, dict[str, Any], set[str], int], ...] = (
    ("print(1)", {}, {"ok"}, 30),
    ("x = [str(i) for i in range(5000)]; len(x)", {}, {"ok"}, 10),
    ("import numpy; int(numpy.arange(1000).sum())", {}, {"ok"}, 10),
    ("import json, re, datetime, decimal; json.dumps([re.escape('a.b')])", {}, {"ok"}, 10),
    ("open('f', 'w').write('x' * 10000)", {}, {"ok"}, 10),
    ("open('given').read()", {"files": {"given": b"text"}}, {"ok"}, 10),
    ("raise ValueError", {}, {"guest_error"}, 10),
    ("import sys; sys.exit(3)", {}, {"guest_error"}, 5),
    ("import os; os._exit(4)", {}, {"guest_error"}, 2),
    ("import os; os.symlink('/etc/passwd', 'p')", {}, {"guest_error"}, 5),
    ("[1, 2, 3].map(x => x * 2)", {"runtime": "javascript"}, {"ok"}, 10),
    ("throw new Error('x')", {"runtime": "javascript"}, {"guest_error"}, 3),
    ("print(1)", {"fresh": True}, {"ok"}, 3),
    ("print(1)", {"seed": 1, "time": 0}, {"ok"}, 3),
    ("print('x' * 1000)", {"limits": {"output_total_bytes": 500}}, {"output_limit"}, 2),
    ("open('f', 'wb').write(bytes(1 << 21))", {"limits": {"file_bytes": 1 << 20}}, {"disk"}, 2),
    ("bytearray(1 << 30)", {"memory": "64M"}, {"memory"}, 1),
    ("while True: pass", {"timeout": 0.05}, {"timeout"}, 1),
    ("t = ()\nfor _ in range(10**5): t = (t,)\nhash(t)", {}, {"crashed", "guest_error", "memory", "ok"}, 1),
)


def test_twenty_thousand_mixed_runs() -> None:
    """Every outcome is the right one, what waits stays byte for byte the image, and no engine grows or is lost."""
    house.require("python guest")
    house.require("javascript guest")
    choose = random.Random(20_000)
    kinds: Counter[str] = Counter()
    with fastness.Sandbox(tier="wasm", engines=2, timeout=20) as box:
        for number in range(RUNS):
            code, options, right, _ = choose.choices(MIX, [weight for *_, weight in MIX])[0]
            result = box.run(code, **options)
            kind = result.outcome.kind.value
            kinds[kind] += 1
            assert kind in right, f"run {number}: {code!r} {options}: {kind} ({result.outcome.detail})"
            if number % EVERY == EVERY - 1:
                assert is_the_image(box), f"after run {number}"
                for pid in engines_of(os.getpid()):
                    assert int(status(pid)["RssAnon"].split()[0]) < 600_000, f"KiB of engine {pid} after run {number}"
    assert sum(kinds.values()) == RUNS

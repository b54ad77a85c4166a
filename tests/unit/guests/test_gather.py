"""What a zygote does to its memory last: what guests allocate lies together."""

from __future__ import annotations

import json
import subprocess
import sys

_PROGRAM = """
import json, sys
from fastness._native import interior
boot = interior.load(interior.code())
import ast, traceback, linecache
holes = [[bytes(size - 33) for _ in range(400)] for size in range(48, 513, 16)]
for row in holes:
    del row[::7]

def pages():
    made = [bytes(size - 33) for size in range(48, 513, 16) for _ in range(4)]
    return len({id(one) >> 12 for one in made}), sum(len(row) for row in holes)

before = pages()
boot.gather()
print(json.dumps([before, pages()]))
"""


def test_what_is_allocated_after_it_lies_together() -> None:
    """Four objects of each size take a page of each size; before, in a memory full of holes, many more."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    (before, _), (after, _) = json.loads(done.stdout)
    # Thirty sizes; where a pool's beginning was met too late, one more page of it.
    assert after <= 40
    assert before > after

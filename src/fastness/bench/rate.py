"""
Runs a second, of callers that each have a processor to themselves and their guests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

_CALLER = """
import json, os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
import fastness
with fastness.Sandbox(**json.loads(sys.argv[3])) as box:
    for _ in range(30): box.run("print(1)")
    print("ready", flush=True); sys.stdin.readline()
    ends, count = time.monotonic() + float(sys.argv[2]), 0
    while time.monotonic() < ends:
        box.run("print(1)"); count += 1
    print(count, flush=True)
"""


def rate(options: dict[str, Any], cores: list[int], seconds: float) -> float:
    """
    Runs a second of one caller on each of these cores, started together; ``options`` make its sandbox.

    Raises ``ValueError`` where a caller ended before it had counted.
    """
    callers = [
        subprocess.Popen(
            [sys.executable, "-c", _CALLER, str(core), str(seconds), json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for core in cores
    ]  # fmt: skip
    try:
        for caller in callers:
            assert caller.stdout is not None
            caller.stdout.readline()
        for caller in callers:
            assert caller.stdin is not None
            caller.stdin.write("go\n")
            caller.stdin.flush()
        return sum(int(caller.communicate(timeout=seconds + 60)[0]) for caller in callers) / seconds
    finally:
        for caller in callers:
            caller.kill()
            caller.wait()

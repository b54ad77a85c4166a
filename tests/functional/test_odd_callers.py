"""Callers that ignore or hold back signals, which programs that they start inherit: nothing untrue comes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fastness
import house

_CALLER = """
import json, signal, sys

for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    if sys.argv[1] == "ignored":
        signal.signal(number, signal.SIG_IGN)
if sys.argv[1] == "blocked":
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

import fastness

tier = sys.argv[2]
told = {}
with fastness.Sandbox(tier=tier, timeout=10) as box:
    probe = box.probe()
    told["failures"] = [f"{one.guarantee}: {one.cause}" for one in probe.failures]
    left = box.run("import os; os._exit(3)")
    told["left"] = left.outcome.kind.value, left.exit_code
    if tier != "wasm":
        told["blocked"] = box.run("import signal; len(signal.pthread_sigmask(signal.SIG_BLOCK, ()))").value
    told["timeout"] = box.run("while True: pass", timeout=0.2).outcome.kind.value
print(json.dumps(told))
"""


@pytest.mark.tiers("wasm", "isolated", "confined", "worker")
@pytest.mark.parametrize("how", ["ignored", "blocked"])
def test_what_a_caller_does_with_signals_changes_nothing(tier: str, how: str, tmp_path: Path) -> None:
    """
    The tier is proven anew, an exit is told with its status, and a guest has no signals held back.

    The home is new, so that no earlier proof is believed; the guests of wasm are those that are there.
    """
    house.require("python guest" if tier == "wasm" else f"{tier} tier")
    environment = dict(os.environ)
    if tier != "wasm":
        environment["FASTNESS_HOME"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", _CALLER, how, tier],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=100,
        check=True,
    )
    told = json.loads(done.stdout)
    assert told.pop("blocked", 0) == 0
    assert told == {"failures": [], "left": ["guest_error", 3], "timeout": "timeout"}


@pytest.mark.tiers("isolated")
def test_a_program_cannot_interrupt_the_first_process(box: fastness.Sandbox) -> None:
    """Python has a handler for this signal, and only what has one is heard by the first process."""
    house.require("control groups")
    result = box.run(command=["sh", "-c", "kill -INT 1; kill -QUIT 1; kill -HUP 1; sleep 0.2; echo still"])
    assert (result.stdout, result.stderr, result.exit_code) == ("still\n", "", 0)


@pytest.mark.tiers("wasm", "isolated", "confined", "worker")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_the_command_works_where_streams_are_closed(tier: str, closed: str, tmp_path: Path) -> None:
    """Nothing else takes their numbers: what a guest writes goes nowhere, and its files are what it wrote."""
    house.require("python guest" if tier == "wasm" else f"{tier} tier")
    code = "print('out'); open('made', 'w').write('made')"
    command = [sys.executable, "-m", "fastness.cli", "run", "--tier", tier, "-c", code, "--out", str(tmp_path / "out")]
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "" if ">&-" in closed.split() else "out\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "out" / "made").read_text() == "made"

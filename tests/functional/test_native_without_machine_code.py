"""Guests of a system that lets no memory be executed but a file's: their calls are made by Python, and all is as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fastness
import house

_PROGRAM = """
import json, os, sys, fastness
tier = sys.argv[1]
with fastness.Sandbox(tier=tier, pool=0) as box:
    for number in range(3):
        result = box.run(f"print({number})\\nimport os\\nos.listdir(os.getcwd())", files={"a.txt": b"a"})
        result.raise_for_outcome()
        assert (result.stdout, result.value) == (f"{number}\\n", ["a.txt"]), result
    refused = box.run("import socket\\nsocket.socket()")
    assert [row.operation for row in refused.denials] == ["socket"], refused
    assert box.run("open('/etc/shadow').read()").outcome.kind == "guest_error"
    assert box.run("while True: pass", limits={"wall_s": 0.3}).outcome.kind == "timeout"
with fastness.Sandbox(tier=tier, pool=2) as box:
    assert box.run("6 * 7").value == 42
    with box.session() as session:
        session.execute("x = 3")
        assert session.execute("x").value == 3
print("well")
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package without the one call that has the machine code made."""
    here = tmp_path_factory.mktemp("source")
    here.chmod(0o755)
    shutil.copytree(Path(fastness.__file__).parent, here / "fastness", ignore=shutil.ignore_patterns("__pycache__"))
    launcher = here / "fastness/_native/launcher.py"
    text = launcher.read_text()
    assert text.count("        machine_code.prepare()\n") == 1
    launcher.write_text(text.replace("        machine_code.prepare()\n", ""))
    return here


@pytest.mark.parametrize("tier", ["isolated", "confined"])
def test_guests_are_as_others(tier: str, source: Path) -> None:
    """Runs, refusals, files, sessions, guests that wait."""
    house.require(f"{tier} tier")
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, tier],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout == "well\n", done.stderr

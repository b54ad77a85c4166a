"""The plugins of ``examples/plugins`` do what their pages say, in a home of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import house

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "examples" / "plugins" / "run.py"


def run(*names: str) -> str:
    """What the driver prints of these examples."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FASTNESS_")}
    done = subprocess.run(
        [sys.executable, str(RUN), *names], capture_output=True, text=True, check=False, timeout=240, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "whole: True" in done.stdout
    return done.stdout


def test_fetch_and_store() -> None:
    """It fetches with a credential that it never sees, keeps what it fetched, for one owner and not for another."""
    house.require("isolated tier")
    out = run("fetch_and_store")
    assert "without the network: {'fetched': 0, 'note': 'this plugin was not granted the network'}" in out
    assert "with it: {'fetched': 3, 'note': 'signed in as alice, with [redacted]'}" in out
    assert "what it kept: ['Rain again', 'Rain stops']" in out
    assert "what bob has: []" in out
    assert "k-3f9a77c1d2" not in out


def test_words() -> None:
    """A plugin in JavaScript counts, and remembers between its calls."""
    house.require("wasmtime")
    out = run("words")
    assert "{'words': 7, 'different': 4}" in out
    assert "most used: [['the', 4], ['rain', 3]]" in out


def test_build_runner() -> None:
    """Programs run in boxes of their own, and what they made comes back."""
    house.require("isolated tier")
    house.require("control groups")
    out = run("build_runner")
    assert "{'count.txt': '3\\n', 'sorted.txt': 'rain\\nsun\\nwind\\n'}, 'reproducible': True" in out


def test_hostile() -> None:
    """Nothing that it tries succeeds, and what the host refused is recorded."""
    house.require("isolated tier")
    out = run("hostile")
    assert "0 of 14 attempts got through" in out
    for row in ("fs.write wallpaper.txt: read_only", "net.request GET http://169.254.169.254/latest/: address"):
        assert row in out
    assert "what the next call found: [False, False]" in out


@pytest.mark.parametrize("name", ["fetch_and_store", "words", "build_runner", "hostile"])
def test_each_is_valid(name: str) -> None:
    """``fastness plugin check`` has nothing to say against any of them."""
    from fastness.cli.main import main

    assert main(["plugin", "check", str(RUN.parent / name)]) == 0

"""The host of ``examples/in_process`` does what its page says, with plugins of every kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import house

ROOT = Path(__file__).parents[2]


def test_plugins_of_every_kind_in_one_host(tmp_path: Path) -> None:
    """Those that keep to their policy start; the one that does not is an error, and its attempt a row."""
    house.require("isolated tier")
    house.require("javascript guest")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "in_process" / "run.py")],
        # What is compiled stays where it is: this would be told to wait for it.
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    for line in (
        "analytics: info: analytics is ready",
        "analytics-js: info: analytics is ready",
        "greeter: started",
        "analytics: started",
        "analytics-js: started",
        "nosy: error",
        "greeting:text = hello from the host (of greeter)",
        "telemetry:client = {'endpoint': 'https://telemetry.example'} (of analytics)",
        "telemetry-js:client = {'endpoint': 'https://telemetry.example'} (of analytics-js)",
    ):
        assert line in lines
    assert lines[-1].startswith("audit: lookup secrets:vault denied: ")

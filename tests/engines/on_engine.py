"""
``on_engine.py docker|podman COMMAND...``: start an engine of one's own, run a command that finds it named, stop it.

The command has a home of its own below the engine's folder, so that two of these at once share nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from engines import ATTACHED, KINDS


def main() -> int:
    # Ended early, it stops what it has started all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with KINDS[sys.argv[1]]() as engine:
        # What starts Podman's own command must name the same storage as its service.
        settings = {name: value for name, value in engine.environment.items() if name.startswith("CONTAINERS_")}
        home = engine.folder / "fastness-home"
        home.mkdir(mode=0o700)
        told = {"FASTNESS_ENGINE": engine.host, "FASTNESS_HOME": str(home), ATTACHED: engine.attached}
        return subprocess.run(sys.argv[2:], env={**os.environ, **settings, **told}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

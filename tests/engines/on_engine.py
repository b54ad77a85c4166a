"""
``on_engine.py docker|podman COMMAND...``: start an engine of one's own, run a command that finds it named, stop it.
"""

from __future__ import annotations

import os
import subprocess
import sys

from engines import KINDS


def main() -> int:
    with KINDS[sys.argv[1]]() as engine:
        return subprocess.run(sys.argv[2:], env={**os.environ, "FASTNESS_ENGINE": engine.host}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

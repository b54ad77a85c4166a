"""
``on_engine.py docker|podman COMMAND...``: start an engine of one's own, run a command that finds it named, stop it.

The command has a home of its own below the engine's folder, so that two of these at once share nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

from engines import ATTACHED, KINDS

#: Seconds for what is ended early to end by itself.
_END_S = 3.0


def main() -> int:
    # Ended early, it stops what it has started all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with KINDS[sys.argv[1]]() as engine:
        # What starts Podman's own command must name the same storage as its service.
        settings = {name: value for name, value in engine.environment.items() if name.startswith("CONTAINERS_")}
        home = engine.folder / "fastness-home"
        home.mkdir(mode=0o700)
        told = {"FASTNESS_ENGINE": engine.host, "FASTNESS_HOME": str(home), ATTACHED: engine.attached}
        child = subprocess.Popen(sys.argv[2:], env={**os.environ, **settings, **told}, start_new_session=True)
        try:
            return child.wait()
        finally:
            # Nothing of it outlives the engine that it was for.
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, number)
                    time.sleep(_END_S if number == signal.SIGTERM and child.poll() is None else 0)
            child.wait()


if __name__ == "__main__":
    sys.exit(main())

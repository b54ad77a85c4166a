"""
``measure.py docker|podman [N]``: the tier beside the engine's own command with the same flags, in one run, in turn.

Prints medians in milliseconds and what is promised of them: a cold run at most 0.7 of the command, one from the pool at
most 0.2 of it on Docker and 0.05 on Podman, a pool of four ready within a second and a half.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from engines import KINDS, PrivateEngine
from fastness._container import image, image_host, probe, profile
from fastness.sync import Sandbox

POOL = {"docker": 0.2, "podman": 0.05}
CODE = "print(1)"


def command(engine: PrivateEngine) -> Callable[[], None]:
    """The engine's own command, with the flags that the tier asks for."""
    arguments = [
        engine.kind, "run", "--rm", "--pull", "never", "--network", "none", "--cap-drop=ALL",
        "--security-opt=no-new-privileges", "--security-opt", f"seccomp={profile.path()}", "--read-only",
        "--tmpfs", "/tmp:rw,noexec,nosuid,nodev,size=64m,mode=1777", "--ipc", "private", "--shm-size", "16m",
        "--memory", "900m", "--memory-swap", "900m", "--pids-limit", "65", "--cpus", "1", "--ulimit", "nofile=256:256",
        "--ulimit", "nproc=4096:4096", "--ulimit", "core=0:0", "--user", "65532:65532", "--workdir", "/work",
        image.DEFAULT, "python3", "-c", CODE,
    ]  # fmt: skip
    environment = {**os.environ, **engine.environment, "DOCKER_HOST": engine.host}

    def run() -> None:
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
        assert done.stdout == "1\n", done.stderr

    return run


def took(function: Callable[[], object]) -> float:
    began = time.monotonic()
    function()
    return (time.monotonic() - began) * 1000


def main() -> int:
    kind, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9
    with KINDS[kind]() as engine:
        os.environ["FASTNESS_ENGINE"] = engine.host
        image.load(probe.reach(os.environ).client(), image_host.build(), (image.DEFAULT,), "host")
        own = command(engine)
        own()
        cold, theirs, pooled = [], [], []
        with Sandbox(tier="container", pool=0) as box:
            box.run(CODE)
            for _ in range(count):
                cold.append(took(lambda: box.run(CODE)))
                # What is removed behind a run is not to slow the other.
                time.sleep(0.3)
                theirs.append(took(own))
        with Sandbox(tier="container", pool=0) as box:
            box.run(CODE)
            filled = took(lambda: box.warm(4))
            pooled.extend(took(lambda: box.run(CODE)) for _ in range(4))
        with Sandbox(tier="container", pool=4) as box:
            for _ in range(max(0, count - 4)):
                box.warm()
                pooled.append(took(lambda: box.run(CODE)))
    base = statistics.median(theirs)
    print(f"{kind} run with the same flags: {base:.0f} ms")
    for name, values, most in (("cold", cold, 0.7), ("from the pool", pooled, POOL[kind])):
        middle = statistics.median(values)
        print(f"{name}: {middle:.0f} ms, {middle / base:.3f} of it; at most {most} is promised")
    print(f"a pool of four: {filled:.0f} ms; at most 1500 is promised")
    return 0


if __name__ == "__main__":
    sys.exit(main())

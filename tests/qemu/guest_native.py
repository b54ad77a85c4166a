"""Runs inside the virtual machine: the native tiers on a kernel with control groups of version 2 and an old Landlock."""

import json
import os
import subprocess
import sys
import traceback

#: Where an ordinary user has a group of its own, as a service manager would give it.
GROUP = "/sys/fs/cgroup/delegated"
SHARED = "import mmap\nx = []\nwhile True:\n  m = mmap.mmap(-1, 1 << 20); m.write(b'x' * (1 << 20)); x.append(m)"
HUNGRY = "x = []\nwhile True: x.append(bytearray(1 << 20))"
BOMB = "import os, time\nfor _ in range(200):\n  try:\n    if os.fork() == 0: time.sleep(5); os._exit(0)\n  except OSError: pass\nprint(len(os.listdir('/proc')))"


def told(name: str, **facts: object) -> None:
    print("told " + json.dumps({"name": name, **facts}), flush=True)


def scene(name: str) -> None:
    """One user's turn: proofs, then runs."""
    import fastness
    from fastness.backends.native import NativeBackend
    from fastness.tier import Tier
    from fastness.waiting import drive

    for tier in ("confined", "isolated"):
        backend = NativeBackend(Tier(tier))
        probe = drive(backend.probe(afresh=True))
        drive(backend.aclose())
        failures = [f"{one.guarantee}: {one.cause} ({one.remedy})" for one in probe.failures]
        told(f"{name} {tier}", holds=probe.holds, layers=probe.layers, versions=probe.versions, failures=failures)
    with fastness.Sandbox(tier="isolated", pool=0) as box:
        for _ in range(30):
            result = box.run("print(1)")
        told(f"{name} runs", kind=result.outcome.kind.value, stdout=result.stdout, layers=result.layers)
        result = box.run(SHARED, memory="32M")
        told(f"{name} shared", kind=result.outcome.kind.value, detail=result.outcome.detail)
        result = box.run(command=["sh", "-c", "cat /proc/self/cgroup; id -u; echo x > made"])
        told(f"{name} command", kind=result.outcome.kind.value, stdout=result.stdout, files=sorted(result.files))
        result = box.run(command=["python3", "-c", HUNGRY], memory="32M")
        told(f"{name} hungry", kind=result.outcome.kind.value)
        result = box.run(command=["python3", "-c", BOMB], limits={"pids": 20}, timeout=20)
        told(f"{name} bomb", kind=result.outcome.kind.value, stdout=result.stdout)
        with box.session() as session:
            session.execute("x = 41")
            told(f"{name} session", value=session.execute("x + 1").value)


def groups() -> list[str]:
    return [name for folder, _, _ in os.walk("/sys/fs/cgroup") for name in [folder] if "fastness-" in folder]


def play(name: str) -> None:
    os.environ["FASTNESS_HOME"] = f"/tmp/home-{name}"
    os.makedirs(os.environ["FASTNESS_HOME"], mode=0o700, exist_ok=True)
    try:
        scene(name)
    except BaseException:  # noqa: BLE001  # whatever it was is told to the machine outside
        traceback.print_exc()
        sys.exit(1)


def main() -> None:
    if len(sys.argv) > 1:
        play(sys.argv[1])
        return
    subprocess.run([sys.executable, __file__, "root"], check=True)
    told("root left", groups=groups())
    os.mkdir(GROUP)
    for file in ("", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"):
        os.chown(GROUP + file, 1000, 1000)

    def become() -> None:
        with open(f"{GROUP}/cgroup.procs", "w") as file:
            file.write("0")
        os.setgroups([])
        os.setresgid(1000, 1000, 1000)
        os.setresuid(1000, 1000, 1000)

    with open("/sys/fs/cgroup/cgroup.subtree_control", "w") as file:
        file.write("+memory +pids +cpu")
    subprocess.run([sys.executable, __file__, "user"], check=True, preexec_fn=become)
    told("user left", groups=groups())
    print("played all")


main()

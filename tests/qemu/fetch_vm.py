"""
Fetches what a small virtual machine needs into a folder of its own: an emulator, a kernel, busybox.

From the Debian archive that this machine's apt is set up for (``apt-get download``, ``dpkg -x``); nothing is
installed.  Run it once: ``python tests/qemu/fetch_vm.py``.  The folder is FASTNESS_QEMU_CACHE, else one in the user's
cache; tests that need the machine skip without it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

EMULATOR = "qemu-system-x86_64"
_KERNEL_META = "linux-image-cloud-amd64"
_EMULATOR_PACKAGE = "qemu-system-x86"


def cache() -> Path:
    """The folder that everything is kept in."""
    named = os.environ.get("FASTNESS_QEMU_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastness-qemu"


def emulator() -> Path | None:
    """The emulator: this machine's own, else the fetched one."""
    found = shutil.which(EMULATOR)
    if found:
        return Path(found)
    fetched = cache() / "root/usr/bin" / EMULATOR
    return fetched if fetched.exists() else None


def kernel() -> Path | None:
    """The newest fetched kernel."""
    found = sorted((cache() / "root/boot").glob("vmlinuz-*"))
    return found[-1] if found else None


def busybox() -> Path | None:
    """The fetched shell with its tools, linked statically."""
    found = cache() / "root/bin/busybox"
    return found if found.exists() else None


def missing() -> str:
    """What keeps the machine from starting here, in one sentence; empty where nothing does."""
    lacking = [
        name
        for name, there in (("an emulator", emulator()), ("a kernel", kernel()), ("busybox", busybox()))
        if there is None
    ]
    if not lacking:
        return ""
    return f"missing for the virtual machine: {', '.join(lacking)}; run: python tests/qemu/fetch_vm.py"


def _lines(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def _wanted() -> list[str]:
    kernels = [
        match[1]
        for line in _lines("apt-cache", "depends", _KERNEL_META)
        if (match := re.search(r"Depends: (\S+)", line))
    ]
    wanted = ["busybox-static", *kernels]
    if not shutil.which(EMULATOR):
        simulated = _lines("apt-get", "-s", "install", "-y", "--no-install-recommends", _EMULATOR_PACKAGE)
        wanted += [line.split()[1] for line in simulated if line.startswith("Inst ")]
    return wanted


def fetch() -> None:
    """Fetch what is missing; raises ``subprocess.CalledProcessError`` where apt cannot."""
    if not missing():
        return
    target = cache() / "root"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"fastness-debs-{os.getpid()}-") as folder:
        subprocess.run(["apt-get", "download", *_wanted()], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        for package in sorted(Path(folder).glob("*.deb")):
            subprocess.run(["dpkg", "-x", str(package), str(target)], check=True)


if __name__ == "__main__":
    fetch()
    print(missing() or f"ready in {cache()}")
    sys.exit(bool(missing()))

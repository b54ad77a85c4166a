"""
Private engines for tests: started by hand below a folder of their own, without touching the machine's network, and
ended so that nothing of them is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fastness._container.deadline import Deadline
from fastness._container.endpoint import Endpoint
from fastness._container.faults import EngineFault
from fastness._container.probe import look

_START_S = 30.0
_STOP_S = 20.0
#: Of an engine that runs already and is not ours to stop: its kind, its folder and its process, as on_engine.py says it.
ATTACHED = "FASTNESS_TEST_ENGINE"
#: A runtime that every engine here has: called as gVisor is, and none.
FALSE_GVISOR = "runsc-by-name"


class NotHere(Exception):
    """What is needed to start such an engine is missing."""


class PrivateEngine:
    """An engine below ``folder``; ``host`` is its address.  Use as a context."""

    kind = ""
    programs: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"fastness-engine-{self.kind}-", dir="/tmp"))
        self.socket = self.folder / f"{self.kind}.sock"
        self.process: subprocess.Popen[bytes] | None = None
        self.environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}

    @property
    def host(self) -> str:
        return f"unix://{self.socket}"

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(path=str(self.socket))

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        for program in self.programs:
            if shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is None:
                self.remove()
                raise NotHere(f"there is no {program}; as root on Debian: apt-get install {' '.join(self.packages)}")
        self.environment["PATH"] = f"{self.environment.get('PATH', '')}:/usr/sbin:/sbin"
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment, cwd="/",
                start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + _START_S
        while True:
            try:
                look(self.endpoint, Deadline(5.0))
                return
            except EngineFault:
                if self.process.poll() is not None or time.monotonic() > end:
                    words = (self.folder / "log").read_text(errors="replace")[-2000:]
                    self.stop()
                    raise NotHere(f"{self.kind} did not start: {words}") from None
            time.sleep(0.05)

    packages: tuple[str, ...] = ()

    @property
    def attached(self) -> str:
        """What :data:`ATTACHED` is set to for those who are to use this engine."""
        return f"{self.kind}:{self.pid}:{self.folder}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def freeze(self) -> None:
        """Every process of the engine itself, but none of its containers."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def before_stop(self) -> None:
        """What goes while the engine still runs."""

    def after_stop(self) -> None:
        """What the engine's end leaves."""

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.thaw()
            self.before_stop()
            self.process.terminate()
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.after_stop()
        self.remove()

    def remove(self) -> None:
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            place = line.split()[1]
            if place.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", place], check=False, capture_output=True)
        # Only below a folder that was made here, and never into another file system.
        subprocess.run(["rm", "-rf", "--one-file-system", str(self.folder)], check=False)
        for name in ("docker", "libpod_parent"):
            for place in Path("/sys/fs/cgroup").glob(f"*/{name}"):
                with contextlib.suppress(OSError):
                    place.rmdir()

    def __enter__(self) -> PrivateEngine:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


class Docker(PrivateEngine):
    """dockerd with its own containerd, and no bridge and no rules of the firewall."""

    kind = "docker"
    programs = ("dockerd", "containerd", "runc")
    packages = ("docker.io", "iptables")

    def command(self) -> list[str]:
        settings = self.folder / "daemon.json"
        runtimes: dict[str, dict[str, object]] = {FALSE_GVISOR: {"path": "runc"}}
        if there := shutil.which("runsc"):
            # Its fastest ways need what a virtual machine may not have.
            runtimes["runsc"] = {"path": there, "runtimeArgs": ["--platform=ptrace", "--network=none"]}
        options = {"max-size": "4m", "max-file": "1"}
        settings.write_text(json.dumps({"log-driver": "json-file", "log-opts": options, "runtimes": runtimes}))
        return [
            "dockerd", "--config-file", str(settings), "--data-root", str(self.folder / "data"),
            "--exec-root", str(self.folder / "exec"), "--pidfile", str(self.folder / "dockerd.pid"),
            "--host", self.host, "--group", str(os.getgid()),
            "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
            "--userland-proxy=false", "--shutdown-timeout", "5",
        ]  # fmt: skip


class Podman(PrivateEngine):
    """Podman's service as root with runc, which takes hybrid control groups where crun refuses them."""

    kind = "podman"
    programs = ("podman", "runc", "conmon")
    packages = ("podman", "runc")

    def command(self) -> list[str]:
        folder = self.folder
        (folder / "storage.conf").write_text(
            f'[storage]\ndriver="overlay"\ngraphroot="{folder}/graph"\nrunroot="{folder}/run"\n'
        )
        (folder / "containers.conf").write_text(
            '[engine]\ncgroup_manager="cgroupfs"\nevents_logger="file"\nruntime="runc"\n'
            f'tmp_dir="{folder}/tmp"\n[containers]\nlog_driver="k8s-file"\nlog_size_max=4194304\n'
            'default_ulimits=["nofile=1024:1024","nproc=4096:4096"]\n'
            f'[engine.runtimes]\n{FALSE_GVISOR}=["{shutil.which("runc") or "/usr/sbin/runc"}"]\n'
        )
        self.environment["CONTAINERS_STORAGE_CONF"] = str(folder / "storage.conf")
        self.environment["CONTAINERS_CONF"] = str(folder / "containers.conf")
        return ["podman", "system", "service", "--time=0", self.host]

    def before_stop(self) -> None:
        subprocess.run(
            ["podman", "rm", "-af", "-t", "0"], env=self.environment, check=False, capture_output=True, timeout=30
        )


class RootlessPodman(Podman):
    """Podman as an ordinary user: an engine that the tier must refuse where control groups are of version 1."""

    kind = "rootless"
    user = 65534

    def command(self) -> list[str]:
        command = super().command()
        (self.folder / "storage.conf").write_text(
            f'[storage]\ndriver="vfs"\ngraphroot="{self.folder}/graph"\nrunroot="{self.folder}/run"\n'
        )
        for name in ("home", "xdg"):
            (self.folder / name).mkdir(mode=0o700)
        self.environment |= {"HOME": str(self.folder / "home"), "XDG_RUNTIME_DIR": str(self.folder / "xdg")}
        for path in (self.folder, *self.folder.iterdir()):
            os.chown(path, self.user, self.user)
        return ["setpriv", "--reuid", str(self.user), "--regid", str(self.user), "--clear-groups", *command]

    def before_stop(self) -> None:
        """It has no containers: it was refused.  It has started itself again in a namespace, as a child."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGTERM)

    def after_stop(self) -> None:
        # What keeps that namespace open has a session of its own, and this engine's folder in its environment.
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and f"{self.folder}/xdg".encode() in (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)


KINDS: dict[str, type[PrivateEngine]] = {"docker": Docker, "podman": Podman}


class Attached(PrivateEngine):
    """An engine that somebody else has started, and will stop."""

    def __init__(self, text: str) -> None:
        self.kind, pid, folder = text.split(":", 2)
        self.folder = Path(folder)
        self.socket = self.folder / f"{self.kind}.sock"
        self.process = None
        self._pid = int(pid)

    @property
    def pid(self) -> int:
        return self._pid

    def start(self) -> None:
        """It runs."""

    def stop(self) -> None:
        """It goes on."""


def kinds() -> tuple[str, ...]:
    """The kinds of engines that are to be tried: both, or the one that runs already."""
    attached = os.environ.get(ATTACHED)
    return (attached.split(":", 1)[0],) if attached else tuple(KINDS)


def of_kind(kind: str) -> PrivateEngine:
    """An engine for tests, not started yet unless it runs already."""
    attached = os.environ.get(ATTACHED)
    return Attached(attached) if attached else KINDS[kind]()


def main() -> int:
    """``engines.py docker|podman``: start one, print its address, and stop it when standard input ends."""
    with KINDS[sys.argv[1]]() as engine:
        print(engine.host, flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())

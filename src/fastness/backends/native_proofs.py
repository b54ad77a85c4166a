"""
What proves that ``confined`` and ``isolated`` keep their promises on this host: each of them is made to deny something.

A guest tries what it must not be able to do (``guest/attempts.py``), and the same program runs unconfined beside it: an
attempt that fails there too proves nothing.  What the kernel says of the guest's process is read from outside.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastness.backends import own_files
from fastness.backends.base import Report, Staged
from fastness.backends.findings import Findings
from fastness.limits import MIB, Limits
from fastness.runs import OutcomeKind, RunRequest
from fastness.tier import Guarantee, ProbeFailure, Tier

if TYPE_CHECKING:
    from fastness.backends.native import NativeBackend
    from fastness.waiting import Waiting

#: Whose guests those of the proofs are.
TENANT = "fastness-probe"
_CONTROL_S = 10.0
#: Attempts behind each guarantee: all must fail inside and succeed in the control.
_ATTEMPTS = {
    Guarantee.FS_CONFINED: ("read", "append", "make"),
    Guarantee.NET_CONFINED: ("connect", "datagram", "local"),
    Guarantee.SYSCALL_FILTERED: ("memory_file",),
    Guarantee.NO_EXEC: ("fork", "start"),
    Guarantee.PID_HIDDEN: ("signal", "see"),
}
_WORDS = {
    "read": "reading a file of this machine",
    "append": "changing it",
    "make": "making one",
    "connect": "a TCP connection",
    "datagram": "a datagram",
    "local": "a local socket",
    "memory_file": "a memory file",
    "fork": "forking",
    "start": "starting a program",
    "signal": "a signal to another process",
    "see": "a look at it in /proc",
}
#: Attempts that count in ``confined`` alone, where a guest sees the host's files.
_CONFINED_ONLY = {Guarantee.FS_CONFINED: ("mode",), Guarantee.ADDRESS_SPACE: ("signal",)}
_REMEDIES = {
    Guarantee.FS_CONFINED: "run on Linux 5.13 or newer with landlock among its security modules (lsm=landlock,...)",
    Guarantee.NET_CONFINED: "run on Linux with seccomp",
    Guarantee.PIDS_CAP: "run as an ordinary user, for the kernel counts no processes of root; or give root "
    "CAP_SYS_ADMIN and its other usual capabilities, so that guests have their own users; or delegate a control group",
    Guarantee.TOTAL_MEM_CAP: "delegate a control group: systemd-run --user --scope -p Delegate=yes ...",
}
#: A control must see how its children end, whatever the caller ignores: that is inherited (sigaction(2)).
_HEARS = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_DFL); del signal\n"
_ENDLESS = "while True: pass"
_HUNGRY = "x = []\nwhile True: x.append(bytearray(1 << 20))"
_SHARED = "import mmap\nx = []\nwhile True:\n  m = mmap.mmap(-1, 1 << 20); m.write(b'x' * (1 << 20)); x.append(m)"
_LOUD = "while True: print('x' * 4096)"
_THREADS = """
import threading, time
n = 0
try:
    while n < 200:
        threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
        n += 1
except RuntimeError:
    pass
import os
print(n, flush=True)
os._exit(0)
"""


class Prover(Findings):
    """What was found so far: the proofs, the failures, and what keeps each guarantee."""

    def __init__(self, backend: NativeBackend, waiting: Waiting) -> None:
        super().__init__(_REMEDIES)
        self.backend = backend
        self.tier = backend.tier
        self._waiting = waiting

    async def run(self, code: str, *args: str, **limits: float) -> Report:
        """Run code in a guest of the proofs' own."""
        bounds: dict[str, Any] = {"wall_s": 5.0, "cpu_s": 5.0, "memory": 256 * MIB, **limits}
        request = RunRequest(
            code=code, args=args, tier=self.tier.value, tenant=TENANT, packages=(), limits=Limits(**bounds)
        )
        return await self.backend.run(request, Staged(), None)

    async def limits(self) -> None:
        """What ends a run that would not end."""
        report = await self.run(_ENDLESS, wall_s=0.1)
        held = report.outcome.kind is OutcomeKind.TIMEOUT and report.usage.wall_s < 1.0
        self.note(
            Guarantee.WALL_KILL, held, "SIGKILL by process descriptor", f"an endless loop ended as {_kind(report)}"
        )
        report = await self.run(_HUNGRY, memory=16 * MIB)
        self.note(
            Guarantee.MEM_CAP,
            report.outcome.kind is OutcomeKind.MEMORY,
            "rlimit",
            f"memory without end ended as {_kind(report)}",
        )
        report = await self.run(_LOUD, output_total_bytes=65536, output_bytes=1024)
        held = report.outcome.kind is OutcomeKind.OUTPUT_LIMIT and len(report.stdout) < 4096
        self.note(Guarantee.OUTPUT_CAP, held, "reader", f"output without end ended as {_kind(report)}")
        report = await self.run("import os\nos.abort()")
        after = await self.run("6 * 7")
        held = report.outcome.kind is OutcomeKind.CRASHED and after.value == 42
        self.note(Guarantee.CRASH_CONTAINED, held, "process", f"an abort ended as {_kind(report)}; the next run worked")
        if self.tier is Tier.ISOLATED:
            await self._isolated_limits()

    async def _isolated_limits(self) -> None:
        report = await self.run(_THREADS, pids=8)
        started = int(report.stdout) if report.stdout.strip().isdigit() else 1000
        layers = report.layers
        self.note(
            Guarantee.PIDS_CAP,
            0 < started < 8,
            layers[Guarantee.PIDS_CAP],
            f"with 8 allowed, {started} more threads started",
        )
        report = await self.run(_SHARED, memory=16 * MIB, file_bytes=MIB)
        held = report.outcome.kind is OutcomeKind.MEMORY or (
            report.outcome.kind is OutcomeKind.GUEST_ERROR and "memory" in report.outcome.detail.lower()
        )
        self.note(
            Guarantee.TOTAL_MEM_CAP,
            held,
            layers[Guarantee.TOTAL_MEM_CAP],
            f"shared memory without end ended as {_kind(report)}",
        )

    async def attempts(self) -> None:
        """What a guest must not be able to do, beside the same attempts where nothing stops them."""
        code = own_files.text("guest", "attempts.py")
        with tempfile.TemporaryDirectory(prefix=f"fastness-probe-{os.getpid()}-") as folder, _Scene(folder) as scene:
            report = await self.run(code, json.dumps(scene.wanted()))
            try:
                inside = json.loads(report.stdout)
            except ValueError:
                self.failures.append(
                    ProbeFailure(guarantee="all", cause=f"the attempts ended as {_kind(report)}", remedy="report this")
                )
                return
            untouched = scene.untouched()
            control = await self._waiting.call(partial(scene.control, code))
        self._judge(inside, control, untouched, report)

    def _judge(self, inside: dict[str, Any], control: dict[str, Any], untouched: str, report: Report) -> None:
        layers = report.layers
        confined = self.tier is Tier.CONFINED
        for guarantee, names in _ATTEMPTS.items():
            if confined and guarantee is Guarantee.PID_HIDDEN:
                continue
            tried = names + (_CONFINED_ONLY.get(guarantee, ()) if confined else ())
            # A changed mode is left undone and told as done; whether it was done is seen from outside.
            refused = all(inside[name] != "done" or name == "mode" for name in tried)
            real = all(control.get(name) == "done" for name in tried)
            held = refused and real and (guarantee is not Guarantee.FS_CONFINED or not untouched)
            seen = _refusals({_WORDS[name]: inside[name] for name in tried if name != "mode"})
            if not real:
                missed = [name for name in tried if control.get(name) != "done"]
                seen += f"; unconfined, {', '.join(missed)} failed too, so nothing is proven"
            else:
                seen += " (unconfined, all of it worked)"
            mechanism = layers.get(guarantee.value, layers.get("SYSCALL_FILTERED", "seccomp"))
            self.note(guarantee, held, mechanism, untouched or seen)
        shared = set(os.environ) & set(inside["environment"])
        told = {"LANG", "HOME", "TMPDIR", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"}
        leaked = sorted(shared - told - {"MALLOC_ARENA_MAX", "MPLBACKEND", "MPLCONFIGDIR", "NO_COLOR", "LC_CTYPE"})
        self.note(
            Guarantee.ENV_SCRUBBED,
            not leaked and bool(os.environ),
            "built from nothing",
            f"the guest saw {len(leaked)} of this process's {len(os.environ)} variables",
        )
        apart = inside["pid"] != os.getpid() and (not confined or inside["signal"] != "done")
        self.note(Guarantee.ADDRESS_SPACE, apart, "process", "guests ran in a process of their own")
        if not confined:
            root = inside["root"]
            held = isinstance(root, list) and set(root) != set(os.listdir("/")) and inside["make"] != "done"
            self.note(
                Guarantee.OWN_ROOT, held, layers.get("OWN_ROOT", ""), f"the root had {len(root)} entries of its own"
            )

    async def status(self) -> None:
        """What the kernel says of a guest's process."""
        backend = self.backend
        family = await backend.family(RunRequest(code="", tier=self.tier.value, tenant=TENANT, packages=()))
        try:
            guest = await family.make(backend.key(RunRequest(code="", tier=self.tier.value)))
        finally:
            backend.let_go(family)
        try:
            text = await self._waiting.call(Path(f"/proc/{guest.box.pid}/status").read_text)
        except OSError as error:
            text = ""
            self.failures.append(
                ProbeFailure(guarantee="all", cause=f"/proc cannot be read: {error.strerror}", remedy="mount /proc")
            )
        finally:
            await self._waiting.call(partial(family.bury, guest))
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        plain = {name: value.strip() for name, value in fields.items()}
        capabilities = [plain.get(name, "?") for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")]
        self.note(
            Guarantee.NO_NEW_PRIVS, plain.get("NoNewPrivs") == "1", "prctl", f"NoNewPrivs {plain.get('NoNewPrivs')}"
        )
        powerless = all(value.strip("0") == "" for value in capabilities)
        self.note(
            Guarantee.NO_PRIVILEGE,
            powerless,
            "capset",
            "its capability sets are empty" if powerless else "it has capabilities",
        )
        uids = plain.get("Uid", "").split()
        if uids and str(os.geteuid()) not in uids:
            self.note(
                Guarantee.OWN_UID,
                True,
                "userns" if self.tier is Tier.ISOLATED else "setuid",
                f"it ran as user {uids[0]}",
            )
        if plain.get("Seccomp") != "2":
            self.note(Guarantee.SYSCALL_FILTERED, False, "seccomp", f"its seccomp mode is {plain.get('Seccomp')}")


class _Scene:
    """A file, listeners and a process of ours that a guest has no business with."""

    def __init__(self, folder: str) -> None:
        # Open to all, so that only confinement may stand in the way.
        os.chmod(folder, 0o755)  # noqa: S103  # as the comment says
        self._folder = folder
        self._secret = secrets.token_hex(16)
        self._canary = Path(folder) / "canary"
        self._canary.write_text(self._secret)
        self._canary.chmod(0o666)
        self._abstract = "fastness-probe-" + secrets.token_hex(8)

    def __enter__(self) -> _Scene:
        self._tcp = socket.create_server(("127.0.0.1", 0), backlog=16)
        self._local = socket.socket(socket.AF_UNIX)
        self._local.bind("\0" + self._abstract)
        self._local.listen(16)
        command = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
        self._victim = subprocess.Popen(command, stdin=subprocess.DEVNULL, env={}, cwd="/")
        return self

    def __exit__(self, *exc: object) -> None:
        self._victim.kill()
        self._victim.wait()
        self._tcp.close()
        self._local.close()

    def wanted(self) -> dict[str, Any]:
        return {
            "canary": str(self._canary),
            "mark": os.path.join(self._folder, "mark"),
            "secret": self._secret,
            "port": self._tcp.getsockname()[1],
            "abstract": self._abstract,
            "victim": self._victim.pid,
        }

    def untouched(self) -> str:
        """Empty where a guest has left no trace; else what it did."""
        if self._canary.read_text() != self._secret or self._canary.stat().st_mode & 0o777 != 0o666:
            return "the guest changed a file of the host"
        if os.path.lexists(os.path.join(self._folder, "mark")):
            return "the guest made a file outside"
        self._tcp.setblocking(False)
        try:
            self._tcp.accept()[0].close()
        except BlockingIOError:
            return ""
        return "the guest connected to a port of this machine"

    def control(self, code: str) -> dict[str, Any]:
        """The same program without any confinement."""
        self._tcp.setblocking(True)
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _HEARS + code, json.dumps(self.wanted())],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={},
            cwd=self._folder,
            timeout=_CONTROL_S,
            check=False,
        )
        try:
            found: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            return {}
        return found


def _refusals(met: dict[str, str]) -> str:
    """What was tried and the errors that it met, those that met the same one together."""
    tried: dict[str, list[str]] = {}
    for words, error in met.items():
        tried.setdefault(error, []).append(words)
    parts = [f"{', '.join(words)}: {error}" for error, words in tried.items()]
    return "; ".join(parts)


def _kind(report: Report) -> str:
    return report.outcome.kind.value

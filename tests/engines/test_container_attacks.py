"""
What hostile code tries from inside a container of the tier; each attempt that must fail works in its control.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import plain
import pytest

from engines import PrivateEngine
from fastness._container.probe import Engine
from fastness.runs import OutcomeKind
from fastness.sync import Sandbox

#: Makes attempts of a name and a body, and prints what came of each.
_TRY = """
import ctypes, errno, json, os, resource, signal, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    if libc.syscall(*arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
found = {}
def attempt(name, function):
    try:
        function()
        found[name] = "done"
    except OSError as error:
        found[name] = errno.errorcode.get(error.errno, str(error.errno))
    except Exception as error:
        found[name] = type(error).__name__
"""
#: Where this works the first process stands still, so no control makes it; that it works there is shown elsewhere.
_TRACE = 'attempt("trace", lambda: call(101, 16, 1, 0, 0))\n'
_FIRST = (
    _TRY
    + """
attempt("memory", lambda: open("/proc/1/mem", "r+b").close())
attempt("environment", lambda: open("/proc/1/environ", "rb").read())
attempt("descriptors", lambda: os.listdir("/proc/1/fd"))
attempt("root", lambda: os.listdir("/proc/1/root/"))
attempt("oom", lambda: open("/proc/1/oom_score_adj", "w").write("1000"))
attempt("limits", lambda: resource.prlimit(1, resource.RLIMIT_CPU, (1, 1)))
attempt("write", lambda: call(311, 1, 0, 0, 0, 0, 0))
"""
)


class TestFirstProcess:
    """The process that holds the deadline has the same user as the code that it runs."""

    def test_it_cannot_be_looked_into_or_changed(self, box: Sandbox) -> None:
        for result in (
            box.run(_FIRST + _TRACE + "print(json.dumps(found))"),
            box.run(command=["python3", "-c", _FIRST + _TRACE + "print(json.dumps(found))"]),
        ):
            found = json.loads(result.stdout)
            assert set(found.values()) <= {"EACCES", "EPERM"}, found

    def test_control(self, engine: Engine) -> None:
        """One that is not closed to its own user, without the filter of system calls."""
        code = f"""
import os
if not os.fork():
    exec({(_FIRST + "print(json.dumps(found), flush=True)")!r})
    os._exit(0)
os.wait()
"""
        found = json.loads(plain.run(engine, code, plain.without_security("seccomp"))[1])
        done = {name for name, what in found.items() if what == "done"}
        assert {"memory", "environment", "descriptors", "root", "oom"} <= done
        assert "limits" in done or found["limits"] == "ESRCH"

    def test_signals_do_not_reach_it(self, box: Sandbox) -> None:
        code = """
import os, signal, time
for number in range(1, 65):
    try:
        os.kill(1, number)
    except (OSError, ValueError):
        pass
print("sent", flush=True)
time.sleep(30)
"""
        result = box.run(command=["python3", "-c", code], timeout=2.0, limits={"grace_s": 0.0})
        # It is still there to end what it was to end, and to tell of it.
        assert (result.outcome.kind, result.stdout) == (OutcomeKind.TIMEOUT, "sent\n")
        assert result.usage.cpu_s > 0

    def test_a_signal_reaches_a_process_that_has_a_handler(self, engine: Engine) -> None:
        code = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: print("reached", flush=True))
if not os.fork():
    os.kill(1, signal.SIGTERM); os._exit(0)
time.sleep(0.5)
"""
        assert plain.run(engine, code)[1] == "reached\n"

    def test_everything_stopped_and_then_some(self, box: Sandbox) -> None:
        """A guest that stops itself, and what would wake it, ends at its deadline all the same."""
        result = box.run("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", timeout=1.0)
        assert result.outcome.kind is OutcomeKind.TIMEOUT


class TestBombs:
    def test_forks(self, box: Sandbox) -> None:
        code = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
        result = box.run(command=["python3", "-c", code], timeout=3.0, limits={"pids": 30, "grace_s": 0.0})
        assert result.outcome.kind in (OutcomeKind.TIMEOUT, OutcomeKind.CPU)
        assert box.run("1").ok

    def test_memory_of_many(self, box: Sandbox) -> None:
        code = """
import os
for _ in range(20):
    if not os.fork():
        x = []
        while True: x.append(bytearray(1 << 20))
while True: pass
"""
        result = box.run(command=["python3", "-c", code], timeout=6, memory="64M", limits={"grace_s": 0.0})
        assert result.outcome.kind in (OutcomeKind.MEMORY, OutcomeKind.TIMEOUT, OutcomeKind.CPU)
        assert box.run("1").ok

    @pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/run", "/var/tmp"])
    def test_every_folder_that_can_be_written(self, place: str, box: Sandbox) -> None:
        code = f"""
import os
written = 0
try:
    with open("{place}/x", "wb", buffering=0) as file:
        while written < 1 << 30: written += file.write(b"x" * (1 << 16))
except OSError as error:
    pass
written
"""
        result = box.run(code, memory="64M", limits={"file_bytes": 2 << 30, "memory": 128 << 20}, timeout=20)
        assert result.outcome.kind in (OutcomeKind.OK, OutcomeKind.MEMORY)
        if result.ok:
            assert result.value <= 65 << 20

    def test_output(self, box: Sandbox, private: PrivateEngine) -> None:
        def used() -> int:
            command = ["find", str(private.folder), "-name", "*.log", "-printf", "%s\n"]
            found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            return sum(map(int, found.split()))

        before = used()
        code = "import os\nwhile True: os.write(1, b'x' * 65536)"
        result = box.run(code, limits={"output_total_bytes": 32 << 20, "output_bytes": 1 << 16}, timeout=30)
        assert result.outcome.kind is OutcomeKind.OUTPUT_LIMIT
        assert len(result.stdout_bytes) <= (1 << 16) + 100
        assert used() - before < 1 << 20

    def test_one_that_writes_past_its_own_answer(self, box: Sandbox) -> None:
        """The guest's own channel is the guest: what is not of the protocol ends it, and nothing else."""
        code = "import os\nfor fd in range(3, 30):\n  try: os.write(fd, b'\\xff' * 100000)\n  except OSError: pass"
        result = box.run(code, timeout=10)
        assert result.outcome.kind is OutcomeKind.PROTOCOL
        assert box.run("6 * 7").value == 42


class TestEscapes:
    @pytest.fixture
    def victim(self) -> Iterator[tuple[socket.socket, str]]:
        """A local socket and a port of this machine."""
        name = f"fastness-test-{time.monotonic_ns()}"
        with socket.socket(socket.AF_UNIX) as local:
            local.bind(f"\0{name}")
            local.listen()
            yield local, name

    def test_the_machine_outside(self, box: Sandbox, private: PrivateEngine, victim: tuple[socket.socket, str]) -> None:
        code = f"""{_TRY}
attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\\0{victim[1]}"))
for number, path in enumerate(("/var/run/docker.sock", "/run/podman/podman.sock", "{private.socket}")):
    attempt(f"engine{{number}}", lambda path=path: socket.socket(socket.AF_UNIX).connect(path))
for number, path in enumerate(("/etc/shadow", "/root/.bashrc", "/proc/1/root/etc/shadow", "{private.folder}",
        "/dev/sda", "/dev/vda", "/dev/mem", "/dev/kmsg", "/dev/kvm", "/proc/kcore")):
    attempt(f"read{{number}}", lambda path=path: os.open(path, os.O_RDONLY))
for number, path in enumerate(("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/kernel/modprobe",
        "/sys/kernel/uevent_helper", "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/memory/notify_on_release",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/devices/devices.allow", "/etc/passwd", "/usr/bin/python3")):
    attempt(f"write{{number}}", lambda path=path: os.open(path, os.O_WRONLY))
attempt("mount", lambda: call(165, b"none", b"/tmp", b"tmpfs", 0, 0))
attempt("pivot", lambda: call(155, b"/tmp", b"/tmp"))
attempt("chroot", lambda: os.chroot("/tmp"))
attempt("unshare", lambda: call(272, 0x10000000))
attempt("device", lambda: os.mknod("/work/d", 0o60666, os.makedev(254, 0)))
attempt("module", lambda: call(175, 0, 0, 0))
attempt("reboot", lambda: call(169, 0xfee1dead, 672274793, 0, 0))
attempt("clock", lambda: time.clock_settime(time.CLOCK_REALTIME, 1))
attempt("hostname", lambda: socket.sethostname("x"))
attempt("root", lambda: os.setuid(0))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
print(json.dumps(found))
"""
        for result in (box.run(code), box.run(command=["python3", "-c", code])):
            found = json.loads(result.stdout)
            assert len(found) > 30
            # Reading what hides the kernel's memory gives nothing: it is covered.
            found.pop("read9")
            assert [name for name, what in found.items() if what == "done"] == []
        victim[0].setblocking(False)
        with pytest.raises(BlockingIOError):
            victim[0].accept()

    def test_what_engines_write_into_an_image(self, box: Sandbox) -> None:
        """No list of hosts and no resolver of this machine, which Podman copies there where nothing stops it."""
        code = """
import os, socket
found = {path: open(path).read() for path in ("/etc/hosts", "/etc/resolv.conf") if os.path.exists(path)}
try:
    socket.getaddrinfo("localhost", 80)
    found["resolved"] = "localhost"
except OSError: pass
found
"""
        assert not any(box.run(code).value.values())

    def test_control_of_these(self, engine: Engine) -> None:
        code = "print(open('/etc/hosts').read())"
        text = plain.run(engine, code, plain.host(Mounts=None))[1]
        assert ("host.containers.internal" in text) == (engine.kind == "podman")
        assert plain.run(engine, code)[1].strip() == ""

    def test_files_of_memory_are_executed_and_gain_nothing(self, box: Sandbox) -> None:
        """Not stopped, and said to be: an interpreter runs any text, so neither can this be a boundary."""
        code = """
import os, subprocess, sys
file = os.memfd_create("x")
os.write(file, b"#!/usr/bin/python3 -ISB\\nimport os\\nprint(os.getuid(), [l for l in open('/proc/self/status')"
    b" if l.startswith(('CapBnd', 'Seccomp:', 'NoNewPrivs'))])\\n")
print(subprocess.run([f"/proc/{os.getpid()}/fd/{file}"], pass_fds=[file], capture_output=True, text=True))
"""
        result = box.run(command=["python3", "-c", code])
        assert "65532" in result.stdout
        for line in ("CapBnd:\\\\t0000000000000000", "NoNewPrivs:\\\\t1", "Seccomp:\\\\t2"):
            assert line in result.stdout

    def test_links_that_lead_out(self, box: Sandbox, tmp_path: Path) -> None:
        """What comes out is never followed: a link is a link, and what is in it is not read here."""
        secret = tmp_path / "secret"
        secret.write_text("of the host")
        code = f"""
import os
os.symlink("{secret}", "to_file"); os.symlink("{tmp_path}", "to_folder"); os.symlink("/etc", "etc")
os.symlink("../../../../{secret}", "up")
open("a", "w").write("x"); os.link("a", "b")
os.mkfifo("pipe")
os.makedirs("deep/" * 50); os.mkdir("closed"); open("closed/in", "w").write("in"); os.chmod("closed", 0)
open("locked", "w").write("locked"); os.chmod("locked", 0)
open("suid", "w").write("s"); os.chmod("suid", 0o4755)
"""
        result = box.run(code)
        assert result.ok, result.stderr
        assert all(b"of the host" not in file.read() for file in result.files.values())
        assert result.changes.links["to_file"] == str(secret)
        assert {"a", "b", "closed/in", "locked", "suid"} <= set(result.files)
        assert "pipe" in [row.target for row in result.denials]

    def test_names_that_lead_out(self, box: Sandbox) -> None:
        """The container's first process sends what it finds; a guest that took it over could send anything."""
        code = """
import os
for name in (b"\\xff\\xfe", b"new\\nline", b"-rf", b"..." , b"a\\\\b", b"x" * 200):
    open(b"/work/" + name, "w").close()
"""
        result = box.run(code)
        assert result.ok
        assert {"-rf", "...", "x" * 200} <= set(result.files)
        assert not any("\n" in path for path in result.files)

"""
Each flag does something: the same program, in the same container but for that flag, shows it.
"""

from __future__ import annotations

import io
import os
import socket
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import plain
import pytest

from engines import PrivateEngine
from fastness._container import image, image_host
from fastness._container.layer import Layer
from fastness._container.probe import Engine

_SUID = "localhost/fastness/python:suid"


class TestNetwork:
    CODE = """
import socket
s = socket.socket(); s.settimeout(3)
try:
    s.connect(("127.0.0.1", %d)); print("connected")
except OSError as error:
    print(type(error).__name__)
"""

    def test_no_port_of_this_machine_can_be_reached(self, engine: Engine) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            code = self.CODE % listener.getsockname()[1]
            assert plain.run(engine, code)[1].strip() == "ConnectionRefusedError"
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()

    def test_control(self, engine: Engine) -> None:
        def with_network(body: dict[str, object]) -> None:
            body["NetworkDisabled"] = False

        with socket.create_server(("127.0.0.1", 0)) as listener:
            code = self.CODE % listener.getsockname()[1]
            found = plain.run(engine, code, plain.host(NetworkMode="host"), with_network, lambda b: b.pop("Hostname"))
            assert found[1].strip() == "connected"
            listener.accept()[0].close()

    def test_there_is_loopback_alone(self, engine: Engine) -> None:
        code = 'print([line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line])'
        assert plain.run(engine, code)[1].strip() == "['lo']"


class TestSeccomp:
    @pytest.mark.parametrize(
        "attempt",
        [
            "socket.socket(16, socket.SOCK_RAW).close()",
            "call(101, 0, 0, 0, 0)",  # ptrace(PTRACE_TRACEME)
            "resource.prlimit(os.getppid() or 1, resource.RLIMIT_NOFILE)",
            "os.setpriority(os.PRIO_PROCESS, os.getpid(), 5)",
            "call(220, 0, 0, 0, 0)",  # semtimedop
            "call(29, 0, 4096, 0o1600, 0)",  # shmget
        ],
    )
    def test_what_is_not_on_the_list_is_refused(self, attempt: str, engine: Engine) -> None:
        code = f"""
import ctypes, os, resource, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
try:
    {attempt}
    print("done")
except OSError as error:
    print(error.errno)
"""
        assert plain.run(engine, code)[1].strip() == "1"
        # The engine's own profile lets it through to the kernel, whatever that says to it.
        assert plain.run(engine, code, plain.without_security("seccomp"))[1].strip() in ("done", "22", "38")

    @pytest.mark.parametrize(("name", "family"), [("AF_VSOCK", 40), ("AF_ALG", 38), ("AF_PACKET", 17), ("AF_KEY", 15)])
    def test_sockets_of_other_families(self, name: str, family: int, engine: Engine) -> None:
        """A network namespace does not hold AF_VSOCK.  No test connects one, for that would leave the machine."""
        code = f"""
import socket
try:
    socket.socket({family}, socket.SOCK_STREAM).close(); print("done")
except OSError as error:
    print(error.errno)
"""
        assert plain.run(engine, code)[1].strip() == "1"

    @pytest.mark.parametrize("number", [425, 272, 165, 323, 321, 298, 250, 248, 310, 311, 435, 304, 440, 438])
    def test_calls_that_no_guest_needs(self, number: int, engine: Engine) -> None:
        """
        io_uring, unshare, mount, userfaultfd, bpf, perf, keyrings, other processes' memory, clone3, file handles,
        process_madvise, pidfd_getfd.
        """
        code = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall({number}, 0, 0, 0, 0, 0, 0), ctypes.get_errno())
"""
        assert plain.run(engine, code)[1].split() in (["-1", "1"], ["-1", "38"])


class TestPrivileges:
    def test_the_user(self, engine: Engine) -> None:
        code = "import os; print(os.getuid(), os.getgid(), os.getgroups())"
        assert plain.run(engine, code)[1].split()[:2] == ["65532", "65532"]
        assert plain.run(engine, code, plain.as_root)[1].split()[:2] == ["0", "0"]

    def test_capabilities(self, engine: Engine) -> None:
        """Even root inside may not give a file away."""
        code = """
import os
open("/tmp/x", "w").close()
try:
    os.chown("/tmp/x", 7, 7); print("done")
except OSError as error:
    print(error.errno)
"""
        assert plain.run(engine, code, plain.as_root)[1].strip() == "1"
        assert plain.run(engine, code, plain.as_root, plain.host(CapDrop=None))[1].strip() == "done"

    @pytest.fixture
    def suid(self, engine: Engine) -> Iterator[str]:
        """An image with a set-user-id program, which images of ours never have."""

        class Suid(Layer):
            def write(self, into: str) -> str:
                super().write(into)
                data = Path(os.path.realpath(sys.executable)).read_bytes()
                with tarfile.open(into, "a", format=tarfile.GNU_FORMAT) as archive:
                    one = tarfile.TarInfo("usr/bin/suid")
                    one.mode, one.size = 0o4755, len(data)
                    archive.addfile(one, io.BytesIO(data))
                import hashlib

                return hashlib.sha256(Path(into).read_bytes()).hexdigest()

        layer = image_host.build()
        layer.__class__ = Suid
        image.load(engine.client(), layer, (_SUID,), "suid")
        return _SUID

    def test_no_new_privileges(self, suid: str, engine: Engine) -> None:
        code = """
import subprocess, sys
home = {"PYTHONHOME": sys.base_prefix}
print(subprocess.run(["/usr/bin/suid", "-S", "-c", "import os; print(os.geteuid())"], env=home, capture_output=True,
    text=True).stdout)
"""
        assert plain.run(engine, code, name=suid)[1].strip() == "65532"
        assert plain.run(engine, code, plain.without_security("no-new"), name=suid)[1].strip() == "0"


class TestFiles:
    def test_the_root_is_read_only(self, engine: Engine) -> None:
        code = """
try:
    open("/etc/x", "w").close(); print("done")
except OSError as error:
    print(error.errno)
"""
        assert plain.run(engine, code, plain.as_root)[1].strip() == "30"
        assert plain.run(engine, code, plain.as_root, plain.host(ReadonlyRootfs=None))[1].strip() == "done"

    @pytest.mark.parametrize("place", ["/tmp", "/run", "/var/tmp", "/dev/shm", "/work"])
    def test_nothing_is_executed_from_where_something_can_be_written(self, place: str, engine: Engine) -> None:
        code = f"""
import os, subprocess
path = "{place}/x"
try:
    with open(path, "w") as file: file.write("#!/usr/bin/python3\\n")
    os.chmod(path, 0o755)
    subprocess.run([path]); print("done")
except OSError as error:
    print(error.errno)
"""
        assert plain.run(engine, code)[1].strip() == "13"
        options = f"rw,exec,mode=1777,size=1m{',notmpcopyup' if engine.kind == 'podman' else ''}"
        if place in ("/tmp", "/var/tmp", "/work"):
            found = plain.run(engine, code, lambda body: body["HostConfig"]["Tmpfs"].update({place: options}))
            assert found[1].strip() == "done"

    @pytest.mark.parametrize(("place", "size"), [("/tmp", 64), ("/work", 8), ("/dev/shm", 16)])
    def test_what_can_be_written_has_an_end(self, place: str, size: int, engine: Engine) -> None:
        code = f"""
written = 0
try:
    with open("{place}/x", "wb", buffering=0) as file:
        while written < 100 << 20: written += file.write(b"x" * (1 << 20))
except OSError as error:
    print(error.errno, end=" ")
print(written >> 20)
"""
        words = plain.run(engine, code)[1].split()
        assert words[0] == "28"
        assert int(words[-1]) <= size

    def test_without_a_size_there_is_none(self, engine: Engine) -> None:
        code = 'import os; s = os.statvfs("/tmp"); print(s.f_blocks * s.f_frsize >> 20)'
        assert plain.run(engine, code)[1].strip() == "64"
        change = plain.host(Tmpfs={"/tmp": "rw,mode=1777"})
        assert int(plain.run(engine, code, change)[1]) > 64


class TestLimits:
    def test_memory(self, engine: Engine) -> None:
        code = 'x = bytearray(300 << 20); print("done")'
        assert plain.run(engine, code)[0] == 137
        assert plain.run(engine, code, plain.host(Memory=None, MemorySwap=None)) == (0, "done\n")

    def test_swap_is_in_the_same_limit(self, engine: Engine) -> None:
        code = """
import os
v1 = "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"
print(open(v1 if os.path.exists(v1) else "/sys/fs/cgroup/memory.swap.max").read())
"""
        assert plain.run(engine, code)[1].strip() in (str(160 << 20), "0")

    def test_processes(self, engine: Engine) -> None:
        code = """
import threading, time
n = 0
try:
    while n < 100:
        threading.Thread(target=time.sleep, args=(2,), daemon=True).start(); n += 1
except RuntimeError:
    pass
print(n)
import os; os._exit(0)
"""
        assert plain.run(engine, code.replace("print(n)", "print(n, flush=True)"))[1].strip() == "23"
        found = plain.run(engine, code.replace("print(n)", "print(n, flush=True)"), plain.host(PidsLimit=None))
        assert found[1].strip() == "100"

    def test_processor_time(self, engine: Engine) -> None:
        """The kernel counts how often it has held a container back."""
        code = """
import os, time
end = time.monotonic() + 2
for _ in range(9):
    # On a busy machine one alone may not get as much as it is allowed.
    if not os.fork(): break
while time.monotonic() < end: pass
path = "/sys/fs/cgroup/cpu/cpu.stat"
text = open(path if os.path.exists(path) else "/sys/fs/cgroup/cpu.stat").read()
if os.getpid() == 1: print(dict(line.split() for line in text.splitlines())["nr_throttled"])
"""
        # So little that it is exceeded however busy the machine is.
        assert int(plain.run(engine, code, plain.host(NanoCpus=100_000_000))[1]) > 0
        assert int(plain.run(engine, code, plain.host(NanoCpus=None))[1]) == 0

    def test_open_files_and_cores(self, engine: Engine) -> None:
        code = """
import os, resource
held = []
try:
    while len(held) < 500: held.append(os.open("/", os.O_RDONLY))
except OSError as error:
    print(error.errno)
print(resource.getrlimit(resource.RLIMIT_CORE)[1])
"""
        assert plain.run(engine, code)[1].split() == ["24", "0"]
        more = [{"Name": name, "Soft": 1024, "Hard": 1024} for name in ("nofile", "nproc")]
        assert "24" not in plain.run(engine, code, plain.host(Ulimits=more))[1].split()

    def test_output_leaves_nothing_on_the_engines_disk(self, private: PrivateEngine, engine: Engine) -> None:
        def logged(made: str) -> int:
            found = [path for path in private.folder.rglob("*.log") if made in str(path)]
            return sum(path.stat().st_size for path in found)

        sizes: list[int] = []
        code = "print('x' * 65536)"
        assert plain.run(engine, code, keep=lambda made: sizes.append(logged(made)))[0] == 0
        kind = "json-file" if engine.kind == "docker" else "k8s-file"
        change = plain.host(LogConfig={"Type": kind})
        assert plain.run(engine, code, change, keep=lambda made: sizes.append(logged(made)))[0] == 0
        assert sizes[0] == 0
        assert sizes[1] > 65536


def test_many_at_once(engine: Engine) -> None:
    """Twenty, four at a time, each its own."""
    found: list[str] = []

    def work(first: int) -> None:
        found.extend(plain.run(engine, f"print({number})")[1].strip() for number in range(first, 20, 4))

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(found, key=int) == [str(number) for number in range(20)]

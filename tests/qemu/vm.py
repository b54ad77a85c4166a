"""
Runs a Python program inside a small virtual machine, as root, under another kernel than this machine's.

The machine is emulated (no ``/dev/kvm`` is used) and has no disk and no network: an archive of busybox, this
machine's ``/usr/bin/python3`` with its library, and what the caller adds is its whole file system, in memory.

    status, output = run_in_vm("print(open('/proc/version').read())", timeout=60)
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import fetch_vm

SOURCE = Path(__file__).resolve().parents[2] / "src"
PYTHON = Path("/usr/bin/python3")
#: Parts of the standard library that are large and that no test needs.
_LEFT_OUT = {"test", "idlelib", "lib2to3", "ensurepip", "turtledemo", "tkinter", "dist-packages", "pydoc_data"}
_LEFT_OUT_PREFIX = "config-"

# The first file system of all can be nobody's to leave (``pivot_root(2)``, ``current_chrooted`` for user namespaces), so
# it is mounted once more, over itself.
_INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount --bind / /new
cd /new
mount --move . /
exec chroot . /begin
"""

_BEGIN = """#!/bin/busybox sh
export PATH=/bin:/usr/bin HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/src:/packages
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm
stty -onlcr -echo < /dev/console
hostname fastness-vm
ip link set lo up
@MODULES@
cd /tmp
@SETUP@
echo "@MARK@ begin"
python3 /program.py < /dev/null 2>&1
echo "@MARK@ end $?"
reboot -f
"""

#: The root of the version 2 hierarchy as a service manager mounts it.
CGROUP2 = "mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup"
#: Version 1 hierarchies as older machines mount them.
CGROUP1 = """
mount -t tmpfs cgroup /sys/fs/cgroup
for name in memory pids cpu,cpuacct; do mkdir /sys/fs/cgroup/$name; mount -t cgroup -o $name cgroup /sys/fs/cgroup/$name; done
"""


class Archive:
    """An archive in the format that the kernel unpacks at its start (``cpio`` newc)."""

    def __init__(self) -> None:
        self._out = io.BytesIO()
        self._made: set[str] = set()
        self._inode = 0

    def _entry(self, name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        self._inode += 1
        encoded = os.fsencode(name) + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
        self._out.write(b"070701" + b"".join(b"%08X" % field for field in fields) + encoded)
        self._pad()
        self._out.write(data)
        self._pad()

    def _pad(self) -> None:
        self._out.write(b"\0" * (-self._out.tell() % 4))

    def folder(self, name: str) -> None:
        """Make a folder and those above it."""
        if name and name not in self._made:
            self.folder(name.rpartition("/")[0])
            self._made.add(name)
            self._entry(name, 0o040755)

    def file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """Add a file, once."""
        name = name.lstrip("/")
        self.folder(name.rpartition("/")[0])
        if name not in self._made:
            self._made.add(name)
            self._entry(name, 0o100000 | mode, data)

    def link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        self.folder(name.rpartition("/")[0])
        self._made.add(name)
        self._entry(name, 0o120777, target.encode())

    def console(self) -> None:
        """What the first process writes to."""
        self.folder("dev")
        self._entry("dev/console", 0o020600, device=(5, 1))

    def tree(self, source: Path, name: str) -> None:
        """Add a folder with all that is in it, but for what tests do not need."""
        for path in sorted(source.rglob("*")):
            inside = path.relative_to(source)
            left_out = any(part in _LEFT_OUT or part.startswith(_LEFT_OUT_PREFIX) for part in inside.parts)
            if not left_out and path.is_file():
                self.file(f"{name}/{inside}", path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)

    def finish(self) -> bytes:
        """The archive's bytes, with its end mark."""
        self._entry("TRAILER!!!", 0)
        self._out.write(b"\0" * (-self._out.tell() % 512))
        return self._out.getvalue()


def _libraries(binaries: Sequence[Path]) -> set[Path]:
    """Shared libraries that ``binaries`` load, and the loader itself."""
    found = set()
    for start in range(0, len(binaries), 64):
        listed = subprocess.run(
            ["ldd", *map(str, binaries[start : start + 64])], capture_output=True, text=True, check=False
        )
        for line in listed.stdout.splitlines():
            words = line.replace("=>", " ").split()
            found |= {Path(word) for word in words if word.startswith("/") and not word.endswith(":")}
    return found


def _add_libraries(archive: Archive, folders: Sequence[Path], binaries: Sequence[Path] = ()) -> None:
    modules = [path for folder in folders for path in folder.rglob("*.so*") if path.is_file()]
    for library in sorted(_libraries([*binaries, *modules])):
        archive.file(str(library), library.read_bytes(), 0o755)


def _add_compiled(archive: Archive, source: Path, name: str) -> None:
    """
    Add a folder of Python code with its compiled form, for compiling in the emulated machine takes seconds.

    Nothing in there has a time, so what was compiled is not to be compared with its source.
    """
    with tempfile.TemporaryDirectory(prefix=f"fastness-vm-{os.getpid()}-") as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns(*_LEFT_OUT, "__pycache__", f"{_LEFT_OUT_PREFIX}*"))
        compiling = [str(PYTHON), "-m", "compileall", "-q", "-s", str(copy), "-p", f"/{name}"]
        # Parts that are not for this version of Python are left as they are.
        subprocess.run(
            [*compiling, "--invalidation-mode", "unchecked-hash", str(copy)], check=False, capture_output=True
        )
        archive.tree(copy, name)


def _base() -> bytes:
    """Busybox and Python; kept, for it takes seconds to make and is the same for every program."""
    library = Path(f"/usr/lib/python3.{_python_minor()}")
    identity = f"{PYTHON.resolve()} {PYTHON.stat().st_mtime_ns} {library.stat().st_mtime_ns} {Path(__file__).stat().st_mtime_ns}"
    kept = fetch_vm.cache() / f"base-{zlib.crc32(identity.encode()):08x}.cpio"
    if kept.exists():
        return kept.read_bytes()
    archive = Archive()
    for folder in ("bin", "dev", "proc", "sys", "tmp", "etc", "new", "usr/lib", "usr/lib64"):
        archive.folder(folder)
    for name, target in (("lib64", "usr/lib64"), ("lib", "usr/lib"), ("sbin", "bin")):
        archive.link(name, target)
    archive.console()
    busybox = fetch_vm.busybox()
    assert busybox is not None
    archive.file("bin/busybox", busybox.read_bytes(), 0o755)
    archive.file("etc/passwd", b"root:x:0:0:root:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n")
    archive.file("etc/group", b"root:x:0:\nnogroup:x:65534:\n")
    archive.file("usr/bin/python3", PYTHON.resolve().read_bytes(), 0o755)
    _add_compiled(archive, library, f"usr/lib/{library.name}")
    _add_libraries(archive, [library / "lib-dynload"], [PYTHON.resolve()])
    made = archive.finish()
    for older in fetch_vm.cache().glob("base-*.cpio"):
        older.unlink(missing_ok=True)
    beside = kept.with_suffix(f".{os.getpid()}")
    beside.write_bytes(made)
    beside.replace(kept)
    return made


def _python_minor() -> int:
    printed = subprocess.run(
        [str(PYTHON), "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True, check=True
    )
    return int(printed.stdout)


def _loading(modules: Sequence[str]) -> str:
    lines = []
    for module in modules:
        name, _, settings = module.partition(" ")
        lines.append(f"insmod /modules/{name}.ko {settings}")
    return "\n".join(lines)


def _module(name: str) -> bytes:
    image = fetch_vm.kernel()
    assert image is not None
    version = image.name.removeprefix("vmlinuz-")
    found = next((fetch_vm.cache() / "root/lib/modules" / version).rglob(f"{name}.ko"))
    return found.read_bytes()


def _extra(
    program: str, files: Mapping[str, bytes | str | Path], packages: Sequence[str], begin: str, modules: Sequence[str]
) -> bytes:
    archive = Archive()
    archive.file("init", _INIT.encode(), 0o755)
    archive.file("begin", begin.encode(), 0o755)
    archive.file("program.py", program.encode())
    _add_compiled(archive, SOURCE, "src")
    for name in [module.partition(" ")[0] for module in modules]:
        archive.file(f"modules/{name}.ko", _module(name))
    site = Path(sysconfig.get_paths()["purelib"])
    for package in packages:
        found = [
            path
            for path in site.iterdir()
            if path.name == package or path.name.startswith((f"{package}.", f"{package}-"))
        ]
        if not found:
            raise FileNotFoundError(f"the package {package} is not in {site}")
        for path in found:
            if path.is_dir():
                _add_compiled(archive, path, f"packages/{path.name}")
                _add_libraries(archive, [path])
            else:
                archive.file(f"packages/{path.name}", path.read_bytes())
    for name, content in files.items():
        if isinstance(content, Path):
            mode = 0o755 if os.access(content, os.X_OK) else 0o644
            archive.file(name, content.read_bytes(), mode)
        else:
            archive.file(name, content.encode() if isinstance(content, str) else content)
    return archive.finish()


def _command(initrd: Path, append: str, memory_mb: int, cpus: int) -> tuple[list[str], dict[str, str]]:
    emulator, kernel = fetch_vm.emulator(), fetch_vm.kernel()
    assert emulator is not None and kernel is not None
    # With its ACPI tables this machine often gets no timer interrupt, and hangs while it calibrates its clock.
    command = [str(emulator), "-M", "microvm,x-option-roms=off,rtc=on,acpi=off", "-accel", "tcg", "-cpu", "max"]
    environment = dict(os.environ)
    root = fetch_vm.cache() / "root/usr"
    if emulator.is_relative_to(root):
        libraries = root / "lib/x86_64-linux-gnu"
        environment["LD_LIBRARY_PATH"] = f"{libraries}:{root.parent / 'lib/x86_64-linux-gnu'}"
        environment["QEMU_MODULE_DIR"] = str(libraries / "qemu")
        command += ["-L", str(root / "share/qemu"), "-L", str(root / "share/seabios")]
    command += ["-m", str(memory_mb), "-smp", str(cpus), "-nodefaults", "-no-user-config", "-nographic", "-no-reboot"]
    command += ["-serial", "stdio", "-monitor", "none"]
    command += ["-kernel", str(kernel), "-initrd", str(initrd), "-append", append]
    return command, environment


def run_in_vm(
    program: str,
    files: Mapping[str, bytes | str | Path] | None = None,
    timeout: float = 120.0,
    *,
    packages: Sequence[str] = (),
    setup: str = CGROUP2,
    modules: Sequence[str] = (),
    memory_mb: int = 512,
    cpus: int = 1,
    append: str = "",
) -> tuple[int, str]:
    """
    Run ``program`` as root in a machine of its own; returns its exit status and what it wrote, to either stream.

    ``files`` are further files by their absolute path: content, or a file of this machine.  ``packages`` are copied
    from this environment's site-packages to where the program can import them, as ``fastness`` always is; those with
    compiled parts must be made for the version of ``/usr/bin/python3``.  ``setup`` is shell text that runs before,
    ``modules`` are kernel modules in the order of loading, each with its settings after its name, ``append`` is added
    to the kernel's command line.

    Raises ``TimeoutError`` after ``timeout`` seconds and ``RuntimeError`` where the machine ended before the program
    did; both show the end of what the console said.
    """
    mark = f"vm-{secrets.token_hex(8)}"
    begin = _BEGIN.replace("@MARK@", mark).replace("@SETUP@", setup).replace("@MODULES@", _loading(modules))
    with tempfile.TemporaryDirectory(prefix=f"fastness-vm-{os.getpid()}-") as scratch:
        initrd = Path(scratch) / "initrd"
        with initrd.open("wb") as out:
            out.write(_base())
            out.write(_extra(program, files or {}, packages, begin, modules))
        kernel = f"console=ttyS0 quiet loglevel=0 panic=-1 reboot=t random.trust_cpu=on {append}"
        command, environment = _command(initrd, kernel, memory_mb, cpus)
        try:
            ended = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, env=environment, check=False
            )
        except subprocess.TimeoutExpired as error:
            shown = (error.stdout or b"").decode("utf-8", "replace")
            raise TimeoutError(f"the virtual machine was not done after {timeout} s:\n{shown[-4000:]}") from None
    console = ended.stdout.decode("utf-8", "replace")
    _, begun, rest = console.partition(f"{mark} begin\n")
    output, finished, status = rest.partition(f"{mark} end ")
    if not begun or not finished:
        said = ended.stderr.decode("utf-8", "replace")
        raise RuntimeError(f"the virtual machine ended early ({ended.returncode}):\n{console[-4000:]}\n{said[-2000:]}")
    return int(status.split()[0]), output


if __name__ == "__main__":
    sys.stdout.write(fetch_vm.missing())
    code, text = run_in_vm(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.stdout.write(text)
    sys.exit(code)

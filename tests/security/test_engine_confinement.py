"""
An engine process cannot do what its guest might make it do.

Each attempt is made without confinement first: where that succeeds, the refusal is ours.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import house
from fastness._linux import procs, proof
from fastness._linux.proof import Observation
from fastness._linux.proof_child import LAYERS


@pytest.fixture(scope="module", autouse=True)
def _supported() -> None:
    house.require("confinement")


SOURCE = str(Path(__file__).resolve().parents[2] / "src")
ROOT = os.geteuid() == 0

#: Attempts that a kernel may refuse to everybody, or to all but root, by its configuration.
MAY_BE_IMPOSSIBLE = {
    "an x32 system call",
    "bpf",
    "io_uring_setup",
    "perf_event_open",
    "trace another process",
    "type into a terminal",
    "type into a terminal, bit 32 set",
    "userfaultfd",
    "use the session keyring",
    "unshare the user namespace",
    "clone3 with a user namespace",
}
#: Attempts that take root's power.
NEEDS_ROOT = {"return to the host's network namespace", "become root", "mount a file system", "change the root folder"}

_BECOME_NOBODY = """
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
"""


def run_child(
    code: str, *arguments: str, nobody: bool = False, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a fresh interpreter, all modules of ours imported before it becomes an ordinary user."""
    prelude = f"""
import sys; sys.path.insert(0, {SOURCE!r})
import ctypes, errno, os, select, signal, time, _socket, _thread
from fastness._linux import confine, landlock, memory, namespaces, pagemap, privileges, profiles, proof_child, seccomp
from fastness._linux import syscalls
from fastness._wasi import binding
"""
    become = _BECOME_NOBODY if nobody and ROOT else ""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", prelude + become + textwrap.dedent(code), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={},
        check=False,
    )


@pytest.fixture(scope="module", params=["root", "nobody"])
def observations(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Observation]:
    """What the proof observes, as root and as an ordinary user."""
    if request.param == "root":
        if not ROOT:
            pytest.skip("needs root")
        return proof.prove_engine(sys.executable, 60)
    folder = tmp_path_factory.mktemp("nobody")
    for parent in (folder, *folder.parents):
        if parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    folder.chmod(0o777)
    canary = folder / "canary"
    canary.write_bytes(b"canary")
    abstract = "fastness-test-" + secrets.token_hex(8)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener, socket.socket(socket.AF_UNIX) as local:
        local.bind("\0" + abstract)
        local.listen(64)
        arguments = (str(canary), str(listener.getsockname()[1]), abstract, "60")
        done = run_child("proof_child.main(sys.argv[1:])", *arguments, nobody=True)
    if ROOT:
        canary.chmod(0o644)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    return proof._judge({(line[0], line[1]): line[2] for line in lines})


def test_every_attempt_is_refused(observations: list[Observation]) -> None:
    """Against the whole confinement nothing gets through, whoever started the engine."""
    assert [o for o in observations if o.layer == "all" and not o.held] == []
    assert len([o for o in observations if o.layer == "all"]) == len(LAYERS["all"])


def test_every_wall_stands_alone(observations: list[Observation]) -> None:
    """Where the kernel has Landlock and namespaces, each refuses its share without the filter's help."""
    missing = {o.layer for o in observations if o.observed.startswith("layer missing")}
    assert "all" not in missing
    assert [o for o in observations if o.layer not in missing and not o.held] == []


def test_unconfined_attempts_succeed(observations: list[Observation]) -> None:
    """The controls: what is refused is possible here without confinement, so the refusals are ours."""
    ordinary = next(o for o in observations if o.attempt == "become root").control != "succeeded"
    excused = MAY_BE_IMPOSSIBLE | (NEEDS_ROOT if ordinary else set())
    if not os.access(sys.executable, os.X_OK) or ordinary:
        excused |= {"execute a program"}  # the interpreter itself may lie where an ordinary user cannot go
    assert [o for o in observations if o.control != "succeeded" and o.attempt not in excused] == []


def test_all_guarantees_are_proven(observations: list[Observation]) -> None:
    """The summary lists each guarantee that the confinement claims."""
    claimed = {"fs_confined", "net_confined", "syscall_filtered", "no_exec", "no_new_privs", "no_privilege"}
    assert proof.held_guarantees(observations) == claimed


def test_a_guarantee_with_one_success_is_not_held() -> None:
    """One attempt that gets through is enough to lose the guarantee, and so is one that was not tried."""
    good = {("all", attempt): "SIGSYS" for attempt in LAYERS["all"]}
    good["privileges", "gain privileges by exec"] = "EPERM"
    assert "no_exec" in proof.held_guarantees(proof._judge(good))
    for outcome in ("succeeded", "timeout", "layer missing: EPERM", "SIGSEGV"):
        bad = {**good, ("all", "map a page of code"): outcome}
        assert "no_exec" not in proof.held_guarantees(proof._judge(bad))
        assert "fs_confined" in proof.held_guarantees(proof._judge(bad))
    del good["all", "map a page of code"]
    assert "no_exec" not in proof.held_guarantees(proof._judge(good))
    assert proof.held_guarantees(proof._judge({})) == frozenset()


def test_proof_is_bounded_in_time_and_leaves_nothing(tmp_path: Path) -> None:
    """An interpreter that never answers costs the bound, holds nothing, and is gone afterwards."""
    fake = tmp_path / "python"
    pause = f"300.{os.getpid()}"
    fake.write_text(f"#!/bin/sh\nsleep {pause} &\nexec sleep {pause}\n")
    fake.chmod(0o755)
    observations = proof.prove_engine(str(fake), 0.5)
    assert {o.observed for o in observations} == {"not tried"}
    assert not any(o.held for o in observations)
    assert procs.orphans(pause) == []


def test_layers_and_gaps_are_reported() -> None:
    """What could not be had is in the gaps and not in the layers; the filter's promises stay."""
    done = run_child(
        """
        def refuse(*arguments): raise OSError(errno.EPERM, "not here")
        namespaces.unshare = refuse
        landlock.deny_all = refuse
        c = confine.confine_engine()
        print(c.layers["fs_confined"], c.layers["net_confined"], c.layers["syscall_filtered"])
        print(sorted(name for name, why in c.gaps))
        sys.stdout.flush(); os._exit(0)
    """,
        nobody=True,
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "seccomp seccomp seccomp", done.stderr
    assert lines[1] == str(
        sorted(
            ["capability bounding set", "landlock"]
            + [f"{name} namespace" for name in ("user", "net", "ipc", "uts", "mount", "cgroup")]
        )
    )


def test_old_landlock_is_reported() -> None:
    """Early Landlock versions confine files only, and network confinement does not claim them."""
    done = run_child("""
        landlock.deny_all = lambda: 3
        c = confine.confine_engine()
        print(c.layers["fs_confined"], "landlock" in c.layers["net_confined"], sorted(name for name, why in c.gaps))
        sys.stdout.flush(); os._exit(0)
    """)
    assert done.stdout.strip() == "landlock(abi 3)+seccomp False ['landlock scopes', 'landlock tcp']", done.stderr


def test_engine_without_a_filter_does_not_start() -> None:
    """System call filtering is not optional: where it fails there is no Confinement to go on with."""
    done = run_child("""
        def refuse(*arguments, **options): raise OSError(errno.EINVAL, "no filters here")
        seccomp.install = refuse
        try: confine.confine_engine()
        except OSError as error: print(error.strerror)
    """)
    assert done.stdout.strip() == "no filters here"


def test_threads_must_wait_until_after_confinement() -> None:
    """Landlock and namespaces hold for the calling thread only, so a second thread beforehand is an error."""
    done = run_child("""
        lock = _thread.allocate_lock(); lock.acquire()
        _thread.start_new_thread(lock.acquire, ())
        try: confine.confine_engine()
        except OSError as error: print(error.strerror)
        sys.stdout.flush(); os._exit(0)
    """)
    assert done.stdout.strip() == "a process confines itself before it starts threads"


@pytest.mark.parametrize("nobody", [False, True])
def test_sealing_takes_thread_starts_away_from_every_thread(nobody: bool) -> None:
    """Between the stages threads can be started; afterwards the attempt of any of them ends the process."""
    done = run_child(
        """
        c = confine.confine_engine()
        up = _thread.allocate_lock(); up.acquire(); go = _thread.allocate_lock(); go.acquire()
        def other():
            up.release(); go.acquire()
            print("still here", flush=True)
            _thread.start_new_thread(print, ("escaped",))
            os._exit(0)
        _thread.start_new_thread(other, ()); up.acquire()
        confine.seal_engine(c)
        go.release()
        select.poll().poll()
    """,
        nobody=nobody,
    )
    assert (done.stdout.strip(), done.returncode) == ("still here", -signal.SIGSYS), done.stderr


def test_only_image_mode_makes_memory_files() -> None:
    """A serving engine has no call that makes or writes an image; one in image mode seals what it wrote."""
    body = """
        c = confine.confine_engine(image_mode=%s); confine.seal_engine(c)
        fd = memory.memory_file(4096)
        memory.write_at(fd, ctypes.addressof(ctypes.create_string_buffer(b"image")), 5, 0)
        memory.seal(fd)
        print(os.pread(fd, 5, 0), memory.seals_of(fd) & 15, flush=True); os._exit(0)
    """
    assert run_child(body % True).stdout.strip() == "b'image' 15"
    refused = run_child(body % False)
    assert (refused.stdout, refused.returncode) == ("", -signal.SIGSYS)


def test_allocator_looks_at_a_file_and_lives() -> None:
    """free() in a thread's arena opens a file under /proc: that must be an error for it and not the engine's end."""
    done = run_child("""
        libc = ctypes.CDLL(None); libc.malloc.restype = ctypes.c_void_p; libc.malloc.argtypes = [ctypes.c_size_t]
        libc.free.argtypes = [ctypes.c_void_p]
        c = confine.confine_engine()
        up = _thread.allocate_lock(); up.acquire(); go = _thread.allocate_lock(); go.acquire()
        done = _thread.allocate_lock(); done.acquire()
        def other():
            up.release(); go.acquire()
            for size in (1 << 12, 1 << 14, 1 << 16):
                blocks = [libc.malloc(size) for _ in range(600)]
                for block in reversed(blocks): libc.free(block)
            try: open("/proc/sys/vm/overcommit_memory")
            except PermissionError: print("refused")
            done.release()
        _thread.start_new_thread(other, ()); up.acquire(); confine.seal_engine(c); go.release(); done.acquire()
        print("alive", flush=True); os._exit(0)
    """)
    assert (done.stdout.split(), done.returncode) == (["refused", "alive"], 0), done.stderr


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small compiled module: a host call, a trap, endless recursion, growth."""
    from fastness._wasi import binding

    library = binding.load(binding.find_library())
    engine = binding.Engine(library, binding.EngineConfig())
    wasm = binding.wat2wasm(
        library,
        """(module
            (import "host" "add" (func $add (param i32) (result i32)))
            (memory (export "memory") 2)
            (func (export "call") (param i32) (result i32)
              (i32.store (i32.const 70000) (i32.const 7)) (call $add (local.get 0)))
            (func (export "trap") (result i32) unreachable)
            (func $deep (export "deep") (param i32) (result i32) (i32.add (call $deep (local.get 0)) (i32.const 1)))
            (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0))))""",
    )
    folder = tmp_path_factory.mktemp("native")
    for parent in (folder, *folder.parents):
        if parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    folder.chmod(0o755)
    path = folder / "small.cwasm"
    path.write_bytes(binding.compile_module(engine, wasm))
    path.chmod(0o644)
    return str(path)


_ENGINE = """
library = binding.load(sys.argv[1]); engine = binding.Engine(library, binding.EngineConfig())
module = binding.Module.deserialize_file(engine, sys.argv[2])
linker = binding.Linker(engine)
def add(env, caller, args, n): args[0] = args[0] + 1
linker.define(b"host", b"add", "i", "i", add)
pre = linker.instantiate_pre(module)
map_fd = pagemap.open_pagemap()
"""

_SEALED = """
c = confine.confine_engine()
up = _thread.allocate_lock(); up.acquire(); go = _thread.allocate_lock(); go.acquire()
_thread.stack_size(64 << 20)
def runner():
    up.release(); go.acquire()
    try:
        work()
    except BaseException as error:
        print("error", repr(error))
    sys.stdout.flush(); os._exit(0)
_thread.start_new_thread(runner, ()); up.acquire(); confine.seal_engine(c); go.release()
select.poll().poll()
"""


def _library() -> str:
    from fastness._wasi import binding

    return binding.find_library()


def _load_as_root_then(nobody: bool) -> str:
    # The library may lie where an ordinary user cannot go, so the identity changes after it is loaded.
    return _ENGINE + (_BECOME_NOBODY if nobody and ROOT else "")


@pytest.mark.parametrize("nobody", [False, True])
def test_engine_works_under_the_filter(native: str, nobody: bool) -> None:
    """Host calls, traps by signal, growth and large heaps all work in a sealed engine."""
    work = """
def work():
    instance = binding.Instance(engine, pre, 1 << 26)
    print(instance.call(b"call", 41))
    for name, arguments in ((b"trap", ()), (b"deep", (1,))):
        try: instance.call(name, *arguments)
        except binding.Trap as trap: print(trap.code)
    print(instance.call(b"grow", 10), instance.size())
    base = instance.base()
    print([(s - base, e - base) for s, e in pagemap.Scanner(map_fd).dirty(base, base + instance.size())])
    block = bytearray(100 << 20); del block
    instance.close()
    print(binding.Instance(engine, pre, 1 << 26).call(b"call", 1))
"""
    done = run_child(_load_as_root_then(nobody) + work + _SEALED, _library(), native)
    assert done.stdout.splitlines() == [
        "42",
        "unreachable",
        "stack_overflow",
        "2 786432",
        "[(69632, 73728)]",
        "2",
    ], done.stderr
    assert done.returncode == 0


def test_crash_of_the_host_ends_the_engine(native: str) -> None:
    """A fault outside of guest code ends the process at once: the fault handler may not loop."""
    work = """
def work():
    instance = binding.Instance(engine, pre, 1 << 26); instance.call(b"call", 1)
    print("before", flush=True)
    ctypes.string_at(8)
"""
    done = run_child(_ENGINE + work + _SEALED, _library(), native, timeout=20)
    assert done.stdout.strip() == "before"
    assert done.returncode in (-signal.SIGSYS, -signal.SIGSEGV)


_COMPILE = """
library = binding.load(sys.argv[1]); engine = binding.Engine(library, binding.EngineConfig(user_module=True))
text = "(module " + "".join(
    "(func (export \\"f%d\\") (param i32) (result i32) (i32.add (local.get 0) (i32.const %d)))" % (i, i)
    for i in range(300)
) + ")"
wasm = binding.wat2wasm(library, text)
"""


@pytest.mark.parametrize("nobody", [False, True])
def test_compiler_works_under_its_filter(nobody: bool) -> None:
    """A confined compiler compiles with its threads, and reports an invalid module as an error."""
    code = (
        _COMPILE
        + (_BECOME_NOBODY if nobody and ROOT else "")
        + """
c = confine.confine_compiler(parent=os.getppid(), address_space=2 << 30, cpu_seconds=60)
print(len(binding.compile_module(engine, wasm)) > 10000)
try: binding.compile_module(engine, wasm[:-9])
except binding.WasmtimeError: print("invalid")
sys.stdout.flush(); os._exit(0)
"""
    )
    done = run_child(code, _library())
    assert (done.stdout.split(), done.returncode) == (["True", "invalid"], 0), done.stderr


@pytest.mark.parametrize(
    ("attempt", "outcome"),
    [
        ("os.open('/etc/passwd', os.O_RDONLY)", 0),
        ("_socket.socket()", -signal.SIGSYS),
        ("os.fork()", -signal.SIGSYS),
        ("os.execve('/bin/true', ['true'], {})", -signal.SIGSYS),
        ("os.kill(os.getppid(), 0)", -signal.SIGSYS),
        ("syscalls.raw('mmap', 0, 4096, 7, 0x22, -1, 0)", -signal.SIGSYS),
        ("syscalls.raw('io_uring_setup', 1, 0)", -signal.SIGSYS),
    ],
)
def test_compiler_is_confined(attempt: str, outcome: int) -> None:
    """A compiler that was taken over opens, connects, starts and signals nothing."""
    done = run_child(f"""
        confine.confine_compiler()
        try: {attempt}
        except PermissionError: os._exit(0)
        os._exit(9)
    """)
    assert done.returncode == outcome

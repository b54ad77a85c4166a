"""A user's module is compiled in a confined process of its own, or refused with the reason."""

import fcntl
import os
import threading
import time

import pytest

from fastness._wasi import binding, compiler, wasmbin
from fastness._wasi.native import slim
from fastness.errors import ConfigurationError

_ADD = '(module (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))'


@pytest.fixture(scope="module")
def lib():
    return binding.load(binding.find_library())


def _heavy(functions, size):
    """A valid module whose compilation takes long."""
    body = b"\x00" + b"\x20\x00\x41\x07\x6a\x21\x00" * (size // 7) + b"\x0b"
    body = wasmbin.uleb(len(body)) + body
    return wasmbin.rebuild(
        [
            (wasmbin.TYPE, b"\x01\x60\x01\x7f\x00"),
            (wasmbin.FUNCTION, wasmbin.uleb(functions) + bytes(functions)),
            (wasmbin.CODE, wasmbin.uleb(functions) + body * functions),
        ]
    )


def test_compiled_code_loads_and_runs(lib):
    """The result is a sealed, read-only file that an engine with the given settings loads."""
    module = compiler.compile_user_module(binding.wat2wasm(lib, _ADD))
    try:
        seals = fcntl.fcntl(module.fd, fcntl.F_GET_SEALS)
        assert seals & fcntl.F_SEAL_WRITE
        assert seals & fcntl.F_SEAL_GROW
        assert fcntl.fcntl(module.fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        engine = binding.Engine(lib, module.settings)
        loaded = binding.Module.deserialize_file(engine, f"/proc/self/fd/{module.fd}")
        linker = binding.Linker(engine)
        assert binding.Instance(engine, linker.instantiate_pre(loaded), 1 << 20).call(b"add", 40, 2) == 42
    finally:
        module.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(module (memory i64 1))", "64-bit"),
        ("(module (memory 1 1 shared))", "shared"),
        ("(module (memory 1) (memory 1))", "memories"),
        ("(module (func (return_call 0)))", "tail call"),
        ("(module (type (struct)))", "gc"),
        ("(module (tag) (func (throw 0)))", "tags"),
        ("(component)", "component"),
        ("(module (func (result i32)))", "type mismatch"),
    ],
)
def test_what_is_off_or_invalid_is_refused_with_the_reason(lib, text, why):
    """Features beyond those of a preview 1 program, and invalid code, are the caller's error."""
    try:
        wasm = binding.wat2wasm(lib, text)
    except binding.WasmtimeError:
        pytest.skip("the assembler does not know this feature")
    with pytest.raises(ConfigurationError, match=f"(?i){why}") as caught:
        compiler.compile_user_module(wasm)
    assert caught.value.field == "module"


@pytest.mark.parametrize("data", [b"", b"\0asm", b"\x7fELF" + bytes(100), wasmbin.MAGIC + b"\x0a\xff"])
def test_bytes_that_are_no_module(data):
    """Nothing is started for bytes that do not even look like a module."""
    with pytest.raises(ConfigurationError):
        compiler.compile_user_module(data)


def test_a_module_over_the_size_cap_is_refused(monkeypatch):
    """The cap on bytes is checked before anything is read."""
    monkeypatch.setattr(compiler, "USER_MODULE_BYTES", 100)
    with pytest.raises(ConfigurationError, match="at most 100 bytes"):
        compiler.compile_user_module(bytes(101))


def test_a_module_that_takes_too_much_memory_is_refused(monkeypatch):
    """One huge function needs more than the compiler may have; the process dies, the caller learns why."""
    monkeypatch.setattr(compiler, "USER_COMPILE_MEMORY", 256 << 20)
    with pytest.raises(ConfigurationError, match="256 MiB"):
        compiler.compile_user_module(_heavy(1, 2 << 20))


def test_a_deadline_ends_the_compiler():
    """Past the time limit the process is killed and the module refused."""
    with pytest.raises(ConfigurationError, match="deadline"):
        compiler.compile_user_module(_heavy(400, 30_000), timeout_s=0.3)
    assert not _compilers()


def test_cancelling_ends_the_compiler():
    """A set event ends the wait and the process."""
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    with pytest.raises(compiler.Cancelled):
        compiler.compile_user_module(_heavy(400, 30_000), cancel=cancel)
    assert not _compilers()


def _read(path):
    # Not a buffered file: reading another process's environment can fail once it is open, and again on closing.
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 10_000).decode()
    finally:
        os.close(fd)


def _compilers():
    """Compiler processes among our children."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/cmdline") as line:
                parent = int(stat.read().rpartition(")")[2].split()[1])
                if parent == os.getpid() and "compile_child" in line.read():
                    found.append(pid)
        except OSError:
            continue
    return found


def test_the_compiler_inherits_nothing():
    """While it compiles it has an empty environment but for its own settings, and only its own descriptors."""
    secret = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(secret, True)
    cancel = threading.Event()
    seen = {}

    def watch():
        try:
            look()
        finally:
            cancel.set()

    def look():
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and "Seccomp" not in seen:
            for pid in _compilers():
                try:
                    with open(f"/proc/{pid}/status") as status:
                        lines = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
                    if lines["Seccomp"] == "2":
                        seen["environ"] = _read(f"/proc/{pid}/environ")
                        seen["files"] = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
                        seen.update(lines)
                except OSError:
                    continue
            time.sleep(0.01)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        with pytest.raises((compiler.Cancelled, ConfigurationError)):
            compiler.compile_user_module(_heavy(400, 30_000), cancel=cancel)
    finally:
        thread.join()
        os.close(secret)
    if "files" not in seen:
        pytest.skip("this user may not look into the confined process")
    assert seen["NoNewPrivs"] == "1"
    assert "/etc/passwd" not in seen["files"]
    assert {name.split("=")[0] for name in seen["environ"].split("\0") if name} <= {
        "RAYON_NUM_THREADS", "MALLOC_ARENA_MAX", "LC_CTYPE",
    }  # fmt: skip


def test_slim_code_is_smaller_and_runs_the_same(lib, tmp_path):
    """Without debugging sections the code loads, answers and traps as before."""
    engine = binding.Engine(lib, binding.EngineConfig())
    code = binding.compile_module(
        engine,
        binding.wat2wasm(lib, '(module (func (export "f") (result i32) i32.const 5) (func (export "t") unreachable))'),
    )
    thin = slim(code)
    assert len(thin) < len(code)
    path = tmp_path / "code"
    path.write_bytes(thin)
    linker = binding.Linker(engine)
    module = binding.Module.deserialize_file(engine, str(path))
    instance = binding.Instance(engine, linker.instantiate_pre(module), 1 << 20)
    assert instance.call(b"f") == 5
    with pytest.raises(binding.Trap) as caught:
        instance.call(b"t")
    assert caught.value.code == "unreachable"


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x01\x01" + bytes(100), b"\x7fELF\x02\x01" + b"\xff" * 100])
def test_slim_refuses_other_files(data):
    """What is not laid out as expected is refused, not guessed at."""
    with pytest.raises(ValueError, match="ELF"):
        slim(data)

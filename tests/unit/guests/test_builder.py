"""A guest is made ready once, from verified artefacts, whoever asks and whatever happened to the cache."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fastness._wasi import background, binding, builder, guests, inventory, keys, stamps
from fastness._wasi.cache import Cache
from fastness.errors import BackendError, ConfigurationError

JAVASCRIPT = guests.JAVASCRIPT
_ENSURE = """
import sys
from fastness._wasi import builder
seen = []
with builder.ensure("javascript", "full", lambda p: seen.append(p.stage)) as artefact:
    print(artefact.digest, "made" if "full" in seen else "found")
"""


@pytest.fixture
def cache(tmp_path):
    return Cache(str(tmp_path / "cache" / "guests"))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A cache in which the JavaScript guest is built."""
    cache = Cache(str(tmp_path_factory.mktemp("home") / "guests"))
    builder.ensure("javascript", cache=cache).close()
    return cache


def test_ready_code_loads_and_has_the_drivers_exports(built):
    """The descriptor's code loads with the artefact's settings, and exports what its driver calls."""
    with builder.ensure("javascript", cache=built) as artefact:
        assert artefact.variant == "full"
        lib = binding.load(binding.find_library())
        engine = binding.Engine(lib, artefact.settings)
        module = binding.Module.deserialize_file(engine, f"/proc/self/fd/{artefact.fd}")
        linker = binding.Linker(engine)
        from fastness._wasi import preview1

        preview1.register(linker, [None])
        instance = binding.Instance(engine, linker.instantiate_pre(module), 1 << 28)
        for name in (*JAVASCRIPT.exports, "qjs_init", "malloc"):
            assert instance.has(name.encode()), name


def test_progress_tells_cost_before_the_work(cache):
    """The first report of a build has its estimate in seconds and bytes, and nothing done yet; the last says ready."""
    seen = []
    builder.ensure("javascript", progress=seen.append, cache=cache).close()
    assert seen[0].stage == "full"
    assert seen[0].elapsed_s == 0
    assert seen[0].estimate_s > 0
    assert seen[0].disk_bytes > 0
    assert seen[-1].stage == "ready"
    assert all(report.done <= report.total for report in seen)


def test_second_use_builds_nothing(built):
    """What is ready is opened, not built."""
    seen = []
    builder.ensure("javascript", progress=seen.append, cache=built).close()
    assert [report.stage for report in seen] == ["ready"]


def test_damage_is_found_and_repaired(built):
    """A changed byte of native code is found on opening; the code is made again and then right."""
    name = keys.code_name(JAVASCRIPT, "full")
    path = Path(built.path, name)
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(1000)
        file.write(b"\xcc" * 64)
    seen = []
    with builder.ensure("javascript", progress=seen.append, cache=built) as artefact:
        assert os.pread(artefact.fd, 64, 1000) != b"\xcc" * 64
    assert any("damaged" in report.message for report in seen)
    assert [info.state for info in inventory.list_guests(built) if info.name == "javascript"] == ["ready"]


def test_verify_finds_damage(built):
    """Verify reads everything; damage is reported and removed, and the next use repairs it."""
    assert all(info.state in ("ready", "absent") for info in inventory.verify(built))
    path = Path(built.path, keys.code_name(JAVASCRIPT, "full"))
    path.chmod(0o600)
    os.truncate(path, 5000)
    assert [i.state for i in inventory.verify(built) if i.name == "javascript"] == ["damaged"]
    assert [i.state for i in inventory.list_guests(built) if i.name == "javascript"] == ["absent"]
    builder.ensure("javascript", cache=built).close()


def test_two_processes_compile_once(tmp_path):
    """Processes that need the same guest at once share one compilation."""
    env = {**os.environ, "PYTHONPATH": "src", "FASTNESS_HOME": str(tmp_path)}
    children = [
        subprocess.Popen([sys.executable, "-c", _ENSURE], env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    said = [child.communicate()[0].split() for child in children]
    assert len({digest for digest, _ in said}) == 1
    assert sorted(how for _, how in said) == ["found", "found", "made"]


def test_a_builder_killed_midway_leaves_nothing_and_the_next_succeeds(tmp_path):
    """Kill -9 of a builder: no compiler stays, the lock is free, and the next one builds."""
    env = {**os.environ, "PYTHONPATH": "src", "FASTNESS_HOME": str(tmp_path)}
    child = subprocess.Popen([sys.executable, "-c", _ENSURE], env=env, stdout=subprocess.DEVNULL)
    folder = tmp_path / "cache" / "guests"
    deadline = time.monotonic() + 20
    while not list(folder.glob("tmp-*")) and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    cache = Cache(str(folder))
    assert cache.lookup(keys.code_name(JAVASCRIPT, "full")) is None
    builder.ensure("javascript", cache=cache).close()
    # The compiler held the half-written file, too, and dies with its parent: only then can the file be swept.
    while list(folder.glob("tmp-*")) and time.monotonic() < deadline + 20:
        cache.sweep()
        time.sleep(0.01)
    assert not list(folder.glob("tmp-*"))


def test_giving_up_leaves_nothing(cache):
    """A progress callback that raises ends the build, its compiler and its files."""

    def give_up(report):
        if report.elapsed_s > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        builder.ensure("javascript", progress=give_up, cache=cache)
    assert os.listdir(cache.path) == []


def test_too_little_space_is_said_before_the_work(cache, monkeypatch):
    """A disk without room is found before anything is compiled, with the path, the sizes and the fix."""
    huge = JAVASCRIPT._replace(code_bytes=1 << 60)
    monkeypatch.setitem(guests.GUESTS, "javascript", huge)
    with pytest.raises(BackendError, match="FASTNESS_HOME") as caught:
        builder.ensure("javascript", cache=cache)
    assert cache.path in str(caught.value)
    assert os.listdir(cache.path) == []


def test_another_artefact_is_refused(cache, tmp_path, monkeypatch):
    """An installed file that is not the catalogue's is never compiled, be it of another size or other contents."""
    place = tmp_path / "site" / JAVASCRIPT.code.path
    place.parent.mkdir(parents=True)
    library = binding.find_library()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    monkeypatch.setattr(binding, "find_library", lambda: library)
    monkeypatch.setattr(keys, "wasmtime", lambda: ("49", library))
    with pytest.raises(BackendError, match="pip install"):
        builder.ensure("javascript", cache=cache)
    place.write_bytes(b"short")
    with pytest.raises(BackendError, match="another version"):
        builder.ensure("javascript", cache=cache)
    place.write_bytes(bytes(JAVASCRIPT.code.size))
    with pytest.raises(BackendError, match="SHA-256"):
        builder.ensure("javascript", cache=cache)


def test_unknown_guest_and_want():
    """Names are checked against the catalogue."""
    with pytest.raises(ConfigurationError, match="python or javascript"):
        builder.ensure("cobol")
    with pytest.raises(ConfigurationError, match="any or full"):
        builder.ensure("javascript", "half")


def test_stamps_spare_hashing_until_the_file_is_touched(cache, tmp_path, monkeypatch):
    """A verified file is not hashed again; one that was written to since is."""
    data = b"library"
    file = guests.File("lib.zip", len(data), hashlib.sha256(data).hexdigest())
    guest = JAVASCRIPT._replace(library=(file,))
    monkeypatch.setitem(guests.GUESTS, "javascript", guest)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    path = tmp_path / "lib.zip"
    path.write_bytes(data)
    hashed = []
    real = guests.sha256_file
    monkeypatch.setattr(guests, "sha256_file", lambda fd: hashed.append(fd) or real(fd))
    for _ in range(3):
        os.close(stamps.open_verified(guest, file, cache.path))
    assert len(hashed) == 1
    path.write_bytes(b"LIBRARY")
    os.utime(path, ns=(0, 0))
    with pytest.raises(BackendError, match="SHA-256"):
        stamps.open_verified(guest, file, cache.path)


def _put(cache, guest, boot, preload, size=1000):
    name = keys.image_name(guest, boot, preload)
    with cache.lock(name):
        inventory.put_image(guest, boot, preload, lambda fd: os.truncate(fd, size), {"size": str(size)}, cache)
    return name


def test_images_are_kept_checked_and_dropped_with_their_boot_code(cache):
    """An image comes back with its record; one made by other boot code goes when a new one is stored."""
    _put(cache, guests.PYTHON, "boot1", ())
    _put(cache, guests.PYTHON, "boot1", ("numpy",))
    fd, entry = inventory.open_image(guests.PYTHON, "boot1", ("numpy",), cache)
    os.close(fd)
    assert (entry.info["preload"], entry.info["size"]) == ("numpy", "1000")
    assert inventory.open_image(guests.PYTHON, "boot2", ("numpy",), cache) is None
    _put(cache, guests.PYTHON, "boot2", ())
    info = next(info for info in inventory.list_guests(cache) if info.name == "python")
    assert [image.preload for image in info.images] == [()]


def test_images_over_the_cap_go_oldest_first(cache, monkeypatch):
    """All images together stay under the cap; the one used last stays in any case."""
    monkeypatch.setattr(inventory, "IMAGES_CAP", 2500)
    first, second = _put(cache, guests.PYTHON, "b", ("a",)), _put(cache, guests.PYTHON, "b", ("b",))
    for age, name in ((200, first), (100, second)):
        os.utime(Path(cache.path, name), (time.time() - age,) * 2)
    os.close(inventory.open_image(guests.PYTHON, "b", ("a",), cache)[0])
    _put(cache, guests.PYTHON, "b", ("c",))
    kept = [e.info["preload"] for e in cache.entries()]
    assert sorted(kept) == ["a", "c"]
    _put(cache, guests.PYTHON, "b", ("huge",), size=9000)
    assert [e.info["preload"] for e in cache.entries()] == ["huge"]


def test_prune_removes_what_is_not_used(built):
    """Code of other versions goes, current code stays; with `everything`, all goes and the folder is empty."""
    old = "code-" + "a" * 32
    with built.lock(old):
        built.put(old, lambda fd: os.truncate(fd, 4096), {"guest": "javascript"})
    assert inventory.prune(cache=built) == 4096
    assert built.lookup(keys.code_name(JAVASCRIPT, "full")) is not None
    assert inventory.prune(everything=True, cache=built) > 1_000_000
    assert [name for name in os.listdir(built.path) if name.startswith(("code", "image", "tmp", "lock"))] == []
    builder.ensure("javascript", cache=built).close()


def test_background_build_runs_once_detached_and_takes_over(cache, monkeypatch):
    """It is nobody's child, holds the lock, says what it does, and its result replaces the quick code."""
    # Without the step after it, which would make the Python guest's image.
    monkeypatch.setattr(background, "_THEN", "")
    quick = JAVASCRIPT._replace(quick=True)
    old = "code-" + "b" * 32
    with cache.lock(old):
        cache.put(old, lambda fd: os.truncate(fd, 10), {"guest": "javascript", "variant": "quick"})
    assert background.start(quick, cache)
    deadline = time.monotonic() + 300
    seen = None
    while not builder.full_ready("javascript", cache) and time.monotonic() < deadline:
        status = background.read_status(quick, cache)
        if status is not None:
            seen = status
        if background.is_building(quick, cache):
            assert not background.start(quick, cache)
        time.sleep(0.02)
    assert seen is not None
    assert seen.stage == "full"
    while cache.lookup(old) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert cache.lookup(old) is None
    assert not background.start(quick, cache)


def test_background_build_that_failed_is_not_tried_at_every_use(cache):
    """A failure is remembered with its reason, shown in the list, and no process is started again for a while."""
    background._write_status(JAVASCRIPT, cache, background.Status(1, "failed", time.time(), 1.0, "no memory"))
    assert not background.start(JAVASCRIPT, cache)
    info = next(info for info in inventory.list_guests(cache) if info.name == "javascript")
    assert (info.state, info.note) == ("absent", "no memory")


def test_estimates_know_who_else_is_there(monkeypatch):
    """On idle cores a build takes its processor time; beside three times as many others, four times that."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 9.0, 9.0))
    idle = builder.estimate_s(93.0)
    assert idle == pytest.approx(50.0)
    monkeypatch.setattr(os, "getloadavg", lambda: (6.0, 0.0, 0.0))
    assert builder.estimate_s(93.0) == pytest.approx(4 * idle)

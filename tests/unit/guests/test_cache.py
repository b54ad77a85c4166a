"""The cache hands out only what it wrote, whole, and says clearly why it cannot write."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fastness._wasi.cache import Cache, DamagedEntry
from fastness._wasi.digest import PIECE, tree_digest
from fastness.errors import BackendError, ConfigurationError

NAME = "code-" + "0" * 32
OTHER = "image-" + "1" * 32
DATA = os.urandom(300_000)


@pytest.fixture
def cache(tmp_path):
    return Cache(str(tmp_path / "guests"))


def _write(data):
    def writer(fd):
        os.write(fd, data)

    return writer


def _fill(cache, name=NAME, data=DATA):
    with cache.lock(name):
        return cache.put(name, _write(data), {"guest": "python"})


def _child(code, *args, **kwargs):
    return subprocess.Popen([sys.executable, "-c", code, *args], env={**os.environ, "PYTHONPATH": "src"}, **kwargs)


def _files(cache):
    return sorted(os.listdir(cache.path))


def test_what_was_put_comes_back_read_only(cache):
    """An entry is opened read-only and close-on-exec, with its contents, record and owner-only mode."""
    _fill(cache)
    fd = cache.open_checked(NAME)
    try:
        assert os.pread(fd, len(DATA) + 1, 0) == DATA
        assert not os.get_inheritable(fd)
        with pytest.raises(OSError, match="Bad file"):
            os.write(fd, b"x")
        assert os.fstat(fd).st_mode & 0o777 == 0o400
    finally:
        os.close(fd)
    assert cache.lookup(NAME).info == {"guest": "python"}
    assert os.stat(cache.path).st_mode & 0o777 == 0o700
    assert _files(cache) == [NAME, NAME + ".json"]


def test_absent_entry(cache):
    """An entry that was never made is not found."""
    with pytest.raises(FileNotFoundError):
        cache.open_checked(NAME)


def _flip(path):
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _cut(path):
    path.chmod(0o600)
    os.truncate(path, 100)


def _grow(path):
    path.chmod(0o600)
    with path.open("ab") as file:
        file.write(b"x")


def _open_to_others(path):
    path.chmod(0o644)


def _link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _folder(path):
    path.unlink()
    path.mkdir()


def _fifo(path):
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize("damage", [_flip, _cut, _grow, _open_to_others, _link, Path.unlink, _fifo])
def test_damage_is_found_and_the_entry_made_again(cache, damage):
    """Whatever is wrong with the file, it is not handed out; it is removed, and can be made again."""
    _fill(cache)
    damage(Path(cache.path, NAME))
    with pytest.raises(DamagedEntry):
        cache.open_checked(NAME)
    with pytest.raises(FileNotFoundError):
        cache.open_checked(NAME)
    _fill(cache)
    os.close(cache.open_checked(NAME))


@pytest.mark.parametrize("record", [b"", b"{}", b"[" * 5000, b'{"format":1,"size":-1,"digest":"","info":{}}', b"\xff"])
def test_a_damaged_record_counts_as_no_entry(cache, record):
    """A record that is not well formed is not believed in any part."""
    _fill(cache)
    Path(cache.path, NAME + ".json").write_bytes(record)
    with pytest.raises(FileNotFoundError):
        cache.open_checked(NAME)
    _fill(cache)
    os.close(cache.open_checked(NAME))


def test_a_folder_in_an_entrys_place_is_an_error_with_its_path(cache):
    """What cannot be removed as a file is not handed out, and making the entry says where the trouble is."""
    _fill(cache)
    _folder(Path(cache.path, NAME))
    with pytest.raises(DamagedEntry):
        cache.open_checked(NAME)
    with pytest.raises(BackendError, match=NAME):
        _fill(cache)


def test_a_writer_that_fails_leaves_nothing(cache):
    """What the writer raises comes through, and no file stays."""

    def writer(fd):
        os.write(fd, b"half")
        raise KeyboardInterrupt

    with cache.lock(NAME), pytest.raises(KeyboardInterrupt):
        cache.put(NAME, writer)
    assert _files(cache) == []


_KILLED = """
import os, sys
from fastness._wasi.cache import Cache
cache = Cache(sys.argv[1])
def writer(fd):
    os.write(fd, b"half")
    print("writing", flush=True)
    sys.stdin.read()
with cache.lock(sys.argv[2]):
    cache.put(sys.argv[2], writer)
"""


def test_a_killed_writer_leaves_nothing_that_opens_and_its_lock_is_free(cache):
    """Killed in mid-write: nothing is accepted, the lock is free at once, and the next write sweeps the rest."""
    child = _child(_KILLED, cache.path, NAME, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"writing\n"
    assert cache.is_locked(NAME)
    assert cache.sweep() == 0
    child.kill()
    child.communicate()
    with pytest.raises(FileNotFoundError):
        cache.open_checked(NAME)
    assert not cache.is_locked(NAME)
    _fill(cache)
    assert _files(cache) == [NAME, NAME + ".json"]


def test_a_file_without_a_record_is_swept(cache):
    """A crash between the two renames leaves a file that does not count and that goes at the next sweep."""
    _fill(cache)
    os.unlink(os.path.join(cache.path, NAME + ".json"))
    with pytest.raises(FileNotFoundError):
        cache.open_checked(NAME)
    assert cache.sweep() == len(DATA)
    assert _files(cache) == []


_TOO_LARGE = """
import os, resource, sys
from fastness._wasi.cache import Cache
from fastness.errors import BackendError
cache = Cache(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
def writer(fd):
    view = memoryview(bytes(5000))
    while view:
        view = view[os.write(fd, view):]
try:
    cache.put(sys.argv[2], writer)
except BackendError as error:
    print(error)
"""


def test_a_disk_that_takes_no_more_gives_path_and_fix(cache):
    """A write that the disk refuses is an error that names the path and says what to do, and leaves nothing."""
    child = _child(_TOO_LARGE, cache.path, NAME, stdout=subprocess.PIPE)
    text = child.communicate()[0].decode()
    assert os.path.join(cache.path, NAME) in text
    assert "Fix:" in text
    assert _files(cache) == []


def test_no_space_left_is_explained(cache):
    """ENOSPC becomes an error with the path and a fix that names FASTNESS_HOME."""

    def writer(fd):
        raise OSError(28, "No space left on device")

    with pytest.raises(BackendError, match="FASTNESS_HOME") as caught:
        cache.put(NAME, writer)
    assert cache.path in str(caught.value)
    assert _files(cache) == []


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path, mode):
    """Native code is not read from a folder where somebody else could have put it."""
    folder = tmp_path / "guests"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(ConfigurationError, match="chmod 700"):
        Cache(str(folder))
    assert folder.stat().st_mode & 0o777 == mode


def test_a_link_or_file_in_place_of_the_folder_is_refused(tmp_path):
    """The folder must be one itself."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("")
    for name in ("link", "file"):
        with pytest.raises(ConfigurationError):
            Cache(str(tmp_path / name))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder that belongs to somebody else")
def test_somebody_elses_folder_is_refused(tmp_path):
    """A folder of another user is refused with both users named."""
    folder = tmp_path / "guests"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    with pytest.raises(ConfigurationError, match="12345"):
        Cache(str(folder))


def test_a_parent_that_everyone_may_write_to_is_refused(tmp_path):
    """Whoever may rename the folder's parent could put another in its place."""
    parent = tmp_path / "open"
    parent.mkdir()
    parent.chmod(0o777)
    with pytest.raises(ConfigurationError, match="chmod o-w"):
        Cache(str(parent / "guests"))


def test_home_must_be_absolute(monkeypatch):
    """A relative FASTNESS_HOME would depend on where a command was started."""
    monkeypatch.setenv("FASTNESS_HOME", "some/where")
    with pytest.raises(ConfigurationError, match="absolute"):
        Cache()


def test_home_decides_the_place(monkeypatch, tmp_path):
    """The cache is below FASTNESS_HOME, and every folder on the way is owner-only."""
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    assert Cache().path == str(tmp_path / "home" / "cache" / "guests")
    for path in ("home", "home/cache", "home/cache/guests"):
        assert (tmp_path / path).stat().st_mode & 0o077 == 0


_WORKER = """
import os, sys, time
from fastness._wasi.cache import Cache
cache = Cache(sys.argv[1])
waited = []
with cache.lock(sys.argv[2], waited.append):
    try:
        os.close(cache.open_checked(sys.argv[2]))
        print("found", bool(waited))
    except FileNotFoundError:
        def writer(fd):
            time.sleep(0.5)
            os.write(fd, b"made")
        cache.put(sys.argv[2], writer)
        print("made")
"""


def test_parallel_makers_do_the_work_once(cache):
    """Of many processes that want the same entry one makes it; the others wait, are told so, and find it."""
    children = [_child(_WORKER, cache.path, NAME, stdout=subprocess.PIPE) for _ in range(4)]
    said = sorted(child.communicate()[0].decode().strip() for child in children)
    assert said.count("made") == 1
    assert all(word.startswith("found") for word in said if word != "made")
    assert _files(cache) == [NAME, NAME + ".json"]


def test_the_lock_excludes_threads_of_one_process(cache):
    """Two threads never hold the same lock, though its file is removed at each release."""
    inside, most = [0], [0]

    def work():
        for _ in range(5):
            with cache.lock(NAME):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.001)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_waiting_may_give_up(cache):
    """What the waiting callback raises ends the wait."""
    with cache.lock(NAME), pytest.raises(KeyboardInterrupt):
        cache.lock(NAME, lambda seconds: signal.raise_signal(signal.SIGINT))


def test_removed_while_open_stays_readable(cache):
    """Who has an entry open keeps it when it is pruned."""
    _fill(cache)
    fd = cache.open_checked(NAME)
    assert cache.remove(NAME) == len(DATA)
    assert os.pread(fd, 10, 0) == DATA[:10]
    os.close(fd)


@pytest.mark.parametrize("name", ["../x", "code-0", "tmp-" + "0" * 32, "code-" + "g" * 32, ""])
def test_names_are_of_one_form(cache, name):
    """No name can lead out of the folder."""
    with pytest.raises(ValueError, match="entry"):
        cache.lookup(name)


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5])
def test_tree_digest_sees_every_byte(tmp_path, size):
    """The digest changes with the first, the last and the number of bytes, and a short file is an error."""
    path = tmp_path / "file"
    with path.open("wb+") as file:
        file.truncate(size + 10)
        fd = file.fileno()
        first = tree_digest(fd, size)
        assert first == tree_digest(fd, size)
        assert first != tree_digest(fd, size + 1)
        for place in {0, size - 1} if size else ():
            os.pwrite(fd, b"x", place)
            assert tree_digest(fd, size) != first
            os.pwrite(fd, b"\0", place)
        with pytest.raises(OSError, match="shorter"):
            tree_digest(fd, size + 11)
